package ip_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// The first datagrams to a neighbour wait for its address, one request a second asks for it, and they leave in order.
func TestResolution(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	for i := range 3 {
		v, err := w.Send(id, peer, 9, fmt.Sprint(i))
		w.NoError(err)
		w.Equal(udp.Queued, v)
	}
	eth, a := w.ParseARP(w.Only())
	w.Equal(wire.Broadcast, eth.Target())
	w.Equal(wire.ARPRequest, a.Operation())
	w.Equal(us, a.SenderAddr())
	w.Equal(peer, a.TargetAddr())
	w.After(900 * time.Millisecond)
	w.Empty(w.Out())
	w.After(100 * time.Millisecond)
	w.ParseARP(w.Only())
	w.In(iptest.ARPFrame(wire.ARPReply, peerMAC, peer, ourMAC, us))
	w.IP.Refresh()
	frames := w.Out()
	w.Len(frames, 3)
	ids := map[uint16]bool{}
	for i, b := range frames {
		s, h, payload := w.ParseUDP(b)
		w.Equal(fmt.Sprint(i), payload)
		w.Equal(peerMAC, s.Eth.Target())
		w.Equal(ourMAC, s.Eth.Source())
		w.Equal(us, s.IP.Source())
		w.Equal(peer, s.IP.Target())
		w.Equal(uint8(64), s.IP.TTL())
		w.True(s.IP.DontFragment())
		w.Equal(uint16(53), h.SourcePort())
		w.Equal(uint16(9), h.TargetPort())
		ids[s.IP.ID()] = true
	}
	w.Len(ids, 3)
	// From here on they leave at once.
	_, err := w.Send(id, peer, 9, "now")
	w.NoError(err)
	_, _, payload := w.ParseUDP(w.Only())
	w.Equal("now", payload)
}

func TestNobodyAnswers(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	p, err := w.Pool.Alloc(3)
	w.NoError(err)
	p, err = w.Pool.Transmit(p)
	w.NoError(err)
	v, e := w.UDP.SendSlow(w.Now, id, 0, peer, 9, p, 42)
	w.Zero(e)
	w.Equal(udp.Queued, v)
	_, err = w.Send(id, peer, 9, "a copy")
	w.NoError(err)
	asked := len(w.Out())
	for range 60 {
		w.After(100 * time.Millisecond)
		asked += len(w.Out())
	}
	w.Equal(3, asked)
	w.Equal([]ip.Failure{{Packet: p, Token: 42, Errno: unix.EHOSTUNREACH}}, w.IP.Failures())
	w.Pool.FreeTransmit(p)
	w.UDP.ClearErrors()
	w.IP.ClearFailures()
	w.Equal(uint64(2), w.IP.GivenUp(host.GiveUpTime)+w.IP.GivenUp(host.GiveUpFailed))
	// Asked for again when there is something to send again.
	_, err = w.Send(id, peer, 9, "x")
	w.NoError(err)
	w.Len(w.Out(), 1)
}

func TestBoundedWaiting(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	for range ip.WaitingPerTarget + 10 {
		_, err := w.Send(id, peer, 9, "x")
		w.NoError(err)
	}
	w.Equal(uint64(10), w.IP.GivenUp(host.GiveUpOldest))
	w.Equal(ip.WaitingPerTarget+1, w.Pool.Ledger().Transmitting, "and the request")
	w.KnowPeer()
	w.IP.Refresh()
	w.Len(w.Out(), ip.WaitingPerTarget)
}

// An entry in use is confirmed by a unicast request; one that is not used is forgotten; a new address is used at once.
func TestNeighbourLife(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	w.KnowPeer()
	use := func() []byte {
		_, err := w.Send(id, peer, 9, "x")
		w.NoError(err)
		return w.Only()
	}
	use()
	for range 59 {
		w.After(time.Second)
		use()
	}
	w.After(time.Second)
	eth, a := w.ParseARP(w.Only())
	w.Equal(peerMAC, eth.Target(), "by unicast")
	w.Equal(peer, a.TargetAddr())
	use()                                                         // still used
	w.In(iptest.ARPFrame(wire.ARPReply, gwMAC, peer, ourMAC, us)) // another card answers
	s, _, _ := w.ParseUDP(use())
	w.Equal(gwMAC, s.Eth.Target())

	for range 63 { // nobody speaks to it
		w.After(time.Second)
	}
	for _, b := range w.Out() {
		_, a := w.ParseARP(b)
		w.Equal(peer, a.TargetAddr())
	}
	w.After(4 * time.Second)
	w.Zero(w.LocalHost.NumNeighbours())
}

func TestARP(t *testing.T) {
	w := newWorld(t)
	w.In(iptest.ARPFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us))
	eth, a := w.ParseARP(w.Only())
	w.Equal(peerMAC, eth.Target())
	w.Equal(wire.ARPReply, a.Operation())
	w.Equal(us, a.SenderAddr())
	w.Equal(ourMAC, a.SenderMAC())
	w.Equal(peer, a.TargetAddr())
	w.Equal(1, w.LocalHost.NumNeighbours(), "who asks is likely to be answered to")
	// A probe (RFC 5227) is answered and teaches nothing; a question for another and an announcement make no entry.
	w.In(iptest.ARPFrame(wire.ARPRequest, gwMAC, none4, wire.MAC{}, us))
	w.Only()
	w.In(iptest.ARPFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, peer), iptest.ARPFrame(wire.ARPReply, gwMAC, gateway, gwMAC, gateway))
	w.Empty(w.Out())
	w.Equal(1, w.LocalHost.NumNeighbours())
	// An announcement changes an entry that is there.
	w.In(iptest.ARPFrame(wire.ARPReply, gwMAC, peer, gwMAC, peer))
	w.Drop(wire.EthernetNotOurs, iptest.ARPFrame(wire.ARPReply, gwMAC, peer, gwMAC, peer))
	announce := iptest.ARPFrame(wire.ARPRequest, gwMAC, peer, wire.MAC{}, peer)
	w.In(announce)
	w.Equal(gwMAC, w.LocalHost.StationOf(0))
	// The table is bounded.
	for i := range 2 * ip.TableLimit {
		mac := wire.MAC{2, 9, 9, 9, byte(i >> 8), byte(i)}
		w.In(iptest.ARPFrame(wire.ARPRequest, mac, wire.Addr{10, 0, byte(i >> 8), byte(i)}, wire.MAC{}, us))
		w.Out()
	}
	w.LessOrEqual(w.LocalHost.NumNeighbours(), ip.TableLimit)
}

func TestRoutes(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	sender := w.Socket(udp.Endpoint{LocalPort: 54}, func(o *udp.Options) { o.Broadcast, o.MulticastTTL, o.TOS, o.TTL = true, 5, 0xb8, 9 })
	w.In(iptest.ARPFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	w.Out()
	w.KnowPeer()
	_, err := w.Send(id, far, 9, "x")
	w.NoError(err)
	s, _, _ := w.ParseUDP(w.Only())
	w.Equal(gwMAC, s.Eth.Target(), "by the gateway")
	w.Equal(far, s.IP.Target())

	_, err = w.Send(id, wire.Addr{198, 51, 100, 1}, 9, "x")
	w.ErrorIs(err, unix.EHOSTUNREACH)
	_, err = w.Send(id, wire.Addr{8, 8, 8, 8}, 9, "x")
	w.ErrorIs(err, unix.ENETUNREACH)
	_, err = w.Send(id, subnet, 9, "x")
	w.ErrorIs(err, unix.EACCES, "without SO_BROADCAST")
	_, err = w.Send(id, peer, 0, "x")
	w.ErrorIs(err, unix.EINVAL)
	_, err = w.Send(id, peer, 9, strings.Repeat("x", 1473))
	w.ErrorIs(err, unix.EMSGSIZE)

	_, err = w.Send(sender, subnet, 9, "x")
	w.NoError(err)
	s, _, _ = w.ParseUDP(w.Only())
	w.Equal(wire.Broadcast, s.Eth.Target())
	w.Equal(us, s.IP.Source())
	_, err = w.Send(sender, grp, 9, "x")
	w.NoError(err)
	s, _, _ = w.ParseUDP(w.Only())
	w.Equal(wire.GroupMAC(grp), s.Eth.Target())
	w.Equal(uint8(5), s.IP.TTL())
	w.Equal(uint8(0xb8), s.IP.TOS())

	// Changes are followed: the address goes, the MTU shrinks, an option is set.
	stamp := *w.IP.RouteGeneration()
	f := iptest.Facts()
	f.Links[0].MTU = 600
	w.LocalHost.Set(f)
	w.IP.Refresh()
	w.NotEqual(stamp, *w.IP.RouteGeneration())
	_, err = w.Send(id, far, 9, strings.Repeat("x", 573))
	w.ErrorIs(err, unix.EMSGSIZE)
	f.Routes = f.Routes[:2]
	w.LocalHost.Set(f)
	_, err = w.Send(id, far, 9, "x")
	w.ErrorIs(err, unix.ENETUNREACH)
}

func TestPathMTU(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	w.In(iptest.ARPFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	w.Out()
	big := strings.Repeat("x", 1400)
	_, err := w.Send(id, far, 9, big)
	w.NoError(err)
	quoted := w.Only()[14:]
	b, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPFragmentation, MTU: 1000, Packet: quoted}).Append(nil)
	w.NoError(err)
	w.In(iptest.ICMPFrame(b))
	_, err = w.Send(id, far, 9, big)
	w.ErrorIs(err, unix.EMSGSIZE)
	_, err = w.Send(id, far, 9, big[:1000-28])
	w.NoError(err)
	w.Out()
	// No message makes it larger again (RFC 1191 section 3), but time does, by itself.
	b, err = (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPFragmentation, MTU: 1200, Packet: quoted}).Append(nil)
	w.NoError(err)
	w.In(iptest.ICMPFrame(b))
	_, err = w.Send(id, far, 9, big[:1001-28])
	w.ErrorIs(err, unix.EMSGSIZE)
	w.LessOrEqual(w.IP.Deadline(), w.Now.Add(10*time.Minute))
	w.After(10 * time.Minute)
	_, err = w.Send(id, far, 9, big)
	w.NoError(err)
	w.Out()
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
	f := iptest.Facts()
	f.Links = append(f.Links, host.Link{Index: 9, Name: "other0", Type: unix.ARPHRD_ETHER, MTU: 1500, Flags: unix.IFF_UP})
	f.Routes = append(f.Routes, host.Route{Table: unix.RT_TABLE_MAIN, Type: host.Unicast, Prefix: mustPrefix("172.16.0.0/12"),
		Hops: []host.NextHop{{Interface: 9, Weight: 1}}})
	h := &kernelHost{snap: host.NewSnapshot(f, 1)}
	w := newWorld(t, func(c *ip.Config) { c.LocalHost, c.Host = nil, h })
	id := w.Socket(udp.Endpoint{Local: us}, func(o *udp.Options) { o.Broadcast, o.MulticastLoop = true, true })
	quiet := w.Socket(udp.Endpoint{Local: us, LocalPort: 54})
	for _, to := range []wire.Addr{us, subnet, grp, {172, 16, 0, 1}} {
		v, err := w.Send(id, to, 9, "x")
		w.NoError(err)
		w.Equal(udp.ViaKernel, v, "%v", to)
	}
	v, err := w.Send(quiet, grp, 9, "x")
	w.NoError(err)
	w.Equal(udp.Queued, v, "without IP_MULTICAST_LOOP")
	w.Only()
	_, err = w.Send(quiet, peer, 9, "waits")
	w.NoError(err)
	target := host.Target{Interface: iface, Addr: peer.Netip()}
	w.Equal([]host.Target{target, target}, h.asked, "once to prepare, once to send")
	w.Empty(w.Out(), "the kernel asks")
	f.Neighbours = []host.Neighbour{{Target: target, MAC: peerMAC, State: unix.NUD_REACHABLE}}
	h.snap = host.NewSnapshot(f, 2)
	w.IP.Refresh()
	s, _, payload := w.ParseUDP(w.Only())
	w.Equal("waits", payload)
	w.Equal(peerMAC, s.Eth.Target())
	_, err = w.Send(quiet, peer, 9, "at once")
	w.NoError(err)
	w.Only()
	w.After(2 * time.Second)
	w.Equal([]host.Target{target}, h.used, "so that the kernel keeps the entry")

	w.Drop(wire.EthernetType, iptest.ARPFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us))
	w.Drop(wire.IPv4Protocol, iptest.ICMPFrame((&wire.ICMPEcho{}).Append(nil)))
	w.Drop(wire.UDPNoSocket, iptest.From(peer, us, "x", func(d *iptest.Datagram) { d.UDP.TargetPort = 99 }))
	w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4))
	w.Empty(w.Out(), "the kernel speaks IGMP")
}
