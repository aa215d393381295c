package stack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// The first datagrams to a neighbour wait for its address, one request a second asks for it, and they leave in order.
func TestResolution(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	for i := range 3 {
		v, err := w.send(id, peer, 9, fmt.Sprint(i))
		w.NoError(err)
		w.Equal(Queued, v)
	}
	eth, a := w.arp(w.only())
	w.Equal(wire.Broadcast, eth.Target())
	w.Equal(wire.ARPRequest, a.Operation())
	w.Equal(us, a.SenderAddr())
	w.Equal(peer, a.TargetAddr())
	w.after(900 * time.Millisecond)
	w.Empty(w.out())
	w.after(100 * time.Millisecond)
	w.arp(w.only())
	w.in(arpFrame(wire.ARPReply, peerMAC, peer, ourMAC, us))
	w.s.Refresh()
	frames := w.out()
	w.Len(frames, 3)
	ids := map[uint16]bool{}
	for i, b := range frames {
		s, h, payload := w.udp(b)
		w.Equal(fmt.Sprint(i), payload)
		w.Equal(peerMAC, s.eth.Target())
		w.Equal(ourMAC, s.eth.Source())
		w.Equal(us, s.ip.Source())
		w.Equal(peer, s.ip.Target())
		w.Equal(uint8(64), s.ip.TTL())
		w.True(s.ip.DontFragment())
		w.Equal(uint16(53), h.SourcePort())
		w.Equal(uint16(9), h.TargetPort())
		ids[s.ip.ID()] = true
	}
	w.Len(ids, 3)
	// From here on they leave at once.
	_, err := w.send(id, peer, 9, "now")
	w.NoError(err)
	_, _, payload := w.udp(w.only())
	w.Equal("now", payload)
}

func TestNobodyAnswers(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	p, err := w.pool.Alloc(3)
	w.NoError(err)
	p, err = w.pool.Transmit(p)
	w.NoError(err)
	v, e := w.s.Send(w.now, id, 0, peer, 9, p, 42)
	w.Zero(e)
	w.Equal(Queued, v)
	_, err = w.send(id, peer, 9, "a copy")
	w.NoError(err)
	asked := len(w.out())
	for range 60 {
		w.after(100 * time.Millisecond)
		asked += len(w.out())
	}
	w.Equal(3, asked)
	w.Equal([]Failure{{Packet: p, Token: 42, Errno: unix.EHOSTUNREACH}}, w.s.Failures())
	w.s.giveBack(p)
	w.s.Clear()
	w.Equal(uint64(2), w.s.GivenUp(host.GiveUpTime)+w.s.GivenUp(host.GiveUpFailed))
	// Asked for again when there is something to send again.
	_, err = w.send(id, peer, 9, "x")
	w.NoError(err)
	w.Len(w.out(), 1)
}

func TestBoundedWaiting(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	for range waitingPerTarget + 10 {
		_, err := w.send(id, peer, 9, "x")
		w.NoError(err)
	}
	w.Equal(uint64(10), w.s.GivenUp(host.GiveUpOldest))
	w.Equal(waitingPerTarget+1, w.pool.Ledger().Transmitting, "and the request")
	w.known()
	w.s.Refresh()
	w.Len(w.out(), waitingPerTarget)
}

// An entry in use is confirmed by a unicast request; one that is not used is forgotten; a new address is used at once.
func TestNeighbourLife(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	w.known()
	use := func() []byte {
		_, err := w.send(id, peer, 9, "x")
		w.NoError(err)
		return w.only()
	}
	use()
	for range 59 {
		w.after(time.Second)
		use()
	}
	w.after(time.Second)
	eth, a := w.arp(w.only())
	w.Equal(peerMAC, eth.Target(), "by unicast")
	w.Equal(peer, a.TargetAddr())
	use()                                                  // still used
	w.in(arpFrame(wire.ARPReply, gwMAC, peer, ourMAC, us)) // another card answers
	s, _, _ := w.udp(use())
	w.Equal(gwMAC, s.eth.Target())

	for range 63 { // nobody speaks to it
		w.after(time.Second)
	}
	for _, b := range w.out() {
		_, a := w.arp(b)
		w.Equal(peer, a.TargetAddr())
	}
	w.after(4 * time.Second)
	w.Empty(w.s.own.entries)
}

func TestARP(t *testing.T) {
	w := newWorld(t)
	w.in(arpFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us))
	eth, a := w.arp(w.only())
	w.Equal(peerMAC, eth.Target())
	w.Equal(wire.ARPReply, a.Operation())
	w.Equal(us, a.SenderAddr())
	w.Equal(ourMAC, a.SenderMAC())
	w.Equal(peer, a.TargetAddr())
	w.Len(w.s.own.entries, 1, "who asks is likely to be answered to")
	// A probe (RFC 5227) is answered and teaches nothing; a question for another and an announcement make no entry.
	w.in(arpFrame(wire.ARPRequest, gwMAC, none4, wire.MAC{}, us))
	w.only()
	w.in(arpFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, peer), arpFrame(wire.ARPReply, gwMAC, gateway, gwMAC, gateway))
	w.Empty(w.out())
	w.Len(w.s.own.entries, 1)
	// An announcement changes an entry that is there.
	w.in(arpFrame(wire.ARPReply, gwMAC, peer, gwMAC, peer))
	w.drop(wire.EthernetNotOurs, arpFrame(wire.ARPReply, gwMAC, peer, gwMAC, peer))
	announce := arpFrame(wire.ARPRequest, gwMAC, peer, wire.MAC{}, peer)
	w.in(announce)
	w.Equal(gwMAC, w.s.own.entries[0].mac)
	// The table is bounded.
	for i := range 2 * tableLimit {
		mac := wire.MAC{2, 9, 9, 9, byte(i >> 8), byte(i)}
		w.in(arpFrame(wire.ARPRequest, mac, wire.Addr{10, 0, byte(i >> 8), byte(i)}, wire.MAC{}, us))
		w.out()
	}
	w.LessOrEqual(len(w.s.own.entries), tableLimit)
}

func TestRoutes(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	sender := w.socket(udp.Endpoint{LocalPort: 54}, func(o *Options) { o.Broadcast, o.MulticastTTL, o.TOS, o.TTL = true, 5, 0xb8, 9 })
	w.in(arpFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	w.out()
	w.known()
	_, err := w.send(id, far, 9, "x")
	w.NoError(err)
	s, _, _ := w.udp(w.only())
	w.Equal(gwMAC, s.eth.Target(), "by the gateway")
	w.Equal(far, s.ip.Target())

	_, err = w.send(id, wire.Addr{198, 51, 100, 1}, 9, "x")
	w.ErrorIs(err, unix.EHOSTUNREACH)
	_, err = w.send(id, wire.Addr{8, 8, 8, 8}, 9, "x")
	w.ErrorIs(err, unix.ENETUNREACH)
	_, err = w.send(id, subnet, 9, "x")
	w.ErrorIs(err, unix.EACCES, "without SO_BROADCAST")
	_, err = w.send(id, peer, 0, "x")
	w.ErrorIs(err, unix.EINVAL)
	_, err = w.send(id, peer, 9, strings.Repeat("x", 1473))
	w.ErrorIs(err, unix.EMSGSIZE)

	_, err = w.send(sender, subnet, 9, "x")
	w.NoError(err)
	s, _, _ = w.udp(w.only())
	w.Equal(wire.Broadcast, s.eth.Target())
	w.Equal(us, s.ip.Source())
	_, err = w.send(sender, grp, 9, "x")
	w.NoError(err)
	s, _, _ = w.udp(w.only())
	w.Equal(wire.GroupMAC(grp), s.eth.Target())
	w.Equal(uint8(5), s.ip.TTL())
	w.Equal(uint8(0xb8), s.ip.TOS())

	// Changes are followed: the address goes, the MTU shrinks, an option is set.
	stamp := *w.s.Stamp()
	f := ownFacts()
	f.Links[0].MTU = 600
	w.s.own.Set(f)
	w.s.Refresh()
	w.NotEqual(stamp, *w.s.Stamp())
	_, err = w.send(id, far, 9, strings.Repeat("x", 573))
	w.ErrorIs(err, unix.EMSGSIZE)
	f.Routes = f.Routes[:2]
	w.s.own.Set(f)
	_, err = w.send(id, far, 9, "x")
	w.ErrorIs(err, unix.ENETUNREACH)
}

func TestPathMTU(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	w.in(arpFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	w.out()
	big := strings.Repeat("x", 1400)
	_, err := w.send(id, far, 9, big)
	w.NoError(err)
	quoted := w.only()[14:]
	b, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPFragmentation, MTU: 1000, Packet: quoted}).Append(nil)
	w.NoError(err)
	w.in(icmpFrame(b))
	_, err = w.send(id, far, 9, big)
	w.ErrorIs(err, unix.EMSGSIZE)
	_, err = w.send(id, far, 9, big[:1000-28])
	w.NoError(err)
	w.out()
	// No message makes it larger again (RFC 1191 section 3), but time does, by itself.
	b, err = (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPFragmentation, MTU: 1200, Packet: quoted}).Append(nil)
	w.NoError(err)
	w.in(icmpFrame(b))
	_, err = w.send(id, far, 9, big[:1001-28])
	w.ErrorIs(err, unix.EMSGSIZE)
	w.LessOrEqual(w.s.Deadline(), w.now.Add(10*time.Minute))
	w.after(10 * time.Minute)
	_, err = w.send(id, far, 9, big)
	w.NoError(err)
	w.out()
}

// What a host sends to itself stays in the stack: unicast, groups that it is a member of, refused ports.
func TestLoop(t *testing.T) {
	w := newWorld(t)
	w.socket(udp.Endpoint{Owner: 1, Local: us})
	member := w.socket(udp.Endpoint{})
	b := w.socket(udp.Endpoint{Owner: 2, Local: us, LocalPort: 54, Remote: us, RemotePort: 99})
	v, err := w.send(b, us, 53, "to myself")
	w.NoError(err)
	w.Equal(Kept, v)
	w.Empty(w.out())
	w.got = w.s.Loop(w.got[:0])
	w.Len(w.got, 1)
	w.Equal("to myself", string(w.got[0].Packet.Bytes()))
	w.Equal(udp.Flow{Source: us, SourcePort: 54, Target: us, TargetPort: 53, Interface: iface}, w.got[0].Flow)
	w.release()
	_, err = w.send(b, us, 99, "nobody")
	w.NoError(err)
	w.got = w.s.Loop(w.got[:0])
	w.Empty(w.got)
	w.Equal([]Event{{Owner: 2, Errno: unix.ECONNREFUSED}}, w.s.Events())
	w.s.Clear()

	w.NoError(w.s.Join(w.now, member, grp, iface, none4))
	w.out()
	for _, c := range []struct {
		ttl          uint8
		loop         bool
		looped, sent int
	}{{1, true, 1, 1}, {1, false, 0, 1}, {0, true, 1, 0}, {0, false, 0, 0}} {
		s := w.socket(udp.Endpoint{LocalPort: 60}, func(o *Options) { o.MulticastTTL, o.MulticastLoop = c.ttl, c.loop })
		_, err := w.send(s, grp, 53, "x")
		w.NoError(err)
		w.got = w.s.Loop(w.got[:0])
		w.Len(w.got, c.looped, "%+v", c)
		w.Len(w.out(), c.sent, "%+v", c)
		w.release()
		w.s.Remove(w.now, s)
	}
	for range loopLimit + 5 {
		_, err := w.send(b, us, 53, "x")
		w.NoError(err)
		if w.pool.Available(0) < 3 {
			break
		}
	}
	w.NotZero(w.s.Stats().LoopFull + w.s.Stats().Looped)
	w.got = w.s.Loop(w.got[:0])
}

// kernelHost is a host whose tables are the kernel's.
type kernelHost struct {
	snap        *host.Snapshot
	asked, used []host.Target
}

func (h *kernelHost) Generation() uint64       { return h.snap.Generation() }
func (h *kernelHost) Snapshot() *host.Snapshot { return h.snap }
func (h *kernelHost) Resolve(t host.Target)    { h.asked = append(h.asked, t) }
func (h *kernelHost) Use(t host.Target)        { h.used = append(h.used, t) }

// Beside a kernel, what only it can deliver is left to it, and what is its business is not answered.
func TestBesideAKernel(t *testing.T) {
	f := ownFacts()
	f.Links = append(f.Links, host.Link{Index: 9, Name: "other0", Type: unix.ARPHRD_ETHER, MTU: 1500, Flags: unix.IFF_UP})
	f.Routes = append(f.Routes, host.Route{Table: unix.RT_TABLE_MAIN, Type: host.Unicast, Prefix: mustPrefix("172.16.0.0/12"),
		Hops: []host.NextHop{{Interface: 9, Weight: 1}}})
	h := &kernelHost{snap: host.NewSnapshot(f, 1)}
	w := newWorld(t, func(c *Config) { c.Own, c.Host = nil, h })
	id := w.socket(udp.Endpoint{Local: us}, func(o *Options) { o.Broadcast, o.MulticastLoop = true, true })
	quiet := w.socket(udp.Endpoint{Local: us, LocalPort: 54})
	for _, to := range []wire.Addr{us, subnet, grp, {172, 16, 0, 1}} {
		v, err := w.send(id, to, 9, "x")
		w.NoError(err)
		w.Equal(ViaKernel, v, "%v", to)
	}
	v, err := w.send(quiet, grp, 9, "x")
	w.NoError(err)
	w.Equal(Queued, v, "without IP_MULTICAST_LOOP")
	w.only()
	_, err = w.send(quiet, peer, 9, "waits")
	w.NoError(err)
	target := host.Target{Interface: iface, Addr: peer.Netip()}
	w.Equal([]host.Target{target, target}, h.asked, "once to prepare, once to send")
	w.Empty(w.out(), "the kernel asks")
	f.Neighbours = []host.Neighbour{{Target: target, MAC: peerMAC, State: unix.NUD_REACHABLE}}
	h.snap = host.NewSnapshot(f, 2)
	w.s.Refresh()
	s, _, payload := w.udp(w.only())
	w.Equal("waits", payload)
	w.Equal(peerMAC, s.eth.Target())
	_, err = w.send(quiet, peer, 9, "at once")
	w.NoError(err)
	w.only()
	w.after(2 * time.Second)
	w.Equal([]host.Target{target}, h.used, "so that the kernel keeps the entry")

	w.drop(wire.EthernetType, arpFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us))
	w.drop(wire.IPv4Protocol, icmpFrame((&wire.ICMPEcho{}).Append(nil)))
	w.drop(wire.UDPNoSocket, from(peer, us, "x", func(d *datagram) { d.udp.TargetPort = 99 }))
	w.NoError(w.s.Join(w.now, id, grp, iface, none4))
	w.Empty(w.out(), "the kernel speaks IGMP")
}
