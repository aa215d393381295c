package xtreme_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A rule leaves to the kernel what would have been offloaded, on the wire as well; the next socket is offloaded again.
func TestARuleKeepsASocketFromOffload(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) {
		s.RulesFile = rulesFile(t, "use os udp_connect *:7002\nuse os udp_receiver 239.1.1.1:*\n")
	})
	w.poller = w.newPoller("ruled")
	w.NoError(w.engine.AddRule("use os udp_receiver *:7000-7001", true))
	at := w.at(0).Addr()

	ruled := w.udp(netip.AddrPortFrom(at, 7001))
	w.Equal("kernel", ruled.Path().Tier, ruled.Path())
	w.Contains(reason(t, ruled, "rule.os"), `"use os udp_receiver *:7000-7001" (added at run time`)
	peer := w.net.Dial(ruled.LocalAddr())
	w.write(peer, "by the kernel")
	w.Equal("by the kernel", w.text(ruled))
	w.NotEqual(string(conf.RingOffload), ruled.Ring().Kind())

	free := w.udp(netip.AddrPortFrom(at, 7003))
	w.Equal("bypass", free.Path().Tier, free.Path())
	answers(w.world, free, w.net.Dial(free.LocalAddr()))

	to := netip.AddrPortFrom(w.net.Peer(0), 7002)
	connected := w.udp(netip.AddrPort{}, xtreme.UDPConfig{Remote: to})
	w.Equal("kernel", connected.Path().Tier, connected.Path())
	both := w.udp(netip.AddrPortFrom(at, 7004), xtreme.UDPConfig{Remote: to})
	w.Equal("kernel", both.Path().Tier, "the peer is known when it is bound: %v", both.Path())
	w.Contains(reason(t, both, "rule.os"), `"use os udp_connect *:7002" (line 1,`)
	late := w.udp(netip.AddrPortFrom(at, 7006))
	w.NoError(late.Connect(to))
	w.Equal("bypass", late.Path().Tier, "it has its ring: %v", late.Path())

	// A group that is joined later, whose rule comes too late for the socket.
	wild, group := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 7005)), netip.MustParseAddr("239.1.1.1")
	w.Equal("bypass", wild.Path().Tier)
	w.NoError(wild.JoinGroup(group, w.net.Device(0), netip.Addr{}))
	w.Contains(reason(t, wild, "rule.late"), "offloaded when it joined")
	w.write(w.net.Dial(netip.AddrPortFrom(group, 7005)), "over the link")
	got, _ := fast(w.world, wild)
	w.Equal("over the link", got)

	_, err := w.poller.OpenUDP(netip.AddrPortFrom(at, 7000), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	w.ErrorContains(err, "use os udp_receiver *:7000-7001")
	for _, s := range []*xtreme.Socket{ruled, free, connected, both, late, wild} {
		w.close(s)
	}
}

// A join asks the rules about the group alone: what a rule for another role says was asked when the socket got its ring, or was not to be.
func TestAJoinAsksTheRulesAboutTheGroupAlone(t *testing.T) {
	for _, rule := range []string{"use os udp_connect *:7002", "use os udp_sender *:7002", "use os udp_receiver *:9999"} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.RulesFile = rulesFile(t, rule+"\n") })
		w.poller = w.newPoller("ruled")
		s, group := w.udp(w.at(0)), netip.MustParseAddr("239.1.1.1")
		w.NoError(s.Connect(netip.AddrPortFrom(w.net.Peer(0), 7002)))
		w.NoError(s.JoinGroup(group, w.net.Device(0), netip.Addr{}))
		w.False(hasRule(s, "rule.late"), "%s: %v", rule, s.Path().Explain())
		w.NoError(w.engine.AddRule("use os udp_receiver *:*", true)) // it is for the socket's address too, but what is asked is the next group
		w.NoError(s.JoinGroup(group.Next(), w.net.Device(0), netip.Addr{}))
		w.True(hasRule(s, "rule.late"), "%s: %v", rule, s.Path().Explain())
		w.close(s)
	}
}

// Adopting asks for a connection of the kernel what connecting asks, and nothing for one of our own TCP that AcceptTo took.
func TestRulesOfAdoptedConnections(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	w.NoError(w.engine.AddRule("use os tcp_client *:*", true))
	adopted := func(at netip.AddrPort, dial func(to netip.AddrPort)) *xtreme.Socket {
		taken := -1
		l, err := w.poller.ListenTCP(at, xtreme.ListenConfig{AcceptTo: func(fd int, _ netip.AddrPort) bool { taken = fd; return true }})
		w.NoError(err)
		dial(l.LocalAddr())
		w.until("it was taken", func() bool { return taken >= 0 })
		s, err := w.poller.Adopt(taken, xtreme.AdoptConfig{})
		w.NoError(err)
		return s
	}
	own := adopted(w.at(0), func(to netip.AddrPort) { w.dialFromPeer(w.world, to) })
	w.Equal("bypass", own.Path().Tier, own.Path())
	kernel := adopted(loopback, func(to netip.AddrPort) { w.dial(to) })
	w.Equal("kernel", kernel.Path().Tier)
	w.True(hasRule(kernel, "rule.os"), kernel.Path())
	w.False(hasRule(own, "rule.os"), own.Path())
}

// A rule that wants a socket offloaded is met on such a poller, and does not change what it gets.
func TestARuleForOffloadIsMet(t *testing.T) {
	w := newCabled(t)
	w.NoError(w.engine.AddRule("use sx udp_receiver *:*\nuse xlio tcp_server *:*", true))
	u, l := w.udp(w.at(0)), w.listen()
	w.Equal("bypass", u.Path().Tier)
	w.False(hasRule(u, "rule.unmet"))
	w.True(hasRule(l, "rule.unmet"), l.Path())
	w.True(hasRule(l, "offload.no_tcp"), l.Path())
	for _, s := range []*xtreme.Socket{u, l} {
		w.close(s)
	}
}

// A socket may be on the offloaded ring and the kernel's all the same, as a group is beside a macvlan: the rule cannot be followed there either.
func TestARuleForOffloadBesideAMacvlan(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.ExceptionHandling = 2 })
	w.poller = w.newPoller("rules")
	w.NoError(w.engine.AddRule("use vma udp_receiver *:*", true))
	g := netip.AddrPortFrom(group(83), 7483)
	open := func() (*xtreme.Socket, error) {
		return w.poller.OpenUDP(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "v0"}}})
	}
	s, err := open()
	w.NoError(err)
	w.Equal("bypass", s.Path().Tier, s.Path())
	_, remove := w.addChild(macvlan, -1, g)
	defer remove()
	w.until("the macvlan is known", func() bool { return s.Path().Lost == "mcast.child" })
	_, err = open()
	w.ErrorIs(err, ring.ErrNotSupported)
	w.ErrorContains(err, `the rule "use sx udp_receiver *:*" (added at run time, application-id * *) asks for an offloaded socket`)
	w.ErrorContains(err, "mcast.child")
	w.close(s)
}

// What the kernel has for an offloaded socket is looked for on every n-th turn while frames keep coming.
func TestShadowsAreReadByTheirRatio(t *testing.T) {
	const turns = 30
	for ratio, seen := range map[int]bool{1: true, 1_000_000: false} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.ShadowRatio = ratio })
		w.poller = w.newPoller("ratio")
		s := w.udp(w.at(0))
		peer := w.net.Dial(s.LocalAddr())
		answers(w.world, s, peer)
		near, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.LocalAddr())) // this host: no frame on any link
		w.NoError(err)
		w.write(near, "near")
		kernel := false
		for range turns {
			w.write(peer, "far")
			w.poll()
			for _, c := range w.kept {
				kernel = kernel || c.ViaKernel
				w.NoError(c.Packet.Release())
			}
			w.kept = nil
		}
		w.Equal(seen, kernel, "ratio %d", ratio)
		w.NoError(near.Close())
		w.close(s)
	}
}
