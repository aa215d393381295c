package xdp

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

var udp4000 = Flow{Protocol: link.UDP, Local: ap("10.0.0.1:4000")}

// Claimed datagrams come to the link, all others to the kernel; what the link sends, the peer's kernel accepts.
func TestAgainstAKernelPeer(t *testing.T) {
	for _, mode := range []Mode{ModeAuto, ModeNative} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, 1, 1500)
			d := w.device(Config{Mode: mode})
			q := w.open(d, 0)
			shadow, other := w.listen("10.0.0.1:4000"), w.listen("10.0.0.1:4001")
			peer := w.peer("10.0.0.2:5000")

			w.sendTo(peer, "10.0.0.1:4000", "before the claim")
			w.Equal("before the claim", w.read(shadow))
			w.NoError(d.Claim(udp4000))
			for i := range 1000 {
				w.sendTo(peer, "10.0.0.1:4000", fmt.Sprint("claimed ", i))
				w.Equal(fmt.Sprint("claimed ", i), w.next(q))
			}
			w.sendTo(peer, "10.0.0.1:4001", "not claimed")
			w.Equal("not claimed", w.read(other))
			w.sendTo(peer, "10.0.0.1:4000", strings.Repeat("fragments ", 300))
			w.Equal(strings.Repeat("fragments ", 300), w.read(shadow), "the kernel reassembles")
			w.silent(q)

			for i := range 1000 {
				w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", fmt.Sprint("answer ", i), uint64(i%2))
				w.Equal(fmt.Sprint("answer ", i), w.read(peer))
				for _, token := range w.complete(q) {
					w.EqualValues(1, token)
				}
			}
			w.inPeer(func() { w.Zero(w.udp("InCsumErrors")) })

			w.NoError(d.Release(udp4000))
			w.sendTo(peer, "10.0.0.1:4000", "after the release")
			w.Equal("after the release", w.read(shadow))
			s := q.Stats()
			w.EqualValues([]uint64{1000, 1000, 0, 0}, []uint64{s.RxFrames, s.TxFrames, s.RxLost, s.TxLost})
			w.EqualValues(1000, w.counter(q, "steer.hit"))
			w.Zero(w.counter(q, "steer.no_queue"))
			w.GreaterOrEqual(w.counter(q, "steer.fragment"), uint64(3))

			p := q.Path()
			w.True(p.Has(ReasonNoZeroCopy), "%v", p)
			w.Equal(hasSG(), p.Jumbo)
			if mode == ModeAuto {
				w.Equal("generic", p.Mode)
			} else {
				w.Equal("native", p.Mode)
			}
			for _, c := range link.AllCaps() {
				w.Equal(q.Caps().Has(c), q.Why(c) == link.Reason{}, "%v", c)
			}
			i := q.Info()
			w.Equal(w.mac, i.Addr)
			w.Equal(1518, i.MaxFrame)
			w.Equal(2240-256, i.PerBuffer)
			w.NoError(q.Check())
		})
	}
}

// Bursts longer than what one system call sends, and longer than the rings.
func TestBursts(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{RxRing: 128, TxRing: 128, Fill: 128})
	q := w.open(d, 0)
	w.NoError(d.Claim(udp4000))
	peer := w.peer("10.0.0.2:5000")
	w.NoError(peer.SetReadBuffer(4 << 20))
	const burst = 300
	sent := 0
	for sent < burst {
		if !w.trySend(q, "10.0.0.1:4000", "10.0.0.2:5000", fmt.Sprint(sent), 0) {
			w.NoError(q.Flush())
			q.Complete(nil)
			continue
		}
		sent++
	}
	w.complete(q)
	for i := range burst {
		w.Equal(fmt.Sprint(i), w.read(peer))
	}
	w.Less(q.Stats().Kicks, uint64(burst/10), "one call for many frames")

	// Ring and buffers hold 128; what came beyond is counted, to the last frame.
	for i := range burst {
		w.sendTo(peer, "10.0.0.1:4000", fmt.Sprint(i))
	}
	for i := range 128 {
		w.Equal(fmt.Sprint(i), w.next(q))
	}
	w.silent(q)
	s := q.Stats()
	w.EqualValues(burst, s.RxFrames+s.RxLost, "%v", q.Counters(nil))
	w.EqualValues(burst-128, w.counter(q, "xdp.rx_dropped")+w.counter(q, "xdp.rx_ring_full"))
	w.sendTo(peer, "10.0.0.1:4000", "again")
	w.Equal("again", w.next(q))
}

// One Flush hands all frames to the kernel, more than one of its calls sends, also where the kernel does not show how far it has come.
func TestOneFlush(t *testing.T) {
	for _, n := range []int{1, 32, 33, 50, 64, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, 1, 1500)
			d := w.device(Config{RxRing: 128, TxRing: 128, Fill: 128})
			q := w.open(d, 0)
			peer := w.peer("10.0.0.2:5000")
			for i := range n {
				w.True(w.trySend(q, "10.0.0.1:4000", "10.0.0.2:5000", fmt.Sprint(i), 0))
			}
			w.NoError(q.Flush())
			for i := range n {
				w.Equal(fmt.Sprint(i), w.read(peer))
			}
			w.complete(q)
		})
	}
}

// hasSG reports whether the kernel has frames in several buffers (XDP_USE_SG).
func hasSG() bool {
	has, _ := sys.ReleaseAtLeast(sys.KernelRelease(), 6, 6)
	return has
}

// Frames longer than a buffer come and go as chains.
func TestJumbo(t *testing.T) {
	if !hasSG() {
		testnet.Missing(t, "XDP_USE_SG", "frames in several buffers: Linux 6.6, this is "+sys.KernelRelease())
	}
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, 1, 9000)
			d := w.device(Config{Mode: mode})
			q := w.open(d, 0)
			w.True(q.Caps().Has(link.CapJumbo))
			w.NoError(d.Claim(udp4000))
			peer := w.peer("10.0.0.2:5000")
			for _, n := range []int{1, 1900, 1942, 1943, 4000, 8000, 8972} {
				text := strings.Repeat("x", n-1) + "."
				w.sendTo(peer, "10.0.0.1:4000", text)
				w.Equal(text, w.next(q), "%d bytes", n)
				w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", text, 0)
				w.Equal(text, w.read(peer), "%d bytes", n)
				w.complete(q)
			}
			w.inPeer(func() { w.Zero(w.udp("InCsumErrors")) })
			w.Zero(w.counter(q, "xdp.bad_numbers"))
		})
	}
}

// A descriptor that sleeps: epoll wakes for a frame, and Arm sees one that came before.
func TestSleeping(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	w.NoError(d.Claim(udp4000))
	peer := w.peer("10.0.0.2:5000")
	readable := func(ms int) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}, ms)
		w.NoError(err)
		return n == 1
	}
	w.False(q.Arm())
	w.False(readable(0))
	go func() {
		time.Sleep(20 * time.Millisecond)
		_, _ = peer.WriteToUDPAddrPort([]byte("wake"), ap("10.0.0.1:4000"))
	}()
	w.True(readable(5000))
	q.Disarm()
	w.True(q.Arm())
	q.Disarm()
	w.Equal("wake", w.next(q))
	w.False(q.Arm())
}

// Claims on all addresses take what comes to the interface's addresses.
func TestWildcard(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	w.NoError(d.Claim(Flow{Protocol: link.UDP, Local: ap("0.0.0.0:4000")}))
	shadow, peer := w.listen("10.0.0.1:4000"), w.peer("10.0.0.2:5000")
	w.sendTo(peer, "10.0.0.1:4000", "the address is not known")
	w.Equal("the address is not known", w.read(shadow))
	w.NoError(d.AddAddrs())
	w.sendTo(peer, "10.0.0.1:4000", "now it is")
	w.Equal("now it is", w.next(q))
}

// A claimed group comes to the link if the host has joined it; TCP is taken only when asked for.
func TestGroup(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	w.NoError(d.Claim(Flow{Protocol: link.UDP, Local: ap("239.1.2.3:4000")}))
	w.ErrorContains(d.Claim(Flow{Protocol: link.TCP, Local: ap("10.0.0.1:80")}), "Protocol 6")
	ifc, err := net.InterfaceByName("v0")
	w.NoError(err)
	shadow, err := net.ListenMulticastUDP("udp4", ifc, net.UDPAddrFromAddrPort(ap("239.1.2.3:4000")))
	w.NoError(err)
	defer func() { w.NoError(shadow.Close()) }()
	peer := w.peer("10.0.0.2:5000")
	w.inPeer(func() {
		l, err := netlink.LinkByName("v1")
		w.NoError(err)
		_, all, _ := net.ParseCIDR("224.0.0.0/4")
		w.NoError(netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: all}))
	})
	w.sendTo(peer, "239.1.2.3:4000", "to the group")
	w.Equal("to the group", w.next(q))
	w.True(slices.ContainsFunc(q.device.Counters(nil), func(c link.Counter) bool { return c.Name == "steer.hit" && c.Value == 1 }))
}

// Preferred busy polling is taken, or refused with a reason, and works either way. Where the kernel knows no queue to poll once frames have
// come, which SO_INCOMING_NAPI_ID tells, the path says so, and no system call is made for nothing.
func TestBusyPolling(t *testing.T) {
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		t.Run(mode.String(), func(t *testing.T) { busyPolling(t, mode) })
	}
}

func busyPolling(t *testing.T, mode Mode) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{Mode: mode, BusyPoll: true})
	q := w.open(d, 0)
	w.NoError(d.Claim(udp4000))
	w.NotEqual(q.busy, q.Path().Has(ReasonNoBusyPoll), "%v", q.Path())
	peer := w.peer("10.0.0.2:5000")
	for i := range 100 {
		w.sendTo(peer, "10.0.0.1:4000", fmt.Sprint(i))
		w.Equal(fmt.Sprint(i), w.next(q))
		w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", fmt.Sprint(i), 0)
		w.Equal(fmt.Sprint(i), w.read(peer))
	}
	w.complete(q)
	var none [1]link.Frame
	w.Zero(q.Receive(none[:]))
	id, err := unix.GetsockoptInt(q.sock.fd, unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID)
	w.NoError(err)
	w.Equal(id == 0, q.Path().Has(ReasonNoBusyPoll), "the socket's queue has id %d, %v", id, q.Path())
	before := q.stats.Kicks
	for range 100 {
		w.Zero(q.Receive(none[:]))
	}
	if id == 0 {
		w.Less(q.stats.Kicks-before, uint64(100))
	} else {
		w.Equal(uint64(100), q.stats.Kicks-before)
	}
}

// Datagrams that a peer on this host sends in one piece, to be cut at the end (UDP_SEGMENT), are left to the kernel, which cuts them.
func TestSegmentsOfThePeer(t *testing.T) {
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, 1, 1500)
			d := w.device(Config{Mode: mode})
			q := w.open(d, 0)
			w.NoError(d.Claim(udp4000))
			shadow, peer := w.listen("10.0.0.1:4000"), w.peer("10.0.0.2:5000")
			raw, err := peer.SyscallConn()
			w.NoError(err)
			w.NoError(raw.Control(func(fd uintptr) {
				w.NoError(unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000))
			}))
			w.sendTo(peer, "10.0.0.1:4000", strings.Repeat("s", 8000))
			for range 8 {
				if mode == ModeNative { // the peer has lost its offload: the datagrams come one by one
					w.Len(w.next(q), 1000)
				} else {
					w.Len(w.read(shadow), 1000)
				}
			}
			w.silent(q)
			if mode == ModeGeneric {
				w.Positive(w.counter(q, "steer.oversize"))
			}
		})
	}
}
