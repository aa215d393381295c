package offload_test

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bpflink "github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
)

// watcher polls a ring and keeps what its socket tells.
type watcher struct {
	t    *testing.T
	s    *ring.Socket
	dst  []ring.Completion
	seen map[uint64]bool // numbers of datagrams
	os   int
	path int // events
	sent int // and those of packets that were to be sent
}

func (w *watcher) poll() {
	n, err := w.s.Ring().Poll(w.dst)
	require.NoError(w.t, err) // a lost interface is told by the path
	for i := range w.dst[:n] {
		c := &w.dst[i]
		if c.Events.Has(ring.EventPath) {
			w.path++
		}
		if c.Events.Has(ring.EventSent) {
			w.sent++
		}
		if !c.Events.Has(ring.EventPacket) {
			continue
		}
		number := binary.LittleEndian.Uint64(c.Packet.Bytes())
		require.False(w.t, w.seen[number], "datagram %d came twice", number)
		w.seen[number] = true
		if c.ViaKernel {
			w.os++
		}
		require.NoError(w.t, c.Packet.Release())
	}
}

func (w *watcher) until(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !done(); w.poll() {
		require.True(w.t, time.Now().Before(end), "%s; %v\n%v", what, w.s.Path(), w.s.Ring().Stats().Driver)
	}
}

// stream numbers datagrams and sends them, at most one in every microsecond, until it is stopped.
type stream struct {
	sent atomic.Uint64
	stop atomic.Bool
	wg   sync.WaitGroup
}

func newStream(peer ringtest.Peer, pause time.Duration) *stream {
	s := &stream{}
	s.wg.Go(func() {
		for !s.stop.Load() {
			if _, err := peer.Write(binary.LittleEndian.AppendUint64(nil, s.sent.Load())); err == nil {
				s.sent.Add(1)
			}
			for start := time.Now(); time.Since(start) < pause; {
			}
		}
	})
	return s
}

func (s *stream) end() uint64 {
	s.stop.Store(true)
	s.wg.Wait()
	return s.sent.Load()
}

// detachable is a shared cable whose steering program the test can take off, as somebody else with the privilege could.
func detachable(t *testing.T) (*shared, func()) { return detachableOn(t, newCable(t, 1), xdp.Config{}) }

func detachableOn(t *testing.T, c *cable, config xdp.Config) (*shared, func()) {
	s := newSharedOn(t, c)
	var dev nic.Device
	open := nic.XDP(config)
	var err error
	s.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: s.mirror,
		Open: func(name string, p nic.Patience) (_ nic.Device, err error) {
			d, err := open(name, p)
			if err == nil {
				dev = d
			}
			return d, err
		}})
	require.NoError(t, err)
	return s, func() {
		id := dev.(interface{ Program() *xdp.Program }).Program().ID()
		require.NotZero(t, id)
		all := &bpflink.Iterator{}
		defer all.Close()
		for all.Next() {
			info, err := all.Link.Info()
			if err == nil && uint32(info.Program) == id {
				require.NoError(t, all.Link.Detach())
				return
			}
		}
		require.FailNow(t, "the program's link was not found")
	}
}

func watch(t *testing.T, s *shared) *watcher {
	set, _ := s.set(nil)
	w := &watcher{t: t, s: s.open(set, "10.0.0.1:7000"), dst: make([]ring.Completion, 64), seen: map[uint64]bool{}}
	require.NoError(t, w.s.SetReceiveBuffer(4<<20))
	w.poll()
	return w
}

// Somebody takes the steering program off, under traffic: what the rings held is lost and no more; the socket is notified of both changes of its
// path.
func TestProgramTakenOffAndBack(t *testing.T) {
	s, detach := detachable(t)
	w := watch(t, s)
	peer := s.Dial(w.s.LocalAddr())
	defer peer.Close()
	traffic := newStream(peer, 10*time.Microsecond)
	for range 3 {
		w.until("by the link", func() bool { return w.s.Path().Tier == "bypass" && counter(w.s.Ring(), "v0.rx_frames") > 0 })
		os, events := w.os, w.path
		detach()
		w.until("by the shadow", func() bool { return w.os > os })
		w.until("the first event", func() bool { return w.path > events })
		require.Equal(t, "kernel", w.s.Path().Tier)
		events = w.path
		w.until("back on the link", func() bool { return w.s.Path().Tier == "bypass" })
		w.until("the return is told too", func() bool { return w.path > events })
		frames := counter(w.s.Ring(), "v0.rx_frames")
		w.until("frames again", func() bool { return counter(w.s.Ring(), "v0.rx_frames") > frames })
	}
	sent := traffic.end()
	w.until("all", func() bool {
		return uint64(len(w.seen))+w.s.Stats().Drops+counter(w.s.Ring(), "v0.rx_lost")+3*2048 >= sent
	})
	t.Logf("sent %d, lost %d, by the kernel %d, dropped at the shadow %d, by the link %d", sent, sent-uint64(len(w.seen)), w.os, w.s.Stats().Drops,
		counter(w.s.Ring(), "v0.rx_lost"))
}

// Another process's program is on the interface for a while.
func TestAnotherProgramOnTheInterface(t *testing.T) {
	s, detach := detachable(t)
	w := watch(t, s)
	peer := s.Dial(w.s.LocalAddr())
	defer peer.Close()
	traffic := newStream(peer, 100*time.Microsecond)
	defer traffic.end()
	detach()
	other, err := xdp.Open(xdp.Config{Interface: "v0"})
	require.NoError(t, err)
	w.until("busy", func() bool { return w.s.Path().Tier == "kernel" && counter(w.s.Ring(), "offload.retry_failures") > 1 })
	require.Contains(t, w.s.Path().Explain(), "xdp.busy")
	os := w.os
	w.until("by the shadow", func() bool { return w.os > os+10 })
	require.NoError(t, other.Close())
	w.until("back", func() bool { return w.s.Path().Tier == "bypass" })
	require.GreaterOrEqual(t, w.path, 1)
	frames := counter(w.s.Ring(), "v0.rx_frames")
	w.until("frames again", func() bool { return counter(w.s.Ring(), "v0.rx_frames") > frames })
}

// Down and up again.
func TestInterfaceDownAndUp(t *testing.T) {
	s := newShared(t, 1)
	w := watch(t, s)
	l, err := netlink.LinkByName("v0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetDown(l))
	w.until("down", func() bool { return w.path == 1 })
	require.Equal(t, "kernel", w.s.Path().Tier)
	require.Contains(t, w.s.Path().Explain(), "link.down")
	require.NoError(t, netlink.LinkSetUp(l))
	w.until("up", func() bool { return w.path == 2 })
	require.Equal(t, "bypass", w.s.Path().Tier)
	peer := s.Dial(w.s.LocalAddr())
	defer peer.Close()
	traffic := newStream(peer, 100*time.Microsecond)
	defer traffic.end()
	frames := counter(w.s.Ring(), "v0.rx_frames")
	w.until("frames again", func() bool { return counter(w.s.Ring(), "v0.rx_frames") > frames })
}

// The interface is deleted, and made again with the same name: unicast and a group come by the link as before, and SENT comes for what was
// under way.
func TestInterfaceMadeAgain(t *testing.T) {
	s := newShared(t, 1)
	w := watch(t, s)
	group := netip.MustParseAddr("239.1.2.3")
	set := w.s.Ring()
	m := &watcher{t: t, s: s.openGroup(w, group), dst: w.dst, seen: map[uint64]bool{}}
	l, err := netlink.LinkByName("v0")
	require.NoError(t, err)
	old := l.Attrs().Index
	require.NoError(t, netlink.LinkSetDown(l)) // so that they stay in the transmit ring, if the mirror does not know it yet
	const packets = 10
	for i := range packets {
		p, err := set.Pool().Alloc(8)
		require.NoError(t, err)
		require.NoError(t, w.s.SendPacket(p, netip.MustParseAddrPort("10.0.0.2:9"), uint64(i)))
	}
	if err := set.Flush(); err != nil {
		require.ErrorContains(t, err, "v0")
	}
	require.NoError(t, netlink.LinkDel(l))
	w.until("SENT", func() bool { return w.sent == packets })
	w.until("gone", func() bool { return w.path >= 1 && strings.Contains(w.s.Path().Explain(), "link.gone") })
	require.Equal(t, "kernel", w.s.Path().Tier)
	w.until("the lost link's buffers are home", func() bool { return set.Ledger().Filling == 0 })
	s.Again(0)
	l, err = netlink.LinkByName("v0")
	require.NoError(t, err)
	require.NotEqual(t, old, l.Attrs().Index)
	w.until("back", func() bool { return w.s.Path().Tier == "bypass" })
	require.NotContains(t, m.s.Path().Explain(), "link.not_joined")

	peer := s.Dial(w.s.LocalAddr())
	defer peer.Close()
	frames := counter(set, "v0.rx_frames")
	traffic := newStream(peer, 100*time.Microsecond)
	w.until("frames again", func() bool { return counter(set, "v0.rx_frames") > frames+10 })
	traffic.end()
	w.until("settled", func() bool { return uint64(len(w.seen)) >= traffic.sent.Load() })
	toGroup := s.Dial(netip.AddrPortFrom(group, 7001))
	defer toGroup.Close()
	frames, os := counter(set, "v0.rx_frames"), w.os
	_, err = toGroup.Write(binary.LittleEndian.AppendUint64(nil, 1<<40))
	require.NoError(t, err)
	w.until("the group", func() bool { return w.seen[1<<40] })
	require.Equal(t, frames+1, counter(set, "v0.rx_frames"))
	require.Equal(t, os, w.os)
}

// openGroup makes a member of a group on the watcher's ring.
func (s *shared) openGroup(w *watcher, group netip.Addr) *ring.Socket {
	set := s.sets[len(s.sets)-1]
	u, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	require.NoError(s.t, err)
	require.NoError(s.t, u.Bind(netip.AddrPortFrom(group, 7001)))
	require.NoError(s.t, u.JoinGroup(group, "v0", netip.Addr{}))
	return u
}
