package ip

import (
	"slices"

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
	if !a.IsProbe() { // a probe has no sender's address (RFC 5227)
		s.localHost.learn(now, host.Target{Interface: l.Index, Addr: sender.Netip()}, a.SenderMAC(), ours && a.Operation() == wire.ARPRequest && !a.IsGratuitous())
	}
	if ours && a.Operation() == wire.ARPRequest {
		s.sendARP(i, a.SenderMAC(), wire.ARPFields{Operation: wire.ARPReply, SenderMAC: l.MAC, SenderAddr: a.TargetAddr(),
			TargetMAC: a.SenderMAC(), TargetAddr: sender})
	}
	return wire.Accept
}

// Limits of ARP.
const (
	askTries      = 3
	confirmedTime = clock.Time(60e9)
	tableLimit    = 1024
	unusedLimit   = tableLimit / 4 // any host can make such entries
)

// Resolve asks for a neighbour's station. In a full table unused entries make room, then those that did not answer.
func (h *LocalHost) Resolve(t host.Target) {
	if n := h.findNeighbour(t); n != nil {
		if n.unused {
			n.unused, n.serial = false, h.generation+1
			h.noteChange(t)
		}
		return
	}
	if len(h.neighbours) < tableLimit || h.evict(isUnused) || h.evict(isFailed) {
		h.neighbours = append(h.neighbours, neighbour{Target: t, state: incomplete, tries: 1, due: h.stack.now + requestInterval})
		h.stack.requestNeighbour(t, wire.MAC{})
	}
}

func isUnused(n *neighbour) bool { return n.unused }
func isFailed(n *neighbour) bool { return n.state == failed }

// evict removes the oldest entry of a kind, and reports whether there was one.
func (h *LocalHost) evict(kind func(n *neighbour) bool) bool {
	for i := range h.neighbours {
		if kind(&h.neighbours[i]) {
			h.neighbours = slices.Delete(h.neighbours, i, i+1)
			return true
		}
	}
	return false
}

// learn enters the sender of an ARP packet. Only a host that asks for our address gets a new entry, because an answer to it is likely
// (RFC 826); other packets change entries that exist. New entries are unused and replace each other, so that forged packets displace no entry
// in use and cause no snapshot.
func (h *LocalHost) learn(now clock.Time, t host.Target, mac wire.MAC, asksForUs bool) {
	n := h.findNeighbour(t)
	if n == nil {
		if !asksForUs || !h.isOnLink(t) || !h.makeRoomForUnused() {
			return
		}
		h.neighbours = append(h.neighbours, neighbour{Target: t, unused: true})
		n = &h.neighbours[len(h.neighbours)-1]
	}
	changed := !n.unused && (n.mac != mac || n.state == incomplete || n.state == failed)
	n.mac, n.state, n.due, n.tries, n.used = mac, reachable, now+confirmedTime, 0, false
	if changed {
		n.serial = h.generation + 1
		h.noteChange(t)
	}
}

// isOnLink reports whether packets to an address leave by its interface, to itself: only such a host is a neighbour.
func (h *LocalHost) isOnLink(t host.Target) bool {
	w, err := h.snapshot.Route(host.Query{Target: t.Addr})
	return err == nil && w.Type == host.Unicast && w.NextHop(t.Addr) == t
}

// makeRoomForUnused reports whether the table may have one more unused entry. At the limit it removes an older one.
func (h *LocalHost) makeRoomForUnused() bool {
	unused := 0
	for i := range h.neighbours {
		if h.neighbours[i].unused {
			unused++
		}
	}
	return unused < unusedLimit && len(h.neighbours) < tableLimit || h.evict(isUnused)
}

// deadline is when advance has something to do.
func (h *LocalHost) deadline() clock.Time {
	next := clock.Never
	for i := range h.neighbours {
		next = min(next, h.neighbours[i].due)
	}
	return next
}

// advance does what is due in the ARP table: it repeats requests, gives up neighbours that do not answer, confirms those in use, and forgets the
// others. See neighbour for the states.
func (h *LocalHost) advance(now clock.Time) {
	changed := false
	kept := h.neighbours[:0]
	for i := range h.neighbours {
		n := h.neighbours[i]
		if n.due > now {
			kept = append(kept, n)
			continue
		}
		switch {
		case n.state == failed, n.state == reachable && !n.used:
			if !n.unused { // else it is in no snapshot
				changed = true
				h.changed = append(h.changed, n.Target)
			}
			continue // forgotten
		case n.state == reachable:
			n.state, n.tries = probing, 0
		}
		if n.tries < askTries {
			h.stack.requestNeighbour(n.Target, n.mac)
			n.tries++
			n.due = now + requestInterval
		} else {
			n.state, n.due, n.serial, changed = failed, now+requestInterval, h.generation+1, true
			h.changed = append(h.changed, n.Target)
		}
		kept = append(kept, n)
	}
	h.neighbours = kept
	if changed {
		h.publish()
	}
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
		if a, ok := wire.AddrFrom(x.Local); ok && (source.IsZero() || x.Prefix.Contains(t.Addr)) { // that of the target's subnet, else the first
			source = a
		}
	}
	to := mac
	if to.IsZero() {
		to = wire.Broadcast
	}
	s.sendARP(i, to, wire.ARPFields{Operation: wire.ARPRequest, SenderMAC: s.links[i].MAC, SenderAddr: source, TargetMAC: mac, TargetAddr: target})
}

// sendARP queues an ARP packet on link i.
func (s *Stack) sendARP(i int, to wire.MAC, f wire.ARPFields) {
	l := &s.links[i]
	eth := wire.EthernetFields{Target: to, Source: l.MAC, Tag: wire.Tag(l.VLAN), Type: wire.TypeARP}
	s.scratch = f.Append(eth.Append(s.scratch[:0]))
	s.sendControl(i, s.scratch)
}
