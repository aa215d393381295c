package xtreme_test

import (
	"net/netip"
	"testing"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A rule for udp_sender holds for each destination of SendTo: an offloaded socket sends to it through the kernel, to others over the link,
// in turns as the application likes. The rules are asked once for each destination, not for each datagram.
func TestARuleForADestinationOfASocket(t *testing.T) {
	w := newCabled(t)
	at, to := w.at(0).Addr(), w.net.Peer(0)
	w.NoError(w.engine.AddRule("use os udp_sender "+to.String()+"/32:9101\nuse os udp_sender 239.1.1.0/24:*", true))
	s := w.udp(netip.AddrPortFrom(at, 7100), xtreme.UDPConfig{MulticastInterface: w.net.Device(0), MulticastLoop: xtreme.Off})
	w.Equal("bypass", s.Path().Tier, s.Path())
	w.False(hasRule(s, "rule.sender"), "nothing was sent yet")
	ruled, free := w.net.Listen(netip.AddrPortFrom(to, 9101)), w.net.Listen(netip.AddrPortFrom(to, 9102))
	frames := func() uint64 { return counter(s.Ring(), w.net.Device(0)+".tx_frames") }
	ways := func() uint64 { return counter(s.Ring(), "offload.declined_ways") }

	send := func(to netip.AddrPort, text string) {
		w.sendTo(s, text, to)
		w.NoError(w.poller.Flush())
	}
	heard := func(c interface{ Read([]byte) (int, error) }, text string) {
		b := make([]byte, 64)
		n, err := c.Read(b)
		w.NoError(err)
		w.Equal(text, string(b[:n]))
	}
	send(netip.AddrPortFrom(to, 9102), "link") // finds the neighbour
	heard(free, "link")
	sent := frames()
	const rounds = 20
	for range rounds {
		send(netip.AddrPortFrom(to, 9101), "kernel")
		send(netip.AddrPortFrom(to, 9102), "link")
		heard(ruled, "kernel")
		heard(free, "link")
	}
	w.Equal(sent+rounds, frames(), "only those to the other destination went over the link")
	w.GreaterOrEqual(ways(), uint64(1))
	w.Less(ways(), uint64(rounds/2), "asked for the destination, again only when ways were found anew")
	w.Contains(reason(t, s, "rule.sender"), `"use os udp_sender 10.0.0.2:9101" (added at run time`)
	w.Equal("bypass", s.Path().Tier, "the socket is")

	// SendPacket, from the application's memory, goes the same way.
	p, err := s.Ring().Pool().Alloc(6)
	w.NoError(err)
	copy(p.Room(), "packet")
	w.NoError(s.SendPacket(p, netip.AddrPortFrom(to, 9101), 5))
	w.Equal(uint64(5), w.event(s, xtreme.EventSent).Token)
	heard(ruled, "packet")
	w.Equal(sent+rounds, frames())

	// A group.
	send(netip.MustParseAddrPort("239.1.1.9:9103"), "kernel")
	w.Equal(sent+rounds, frames())
	send(netip.MustParseAddrPort("239.1.2.9:9103"), "link")
	w.Equal(sent+rounds+1, frames())

	// Datagrams to a destination whose way is known cost no look at the rules, and no memory.
	payload := []byte("kernel")
	dst := []netip.AddrPort{netip.AddrPortFrom(to, 9101), netip.AddrPortFrom(to, 9102)}
	w.until("no more ways are found", func() bool {
		before := ways()
		for range 5 {
			send(dst[0], "kernel")
			w.poll()
		}
		return ways() == before
	})
	if !raceEnabled {
		w.Zero(testnet.LeastAllocs(100, func() {
			for _, to := range dst {
				if _, err := s.SendTo(payload, to); err != nil {
					t.Error(err)
				}
			}
			if err := w.poller.Flush(); err != nil {
				t.Error(err)
			}
		}))
	}

	// Rules that are added later hold when the way is found anew; a socket that is connected to such a destination late is not the kernel's
	// then, but what it sends is.
	late := w.udp(netip.AddrPortFrom(at, 7101))
	w.NoError(late.Connect(netip.AddrPortFrom(to, 9101)))
	w.Equal("bypass", late.Path().Tier)
	before := frames()
	_, err = late.Send([]byte("late"))
	w.NoError(err)
	w.NoError(w.poller.Flush())
	w.Equal(before, frames())
	w.True(hasRule(late, "rule.sender"), late.Path())

	// One that is added while a socket is in use holds for destinations that it has not sent to.
	third, fourth := netip.AddrPortFrom(to, 9104), netip.AddrPortFrom(to, 9105)
	u := w.udp(netip.AddrPortFrom(at, 7102))
	before = frames()
	w.sendTo(u, "link", third)
	w.NoError(w.poller.Flush())
	w.Equal(before+1, frames())
	w.NoError(w.engine.AddRule("use os udp_sender "+to.String()+"/32:9105", true))
	w.sendTo(u, "link", third)
	w.sendTo(u, "kernel", fourth)
	w.NoError(w.poller.Flush())
	w.True(hasRule(u, "rule.sender"), u.Path())
	w.Equal(before+2, frames())
	for _, s := range []*xtreme.Socket{s, late, u} {
		w.close(s)
	}
}

// With every socket left to the rules' default no destination is the kernel's.
func TestNoRuleForADestination(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.RulesFile = "" })
	w.poller = w.newPoller("no rules")
	s := w.udp(w.at(0))
	answers(w.world, s, w.net.Dial(s.LocalAddr()))
	w.Zero(counter(s.Ring(), "offload.declined_ways"))
	w.close(s)
}
