package extraapi_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

// VMA's defects and known issues, so far as what they are about exists here and the conformance cases do not have them. Each name is
// VMA's number for it, or where it is in its source.
var bugs = []struct {
	name  string
	kinds []string
	run   func(*world)
}{
	{"leaving one group deafens the others (sockinfo_udp.cpp)", everyKind, leaveOneGroup},
	{"multicast TTL 64 by default (sys_vars.h)", kernelKinds, multicastTTL},
	{"2132032: several sockets on one address, all traffic to one", everyKind, reusePort},
	{"close after send loses the packet", everyKind, closeAfterSend},
	{"875674: signals and sends to a closed connection", kernelKinds, sendAfterEnd},
	{"3604175: closing a ring with an empty queue hangs", everyKind, closeEmptyRing},
	{"1714768: leak in free_packets", everyKind, freeMany},
	{"965227: loopback within a process", everyKind, loopback},
	{"recvfrom_zcopy of TCP ignores FORCE (sockinfo_tcp.cpp)", kernelKinds, forceOnTCP},
	{"buffers that no socket wants are lost (ring_simple.cpp)", everyKind, unwanted},
}

func TestOldBugs(t *testing.T) {
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) { onEach(t, b.kinds, b.run) })
	}
}

func (w *world) device0() string {
	if w.kind == "offload" {
		return "mem0"
	}
	return "lo"
}

func leaveOneGroup(w *world) {
	a, b := netip.MustParseAddr("239.255.77.2"), netip.MustParseAddr("239.255.77.3")
	s := w.socket(ring.KindDatagram)
	for _, g := range []netip.Addr{a, b} {
		w.NoError(s.JoinGroup(g, w.device0(), netip.Addr{}))
	}
	w.NoError(s.Bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)))
	sender := w.socket(ring.KindDatagram)
	w.NoError(sender.SetMulticastInterface(w.device0()))
	w.NoError(sender.Bind(w.local))
	send := func(g netip.Addr) {
		_, err := sender.SendTo([]byte(g.String()), netip.AddrPortFrom(g, s.LocalAddr().Port()))
		w.NoError(err)
	}
	for _, g := range []netip.Addr{a, b} {
		send(g)
		w.Equal(g.String(), w.text(s))
	}
	w.NoError(s.LeaveGroup(a, w.device0(), netip.Addr{}))
	send(a)
	send(b)
	w.Equal(b.String(), w.text(s))
	w.silent(0)
}

func multicastTTL(w *world) {
	ttl, err := unix.GetsockoptInt(w.udp().ID(), unix.IPPROTO_IP, unix.IP_MULTICAST_TTL)
	w.NoError(err)
	w.Equal(1, ttl)
}

func reusePort(w *world) {
	share := func(s *ring.Socket) { w.NoError(s.SetReusePort(true)) }
	a := w.udp(share)
	b := w.socket(ring.KindDatagram)
	share(b)
	w.NoError(b.Bind(a.LocalAddr()))
	for range 100 { // each from another port
		w.peer().write([]byte("x"), a.LocalAddr())
	}
	w.until("all", func() bool {
		for i := range w.kept {
			w.NoError(w.kept[i].Packet.Release())
		}
		w.kept = nil
		return a.Stats().Packets+b.Stats().Packets == 100
	})
	w.Positive(a.Stats().Packets)
	w.Positive(b.Stats().Packets)
}

func closeAfterSend(w *world) {
	p := w.peer()
	for range 20 {
		s := w.udp()
		_, err := s.SendTo([]byte("last words"), p.addr())
		w.NoError(err)
		w.closed(s)
		w.Equal("last words", string(p.read()))
	}
}

func sendAfterEnd(w *world) {
	s, peer := w.pair(w.listen())
	w.NoError(peer.SetLinger(0))
	w.NoError(peer.Close())
	w.of(s)
	_, err := s.Send([]byte("x"))
	w.ErrorIs(err, unix.EPIPE, "and no SIGPIPE")
}

func closeEmptyRing(w *world) {
	r, err := w.set.NewRing()
	w.NoError(err)
	w.NoError(r.Close())
}

func freeMany(w *world) {
	s := w.udp()
	before := w.pool.Ledger().Free
	for range 20 {
		freed, err := extraapi.FreePackets(s, w.receive(s, 8)...)
		w.NoError(err)
		w.Equal(8, freed)
	}
	l := w.pool.Ledger()
	w.Zero(l.Held + l.Received)
	w.InDelta(before, l.Free, 64, "what the driver has ready apart")
}

// Members of a group in one process receive what one of them sends, itself included, and nothing where it does not want that; unicast too.
func loopback(w *world) {
	a, b := w.udp(), w.udp()
	_, err := a.SendTo([]byte("next door"), b.LocalAddr())
	w.NoError(err)
	w.Equal("next door", w.text(b))

	group := netip.MustParseAddr("239.255.77.4")
	var members []*ring.Socket
	at := netip.AddrPortFrom(group, 0)
	for range 2 {
		s := w.socket(ring.KindDatagram)
		w.NoError(s.SetReuseAddr(true))
		w.NoError(s.JoinGroup(group, w.device0(), netip.Addr{}))
		w.NoError(s.SetMulticastInterface(w.device0()))
		w.NoError(s.Bind(at))
		at = s.LocalAddr()
		members = append(members, s)
	}
	for _, from := range members {
		_, err := from.SendTo([]byte("to all"), at)
		w.NoError(err)
		for _, s := range members {
			w.Equal("to all", w.text(s))
		}
	}
	w.NoError(members[0].SetMulticastLoop(false))
	_, err = members[0].SendTo([]byte("to others"), at)
	w.NoError(err)
	w.silent(0)
}

func forceOnTCP(w *world) {
	s, peer := w.pair(w.listen(w.pull))
	w.arrive(s, peer, "data")
	_, _, err := extraapi.RecvFromZeroCopy(s, make([]ring.Completion, 1), 0, extraapi.ZeroCopyForce)
	w.ErrorIs(err, unix.EIO)
	b := make([]byte, 4)
	_, _, err = extraapi.Recv(s, b)
	w.NoError(err)
	w.Equal("data", string(b))
}

// Datagrams of a stranger to a connected socket, and for a port that nobody has.
func unwanted(w *world) {
	s, friend, stranger := w.udp(), w.peer(), w.peer()
	w.NoError(s.Connect(friend.addr()))
	gone := w.udp()
	to := gone.LocalAddr()
	w.closed(gone)
	for range 200 {
		stranger.write([]byte("unwanted"), s.LocalAddr())
		friend.write([]byte("wanted"), s.LocalAddr())
		w.Equal("wanted", w.text(s))
		if w.kind == "offload" {
			stranger.write([]byte("nobody"), to)
			w.poll()
		}
	}
	l := w.pool.Ledger()
	w.Zero(l.Received + l.Held)
}
