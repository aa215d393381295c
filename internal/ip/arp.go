package ip

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// arp reads an ARP packet by the merge rule of RFC 826 and answers a request for an address of ours.
func (s *Stack) arp(now clock.Time, i int, p *Parsed) wire.Drop {
	a, d := wire.ParseARP(p.Frame[p.net:], (*wire.Ethernet)(p.Frame).Source())
	if d != wire.Accept {
		return d
	}
	l := &s.links[i]
	sender := a.SenderAddr()
	if s.hasAddress(l.Index, sender.Netip()) {
		return wire.ARPConflict
	}
	ours := s.hasAddress(l.Index, a.TargetAddr().Netip())
	if !a.IsProbe() {
		s.localHost.learn(now, host.Target{Interface: l.Index, Addr: sender.Netip()}, a.SenderMAC(), ours && a.Operation() == wire.ARPRequest && !a.IsGratuitous())
	}
	if ours && a.Operation() == wire.ARPRequest {
		s.sendARP(i, a.SenderMAC(), wire.ARPFields{Operation: wire.ARPReply, SenderMAC: l.MAC, SenderAddr: a.TargetAddr(),
			TargetMAC: a.SenderMAC(), TargetAddr: sender})
	}
	return wire.Accept
}

// requestNeighbour sends a request: to all stations, or to the neighbour alone when its address is to be confirmed.
func (s *Stack) requestNeighbour(t host.Target, mac wire.MAC) {
	i := s.linkOf(t.Interface)
	target, ok := wire.AddrFrom(t.Addr)
	if i < 0 || !ok {
		return
	}
	var source wire.Addr
	for _, x := range s.snapshot.Addresses() {
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
	s.sendControl(i, s.scratch)
}

// sendControl queues a frame of the stack's own. Without a buffer it is lost: the host that waits for it asks again.
func (s *Stack) sendControl(i int, frame []byte) {
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
	s.queue(i, Out{Packet: p}, 0)
}
