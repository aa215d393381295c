package xtreme_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// groupSender is an offloaded socket that sends to a group with IP_MULTICAST_LOOP on, and a member of the group on the wire. Each datagram is
// counted as the kernel's or as the link's.
type groupSender struct {
	*cabled
	s    *xtreme.Socket
	to   netip.AddrPort
	wire *net.UDPConn
}

func newGroupSender(t *testing.T, n byte, pairs ...testnet.Pair) *groupSender {
	x := &groupSender{cabled: newCabled(t, pairs...), to: netip.AddrPortFrom(group(n), 7400)}
	x.wire = x.net.Listen(x.to)
	x.net.InPeer(func() {
		ifi, err := net.InterfaceByName("p0")
		x.NoError(err)
		x.NoError(ipv4.NewPacketConn(x.wire).JoinGroup(ifi, &net.UDPAddr{IP: x.to.Addr().AsSlice()}))
	})
	x.s = x.udp(x.at(0), xtreme.UDPConfig{MulticastInterface: x.net.Device(0)})
	return x
}

// send sends one datagram, which is on the wire once, and reports whether the kernel sent it.
func (x *groupSender) send(text string) (os bool) {
	x.t.Helper()
	by, link := counter(x.s.Ring(), "offload.os_sends"), x.frames()
	x.sendTo(x.s, text, x.to)
	x.NoError(x.poller.Flush())
	x.heard(x.wire, text)
	by, link = counter(x.s.Ring(), "offload.os_sends")-by, x.frames()-link
	x.Equal(uint64(1), by+link, "%q: offload.os_sends and the links' tx_frames: each datagram is one of them", text)
	return by == 1
}

// frames is what the ring's links have sent.
func (x *groupSender) frames() (n uint64) {
	for _, c := range x.s.Ring().Stats().Driver {
		if strings.HasPrefix(c.Name, "v0") && strings.HasSuffix(c.Name, ".tx_frames") {
			n += c.Value
		}
	}
	return n
}

func (x *groupSender) loops() bool { return slices.Contains(codes(x.s.Path()), "mcast.loop") }

// untilLoops polls until the path says that the kernel sends, or does not.
func (x *groupSender) untilLoops(loops bool) {
	x.t.Helper()
	for end := time.Now().Add(patience); x.loops() != loops; {
		x.False(time.Now().After(end), "mcast.loop is not %v: %v", loops, x.s.Path())
		x.poll()
		time.Sleep(time.Millisecond)
	}
}

// While nobody on this host is a member of the group, the link sends; while a socket of the kernel is, the kernel does, so that it receives,
// and path and counters say so.
func TestMulticastSendsAreToldByPathAndCounters(t *testing.T) {
	x := newGroupSender(t, 40)
	os := x.send("first")
	x.Equal(x.loops(), os, "the path says who sent: %v", x.s.Path())
	x.untilLoops(false)
	for range 5 {
		x.False(x.send("nobody here"), x.s.Path())
	}
	for range 2 {
		member := x.member(7400, x.to.Addr())
		x.changed(x.s)
		x.True(x.loops(), x.s.Path())
		for range 5 {
			x.True(x.send("heard here"), x.s.Path())
			x.heard(member, "heard here")
		}
		x.NoError(member.Close())
		x.changed(x.s)
		x.False(x.loops(), x.s.Path())
		x.False(x.send("again"), x.s.Path())
	}
	x.NoError(x.s.SetMulticastLoop(false))
	member := x.member(7400, x.to.Addr())
	x.False(x.send("not looped"), "nobody is to hear it here")
	x.NoError(x.s.SetMulticastLoop(true))
	x.untilLoops(true) // it may not have been seen yet
	x.True(x.send("looped"), x.s.Path())
	x.heard(member, "looped")
}

// Members on this poller's ring, and on another poller's, receive what the link sends: the stack loops it, once to each.
func TestMulticastSendsAreLoopedByTheStack(t *testing.T) {
	x := newGroupSender(t, 41, testnet.Pair{Queues: 2})
	x.untilLoops(false) // nothing was sent yet
	mine := x.udp(x.to, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "v0"}}})
	other := x.other(x.newPoller("other"))
	theirs := other.udp(x.to, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "v0"}}})
	x.Equal("bypass", theirs.Path().Tier, theirs.Path())
	hear := func(w *world, s *xtreme.Socket, text string) {
		t.Helper()
		c := w.next("a packet", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventPacket) })
		w.Equal(text, string(c.Packet.Bytes()))
		w.Equal(x.s.LocalAddr(), c.Source)
		w.Equal(x.to.Addr(), c.Destination.Addr())
		w.NoError(c.Packet.Release())
	}
	both := func(text string) (os bool) {
		os = x.send(text)
		hear(x.world, mine, text)
		hear(other, theirs, text)
		return os
	}
	both("first")
	x.untilLoops(false)
	for _, text := range []string{"one", "two", "three"} {
		x.False(both(text), x.s.Path())
	}
	x.close(mine)
	x.False(x.send("four"))
	x.poll() // which hands it over
	hear(other, theirs, "four")
	other.close(theirs)
	looped := counter(x.s.Ring(), "stack.looped")
	x.False(x.send("five"))
	x.poll()
	x.Equal(looped, counter(x.s.Ring(), "stack.looped"), "nobody is there to hear it")
}

// Whatever VMA_TX_MC_LOOPBACK says, the loopback interface brings back what is sent on it.
func TestMulticastOnTheLoopbackInterfaceComesBack(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		testnet.New(t)
		for _, setting := range []string{"0", "1"} {
			t.Setenv("VMA_TX_MC_LOOPBACK", setting)
			w := byEnvironment(t, kind)
			to := netip.MustParseAddrPort("239.4.4.4:4444")
			member := w.udp(to, xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "lo"}}})
			s := w.udp(loopback, xtreme.UDPConfig{MulticastInterface: "lo"})
			_, err := s.SendTo([]byte("x"), to)
			w.NoError(err)
			w.Equal("x", w.text(member))
			w.close(s)
			w.close(member)
		}
	})
}
