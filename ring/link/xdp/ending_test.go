package xdp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/linktest"
)

// When another takes the program off under traffic the link says so, and the kernel has the traffic back at once.
func TestDetachedUnderTraffic(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	shadow := w.listen("10.0.0.1:4000")
	w.NoError(shadow.SetReadBuffer(8 << 20))
	w.NoError(d.Claim(udp4000))
	peer := w.peer("10.0.0.2:5000")
	const total = 20_000
	detached, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for i := range total {
			if i == total/2 {
				<-detached // so that the kernel has some to receive, however late this test's turn comes
			}
			_, _ = peer.WriteToUDPAddrPort([]byte(fmt.Sprintf("%08d", i)), ap("10.0.0.1:4000"))
		}
	}()
	fast, failed := 0, false
	for {
		n := q.Receive(w.dst[:])
		for _, f := range w.dst[:n] {
			w.NoError(f.Packet.Release())
		}
		fast += n
		if fast > 500 && !failed {
			w.NoError(q.Check())
			w.NoError(d.program.link.Detach())
			d.program.probe()
			failed = true
			w.ErrorIs(q.Check(), link.ErrDetached)
			close(detached)
		}
		select {
		case <-sent:
			if n == 0 {
				goto over
			}
		default:
		}
	}
over:
	w.True(failed)
	slow := 0
	b := make([]byte, 100)
	for {
		w.NoError(shadow.SetReadDeadline(time.Now().Add(100 * time.Millisecond)))
		if _, err := shadow.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else {
			w.NoError(err)
		}
		slow++
	}
	v0, err := netlink.LinkByName("v0")
	w.NoError(err)
	lost := int(q.Stats().RxLost) + w.udp("RcvbufErrors") + int(v0.Attrs().Statistics.RxDropped) // the last: a slow machine's backlog was full
	w.Equal(total, fast+slow+lost, "fast %d, slow %d, lost %d", fast, slow, lost)
	w.Greater(slow, 0)
}

// The second who wants the interface is told who has it; after the first has gone it is free at once.
func TestBusy(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	for _, mode := range []Mode{ModeAuto, ModeNative} {
		_, err := Open(Config{Interface: "v0", Mode: mode, Retry: -1})
		r := refused(t, err, ReasonBusy)
		w.Contains(r.Reason.Text, fmt.Sprintf("program id %d, pid=%d", d.program.ID(), os.Getpid()))
		w.True(isBusy(r), "%v", err)
	}
	_, err := d.OpenQueue(0, w.pool())
	refused(t, err, ReasonBusy)

	// A foreign AF_XDP socket on the queue.
	w.NoError(q.Close())
	foreign, err := newSocket(w.pool().Region(), 2240, &Config{RxRing: 64, TxRing: 64, Fill: 64})
	w.NoError(err)
	l, err := netlink.LinkByName("v0")
	w.NoError(err)
	w.NoError(foreign.bind(l.Attrs().Index, 0, unix.XDP_COPY, time.Second))
	d.config.Retry = -1
	_, err = d.OpenQueue(0, w.pool())
	r := refused(t, err, ReasonBusy)
	w.ErrorIs(r, unix.EBUSY)
	w.NoError(foreign.close())

	// A quick reopen finds the queue still busy inside the kernel, and tries again.
	d.config.Retry = time.Second
	for range 10 {
		q := w.open(d, 0)
		w.NoError(q.Close())
		w.ErrorIs(q.Close(), link.ErrClosed)
		w.ErrorIs(q.Check(), link.ErrClosed)
		w.Zero(q.Receive(w.dst[:]))
		w.Zero(q.Send(nil))
	}
	w.NoError(d.Close())
	w.device(Config{})
}

// Closing under traffic loses at most what was in the rings; all else is the kernel's.
func TestCloseUnderTraffic(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	shadow := w.listen("10.0.0.1:4000")
	w.NoError(shadow.SetReadBuffer(8 << 20))
	w.NoError(d.Claim(udp4000))
	peer := w.peer("10.0.0.2:5000")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = peer.WriteToUDPAddrPort([]byte("traffic"), ap("10.0.0.1:4000"))
			}
		}
	}()
	w.next(q)
	w.next(q)
	w.trySend(q, "10.0.0.1:4000", "10.0.0.2:5000", "never flushed", 7)
	w.NoError(q.Close())
	ledger := q.pool.Ledger()
	w.Equal(ledger.Total, ledger.Free, "%v", ledger)
	w.Equal("traffic", w.read(shadow))
	w.NoError(d.Close())
	close(stop)
	<-stopped
}

// Down and up again the link lives on; when the interface is deleted it is detached.
func TestInterfaceGoes(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	w.NoError(d.Claim(udp4000))
	peer := w.peer("10.0.0.2:5000")
	l, err := netlink.LinkByName("v0")
	w.NoError(err)
	w.NoError(netlink.LinkSetDown(l))
	w.True(w.trySend(q, "10.0.0.1:4000", "10.0.0.2:5000", "while down", 0))
	w.ErrorIs(q.Flush(), unix.ENETDOWN)
	again := q.Flush()
	w.ErrorIs(again, unix.ENETDOWN)
	w.NotErrorIs(again, link.ErrDetached)
	w.Zero(testing.AllocsPerRun(10, func() { _ = q.Flush() }))
	w.NoError(q.Check())
	w.NoError(netlink.LinkSetUp(l))
	w.neighbour("v0", theirs, w.peerMAC)
	w.complete(q)
	w.Equal("while down", w.read(peer))
	w.sendTo(peer, "10.0.0.1:4000", "up again")
	w.Equal("up again", w.next(q))

	w.NoError(netlink.LinkDel(l))
	d.program.probe()
	w.ErrorIs(q.Check(), link.ErrDetached)
	w.True(w.trySend(q, "10.0.0.1:4000", "10.0.0.2:5000", "to nobody", 0))
	w.ErrorIs(q.Flush(), link.ErrDetached)
	w.Zero(q.Receive(w.dst[:]))
	w.NoError(q.Close())
}

// A process that is killed leaves nothing on the interface.
func TestKilled(t *testing.T) {
	if os.Getenv("XDP_TEST_VICTIM") != "" {
		d, err := Open(Config{Interface: "v0"})
		require.NoError(t, err)
		w := &world{Assertions: require.New(t), t: t}
		_, err = d.OpenQueue(0, w.pool())
		require.NoError(t, err)
		require.NoError(t, d.Claim(udp4000))
		fmt.Println("ready")
		time.Sleep(time.Minute)
		t.Fatal("nobody killed this process")
	}
	w := newWorld(t, 1, 1500)
	shadow := w.listen("10.0.0.1:4000")
	peer := w.peer("10.0.0.2:5000")
	victim := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	victim.Env = append(os.Environ(), "XDP_TEST_VICTIM=1")
	out, err := victim.StdoutPipe()
	w.NoError(err)
	w.NoError(victim.Start())
	b := make([]byte, 100)
	n, err := out.Read(b)
	w.NoError(err)
	w.True(bytes.HasPrefix(b[:n], []byte("ready")), "%s", b[:n])
	w.sendTo(peer, "10.0.0.1:4000", "to the victim")
	_, err = Open(Config{Interface: "v0", Retry: -1})
	w.Contains(refused(t, err, ReasonBusy).Reason.Text, fmt.Sprintf("pid=%d", victim.Process.Pid))
	w.NoError(victim.Process.Kill())
	w.Error(victim.Wait())
	w.sendTo(peer, "10.0.0.1:4000", "to the kernel")
	w.Equal("to the kernel", w.read(shadow))
	d := w.device(Config{})
	q := w.open(d, 0)
	w.NoError(d.Claim(udp4000))
	w.sendTo(peer, "10.0.0.1:4000", "to the next")
	w.Equal("to the next", w.next(q))
}

// The device may go before its queues: they receive nothing more, and close all the same.
func TestDeviceGoesFirst(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	w.NoError(d.Close())
	w.ErrorIs(d.Close(), link.ErrClosed)
	w.ErrorIs(q.Check(), link.ErrClosed)
	w.Empty(d.Counters(nil))
	w.Zero(q.Receive(w.dst[:]))
	w.NoError(q.Close())
}

// Without privileges there is a reason. (Root gives them up for the thread of the test.)
func TestNoCapability(t *testing.T) {
	if unix.Geteuid() == 0 {
		w := newWorld(t, 1, 1500)
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		w.NoError(unix.Capset(&header, &none[0]))
	}
	name := "lo"
	_, err := Open(Config{Interface: name})
	r := refused(t, err, ReasonNoCapability)
	require.True(t, errors.Is(r, unix.EPERM) || errors.Is(r, unix.EACCES), "%v", r)
	require.Contains(t, r.Error(), "CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN")
}

func TestArguments(t *testing.T) {
	for want, c := range map[string]Config{
		"Interface is empty":                  {},
		"RxRing is 100, must be a power":      {Interface: "lo", RxRing: 100},
		"TxRing is -2, must be a power":       {Interface: "lo", TxRing: -2},
		"Fill is 4, must be a power":          {Interface: "lo", Fill: 4},
		"Flows is -1, must be 1 to":           {Interface: "lo", Flows: -1},
		"Mode is 9, must be 0 to 2":           {Interface: "lo", Mode: 9},
		"Copy is 9, must be 0 to 2":           {Interface: "lo", Copy: 9},
		"Time is 9, must be 0 to 3":           {Interface: "lo", Time: 9},
		"no such interface: no such device [": {Interface: "no-such-if0"},
	} {
		_, err := Open(c)
		require.ErrorContains(t, err, want)
	}
	_, err := Open(Config{Interface: "no-such-if0"})
	require.ErrorIs(t, refused(t, err, ReasonNoDevice), unix.ENODEV)
}

// No method of a closed queue touches what is gone: rings that are unmapped, a descriptor whose number is another's. After Stop and after
// Shut the same holds but for what Retire still has to do.
func TestClosed(t *testing.T) {
	for _, how := range []string{"Close", "Close without frames", "Retire", "device and Close"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, 1, 1500)
			d := w.device(Config{})
			w.NoError(d.Claim(udp4000))
			peer := w.peer("10.0.0.2:5000")
			q := w.open(d, 0)
			if how != "Close without frames" {
				w.sendTo(peer, "10.0.0.1:4000", "it waits")
				for end := time.Now().Add(patience); !q.Arm(); {
					w.True(time.Now().Before(end), "nothing has come")
				}
			}
			switch how {
			case "Close", "Close without frames":
				w.NoError(q.Close())
			case "Retire":
				q.Stop()
				w.False(q.Arm(), "stopped: Receive finds nothing")
				w.ErrorIs(q.Flush(), link.ErrClosed)
				w.NoError(q.Shut())
				w.False(q.Arm(), "shut")
				w.Equal(-1, q.FD())
				w.NoError(q.Retire())
			default:
				w.NoError(d.Close())
				w.NoError(q.Close())
			}
			linktest.Closed(t, q, q.pool, func() buffers.Packet {
				p, err := q.pool.Alloc(60)
				w.NoError(err)
				p, err = q.pool.Transmit(p)
				w.NoError(err)
				return p
			})
		})
	}
}

// foreign puts a program of somebody else on v0.
func (w *world) foreign() (*ebpf.Program, bpflink.Link) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	w.NoError(err)
	found, err := netlink.LinkByName("v0")
	w.NoError(err)
	l, err := bpflink.AttachXDP(bpflink.XDPOptions{Program: p, Interface: found.Attrs().Index, Flags: bpflink.XDPGenericMode})
	w.NoError(err)
	return p, l
}

// A process that tries again and again to open an interface in use loads no program in vain, and goes through /proc once for each program
// that is in the way.
func TestBusyIsCheap(t *testing.T) {
	w := newWorld(t, 1, 1500)
	for round := range uint64(2) {
		p, l := w.foreign()
		info, err := p.Info()
		w.NoError(err)
		id, _ := info.ID()
		loaded, scanned := loads.Load(), scans.Load()
		for range 10 {
			for _, mode := range []Mode{ModeAuto, ModeNative} {
				_, err := Open(Config{Interface: "v0", Mode: mode, Retry: -1})
				r := refused(t, err, ReasonBusy)
				w.Contains(r.Reason.Text, fmt.Sprintf("program id %d, pid=%d", id, os.Getpid()))
				w.True(isBusy(r))
			}
		}
		w.Equal(loaded, loads.Load(), "programs loaded in round %d", round)
		w.Equal(scanned+1, scans.Load(), "looks through /proc in round %d", round)
		w.NoError(l.Close())
		w.NoError(p.Close())
	}
	w.device(Config{})
}
