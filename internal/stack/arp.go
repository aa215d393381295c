package stack

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// arp reads an ARP packet by the merge rule of RFC 826 and answers a request for an address of ours.
func (s *Stack) arp(now clock.Time, i int, frame []byte) wire.Drop {
	eth, _, _, rest, _ := wire.ParseEthernet(frame) // was accepted before
	a, d := wire.ParseARP(rest, eth.Source())
	if d != wire.Accept {
		return d
	}
	l := &s.links[i]
	sender := a.SenderAddr()
	if s.has(l.Index, sender.Netip()) {
		return wire.ARPConflict
	}
	ours := s.has(l.Index, a.TargetAddr().Netip())
	if !a.IsProbe() {
		s.own.learn(now, host.Target{Interface: l.Index, Addr: sender.Netip()}, a.SenderMAC(), ours && a.Operation() == wire.ARPRequest && !a.IsGratuitous())
	}
	if ours && a.Operation() == wire.ARPRequest {
		s.sendARP(i, a.SenderMAC(), wire.ARPFields{Operation: wire.ARPReply, SenderMAC: l.MAC, SenderAddr: a.TargetAddr(),
			TargetMAC: a.SenderMAC(), TargetAddr: sender})
	}
	return wire.Accept
}

// heard is the address of a neighbour that has asked for us.
func (s *Stack) heard(t host.Target) (wire.MAC, bool) {
	if s.own == nil {
		return wire.MAC{}, false
	}
	return s.own.known(t)
}

// has reports whether the address is one of the interface: ARP is answered on it alone.
func (s *Stack) has(iface int, a netip.Addr) bool {
	for _, x := range s.snap.Addresses() {
		if x.Interface == iface && x.Local == a {
			return true
		}
	}
	return false
}

// askFor sends a request: to everybody, or to the neighbour alone when its address is to be confirmed.
func (s *Stack) askFor(t host.Target, mac wire.MAC) {
	i := s.index(t.Interface)
	target, ok := wire.AddrFrom(t.Addr)
	if i < 0 || !ok {
		return
	}
	var source wire.Addr
	for _, x := range s.snap.Addresses() {
		if x.Interface != t.Interface {
			continue
		}
		if a, ok := wire.AddrFrom(x.Local); ok && (source.IsZero() || x.Prefix.Contains(t.Addr)) {
			source = a
		}
	}
	to := mac
	if to.IsZero() {
		to = wire.Broadcast
	}
	s.sendARP(i, to, wire.ARPFields{Operation: wire.ARPRequest, SenderMAC: s.links[i].MAC, SenderAddr: source, TargetMAC: mac, TargetAddr: target})
}

func (s *Stack) sendARP(i int, to wire.MAC, f wire.ARPFields) {
	l := &s.links[i]
	eth := wire.EthernetFields{Target: to, Source: l.MAC, Tag: wire.Tag(l.VLAN), Type: wire.TypeARP}
	s.scratch = f.Append(eth.Append(s.scratch[:0]))
	s.control(i, s.scratch)
}

// control queues a frame of the stack's own. Without a buffer it is lost: whoever waits for it asks again.
func (s *Stack) control(i int, frame []byte) {
	p, err := s.pool.Alloc(len(frame))
	if err != nil {
		s.stats.NoBuffer++
		return
	}
	copy(p.Room(), frame)
	if p, err = s.pool.Transmit(p); err != nil {
		s.stats.NoBuffer++
		return
	}
	s.queue(i, Out{Packet: p})
}
