package offload_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/udp"
)

// besideSuccessor is a listener of a ring that carries TCP, under busy connections of a kernel, beside a listener of this host's kernel on the
// same port.
type besideSuccessor struct {
	*shared
	t        *testing.T
	e        *echoServer
	clients  echoClients
	accepted atomic.Int64 // by the kernel's listener
	ring     *ring.Ring
	detach   func()
}

var successorAt = netip.MustParseAddrPort("10.0.0.1:7000")

func newBesideSuccessor(t *testing.T, clients, closeClaims, flows int) *besideSuccessor {
	x := &besideSuccessor{t: t}
	x.shared, x.detach = detachableOn(t, newCable(t, 1), xdp.Config{TCP: true, Retry: letGo, Flows: flows})
	options := quickTCP(false)
	options.CloseClaims = closeClaims
	set, err := ring.NewSet(ring.SetConfig{Transport: offload.NewKernelPorts(x.mirror), Kind: "offload", OneRing: offload.OneRing,
		Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 4096, LargeSize: 65536, LargeCount: 8, Headroom: 192}),
		Driver: offload.New(offload.Config{Exchange: x.exchange, TCP: options,
			Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}}})})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	l, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, l.SetReusePort(true))
	require.NoError(t, l.Bind(successorAt))
	require.NoError(t, l.Listen(64))
	x.ring = l.Ring()

	control := func(_, _ string, raw syscall.RawConn) (err error) {
		e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, e)
	}
	successor, err := (&net.ListenConfig{Control: control}).Listen(context.Background(), "tcp4", successorAt.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = successor.Close() })
	go func() {
		for {
			c, err := successor.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			x.accepted.Add(1)
			_ = c.Close()
		}
	}()

	x.e = newEchoServer(t, l)
	for range clients {
		x.InPeer(func() { x.clients.begin(t, connecting(t, successorAt)) })
	}
	x.e.until("all connected", func() bool { return x.e.own == clients })
	x.moved("busy")
	return x
}

// moved waits until the connections have moved some more bytes.
func (x *besideSuccessor) moved(what string) {
	from := x.clients.bytes.Load()
	x.e.until(what, func() bool { return x.clients.bytes.Load() > from+1<<20 })
}

// close closes the listener while its connections are busy.
func (x *besideSuccessor) close() {
	require.NoError(x.t, x.e.listener.Close())
	for s := range x.e.open {
		x.e.listener = s // whose ring is polled
		break
	}
}

// dials connects n times from the peer's kernel, and returns the errors of those that were refused.
func (x *besideSuccessor) dials(n int) (refused int) {
	for range n {
		var fd int
		x.InPeer(func() { fd = connecting(x.t, successorAt) })
		failed := 0
		x.e.until("the dial ends", func() bool {
			list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			ready, err := unix.Poll(list, 0)
			if err != nil || ready == 0 {
				return false
			}
			failed, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			require.NoError(x.t, err)
			return true
		})
		require.NoError(x.t, unix.Close(fd))
		if failed != 0 {
			require.Equal(x.t, unix.ECONNREFUSED, syscall.Errno(failed))
			refused++
		}
	}
	return refused
}

// end lets the clients end, and checks that none of them has failed.
func (x *besideSuccessor) end() {
	x.clients.stop.Store(true)
	x.drain("all ended", func() bool { return x.clients.live.Load() == 0 && len(x.e.open) == 0 })
	require.Empty(x.t, x.clients.errs)
	require.Empty(x.t, x.e.failed)
}

// drain is until for when no socket may be left on the ring.
func (x *besideSuccessor) drain(what string, done func() bool) {
	dst := make([]ring.Completion, 64)
	for end := time.Now().Add(patience); !done(); {
		require.True(x.t, time.Now().Before(end), what)
		n, err := x.ring.Poll(dst)
		require.NoError(x.t, err)
		for i := range dst[:n] {
			x.e.handle(&dst[i])
		}
	}
}

// A listener that is closed leaves its port to the kernel if each of its connections can have a claim of its own: no more of them than
// CloseClaims, and with room in the steering program. Otherwise the port stays claimed until they have ended, and no connection suffers.
func TestClosedListenerWithManyConnections(t *testing.T) {
	const (
		connections = 4
		others      = 3 // entries of the program: the port, and two addresses of v0
	)
	for name, c := range map[string]struct {
		closeClaims, flows int
		leaves             bool
	}{
		"as many as may be":            {connections, 0, true},
		"one more than may be":         {connections - 1, 0, false},
		"none may be":                  {-1, 0, false},
		"no room in the program":       {0, others + 2, false},
		"just the room in the program": {0, others + connections, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newBesideSuccessor(t, connections, c.closeClaims, c.flows)
			require.Zero(t, x.dials(1))
			x.e.until("ours", func() bool { return x.e.own == connections+1 && counter(x.ring, "tcp.connections") == connections })
			require.Zero(t, x.accepted.Load(), "the port is claimed")
			x.close()
			const dials = 8
			if c.leaves {
				require.Zero(t, x.dials(dials))
				x.e.until("the successor has them", func() bool { return x.accepted.Load() == dials })
				require.Zero(t, counter(x.ring, "tcp.ports_kept"))
			} else {
				require.Equal(t, dials, x.dials(dials))
				require.Zero(t, x.accepted.Load())
				require.EqualValues(t, 1, counter(x.ring, "tcp.ports_kept"))
			}
			x.moved("busy without the listener")
			x.end()
			x.drain("the port is free in the end", func() bool {
				var fd int
				x.InPeer(func() { fd = connecting(t, successorAt) })
				before := x.accepted.Load()
				for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end) && x.accepted.Load() == before; {
					_, err := x.ring.Poll(make([]ring.Completion, 1)) // there is no socket that one could be for
					require.NoError(t, err)
				}
				require.NoError(t, unix.Close(fd))
				return x.accepted.Load() > before
			})
		})
	}
}

// The steering program is off the interface while busy connections live whose listener is closed: the guard keeps their segments from the
// kernel, whose listener on the port would reset them, and lets those of the kernel pass.
func TestProgramOffAfterTheListener(t *testing.T) {
	x := newBesideSuccessor(t, 20, 0, 0)
	x.close()
	x.moved("busy without the listener")
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	require.NoError(t, err)
	x.detach()
	other, err := bpflink.AttachXDP(bpflink.XDPOptions{Program: pass, Interface: linkOf(t, "v0").Attrs().Index, Flags: bpflink.XDPGenericMode})
	require.NoError(t, err)
	off := time.Now()
	x.e.until("lost", func() bool { return x.e.listener.Path().Lost != "" })
	x.e.until("a second", func() bool { return time.Since(off) > time.Second })
	require.Zero(t, x.dials(4))
	require.NoError(t, other.Close())
	require.NoError(t, pass.Close())
	x.e.until("back", func() bool { return x.e.listener.Path().Lost == "" })
	x.moved("busy again")
	require.Zero(t, x.dials(4))
	x.e.until("the successor has all", func() bool { return x.accepted.Load() == 8 })
	require.NotZero(t, counter(x.ring, "v0.guard.segment"))
	x.end()
	require.Zero(t, counter(x.ring, "tcp.resets_received"))
	require.Zero(t, counter(x.ring, "tcp.resets_sent"))
}
