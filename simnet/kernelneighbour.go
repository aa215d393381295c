package simnet

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// neighbour is an entry of the kernel's table (linux/net/core/neighbour.c).
//
//	none ──use──► INCOMPLETE ──answer──► REACHABLE ──Reachable──► STALE ──use──► DELAY ──time──► PROBE
//	                  └─ 3 requests ─► FAILED        ▲                └─ unused for Reachable: removed    │
//	                                                 └────────────────── answer ──────────────────────────┤
//	                                                                     3 requests: FAILED ◄─────────────┘
type neighbour struct {
	state   host.State
	mac     wire.MAC
	until   int64 // of the state
	used    int64
	asked   int
	waiting []waitingPacket
}

type waitingPacket struct {
	ip   wire.IPv4Fields
	body []byte
}

func (e *neighbour) entry(t host.Target) host.Neighbour {
	return host.Neighbour{Target: t, MAC: e.mac, State: e.state}
}

func (e *neighbour) usable() bool {
	return e.state&(unix.NUD_REACHABLE|unix.NUD_STALE|unix.NUD_DELAY|unix.NUD_PROBE) != 0
}

// setNeighbour changes the state of a neighbour's entry for d, and notifies the mirror.
func (k *Kernel) setNeighbour(t host.Target, e *neighbour, state host.State, d time.Duration) {
	e.state, e.until = state, k.world.now+int64(d)
	x := e.entry(t)
	k.notify(func() { k.steps.Neighbours([]host.NeighbourChange{{Neighbour: x}}) })
}

// removeNeighbour deletes a neighbour's entry and drops the packets that wait for it.
func (k *Kernel) removeNeighbour(t host.Target) {
	e := k.neighbours[t]
	k.stats.Unresolved += uint64(len(e.waiting))
	delete(k.neighbours, t)
	x := e.entry(t)
	k.notify(func() { k.steps.Neighbours([]host.NeighbourChange{{Neighbour: x, Gone: true}}) })
}

// neighbourTargets lists the neighbours in a fixed order, so that runs are repeatable.
func (k *Kernel) neighbourTargets() (list []host.Target) {
	for t := range k.neighbours {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b host.Target) int {
		if a.Interface != b.Interface {
			return a.Interface - b.Interface
		}
		return a.Addr.Compare(b.Addr)
	})
	return list
}

// forgetNeighbours deletes the entries of neighbours by an interface that went down.
func (n *KernelNIC) forgetNeighbours() {
	for _, t := range n.kernel.neighbourTargets() {
		if t.Interface == n.index {
			n.kernel.removeNeighbour(t)
		}
	}
}

// probeNeighbour does what the kernel does (neigh_event_send) when the mirror asks for a neighbour or reports that it is in use.
func (k *Kernel) probeNeighbour(t host.Target) error {
	n := k.nicOf(t.Interface)
	if n == nil || !n.up {
		return unix.ENETDOWN
	}
	k.useNeighbour(n, t)
	return nil
}

// useNeighbour returns the entry of a neighbour to which something is sent, and resolves or confirms it if needed.
func (k *Kernel) useNeighbour(n *KernelNIC, t host.Target) *neighbour {
	e := k.neighbours[t]
	if e == nil {
		e = &neighbour{}
		k.neighbours[t] = e
	}
	e.used = k.world.now
	switch e.state {
	case 0, unix.NUD_FAILED:
		e.asked = 1
		k.setNeighbour(t, e, unix.NUD_INCOMPLETE, time.Second)
		n.requestARP(t.Addr, wire.MAC{})
	case unix.NUD_STALE:
		k.setNeighbour(t, e, unix.NUD_DELAY, k.config.Reachable)
	}
	return e
}

// mostUnresolved is how many packets wait for a neighbour's address; one more drops the oldest. Linux bounds their bytes instead
// (unres_qlen_bytes), about as many of usual length.
const mostUnresolved = 100

// sendToNeighbour sends a packet to a neighbour, or queues it until the neighbour's address is resolved.
func (k *Kernel) sendToNeighbour(n *KernelNIC, t host.Target, ip wire.IPv4Fields, body []byte) {
	e := k.useNeighbour(n, t)
	if e.usable() {
		n.transmitIPv4(ip, body, e.mac)
		return
	}
	if len(e.waiting) == mostUnresolved {
		e.waiting = e.waiting[1:]
		k.stats.Unresolved++
	}
	e.waiting = append(e.waiting, waitingPacket{ip, body})
}

// ageNeighbours changes entries whose time is over: they become stale, are probed again, or fail. It is called once a second.
func (k *Kernel) ageNeighbours() {
	now := k.world.now
	for _, t := range k.neighbourTargets() {
		e, n := k.neighbours[t], k.nicOf(t.Interface)
		switch {
		case n == nil:
			k.removeNeighbour(t)
		case now < e.until:
		case e.state == unix.NUD_REACHABLE:
			k.setNeighbour(t, e, unix.NUD_STALE, k.config.Reachable)
		case e.state == unix.NUD_STALE, e.state == unix.NUD_FAILED:
			if now-e.used > int64(k.config.Reachable) {
				k.removeNeighbour(t)
			}
		case e.state == unix.NUD_DELAY:
			e.asked = 1
			k.setNeighbour(t, e, unix.NUD_PROBE, time.Second)
			n.requestARP(t.Addr, e.mac)
		case e.asked == 3:
			k.stats.Unresolved += uint64(len(e.waiting))
			e.waiting, e.mac = nil, wire.MAC{}
			k.setNeighbour(t, e, unix.NUD_FAILED, k.config.Reachable)
		default:
			e.asked++
			e.until = now + int64(time.Second)
			n.requestARP(t.Addr, e.mac)
		}
	}
}

// requestARP sends an ARP request for an address to one station, or to all if station is zero.
func (n *KernelNIC) requestARP(a netip.Addr, station wire.MAC) {
	if len(n.addrs) == 0 {
		return
	}
	source := n.addrs[0].Addr()
	for _, p := range n.addrs {
		if p.Contains(a) {
			source = p.Addr()
		}
	}
	if station.IsZero() {
		station = wire.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	}
	n.transmitARP(wire.ARPRequest, source, a, wire.MAC{}, station)
}

// transmitARP sends an ARP packet of the kernel's.
func (n *KernelNIC) transmitARP(op uint16, source, target netip.Addr, targetMAC, station wire.MAC) {
	from, _ := wire.AddrFrom(source)
	to, _ := wire.AddrFrom(target)
	eth := wire.EthernetFields{Target: station, Source: n.mac, Type: wire.TypeARP}
	arp := wire.ARPFields{Operation: op, SenderMAC: n.mac, SenderAddr: from, TargetMAC: targetMAC, TargetAddr: to}
	n.transmitOwn(arp.Append(eth.Append(nil)))
}

// inputARP handles an ARP packet: it learns the sender's address, and replies to requests for the interface's own addresses.
func (k *Kernel) inputARP(n *KernelNIC, b []byte, station wire.MAC) {
	a, bad := wire.ParseARP(b, station)
	if bad != 0 {
		k.stats.Malformed++
		return
	}
	sender, target := a.SenderAddr().Netip(), a.TargetAddr().Netip()
	ours := slices.ContainsFunc(n.addrs, func(p netip.Prefix) bool { return p.Addr() == target })
	t := n.target(sender)
	if e := k.neighbours[t]; e != nil {
		reply := a.Operation() == wire.ARPReply
		if reply || e.mac != a.SenderMAC() || e.state&(unix.NUD_INCOMPLETE|unix.NUD_FAILED) != 0 {
			e.mac = a.SenderMAC()
			state := host.State(unix.NUD_STALE)
			if reply {
				state = unix.NUD_REACHABLE
			}
			k.setNeighbour(t, e, state, k.config.Reachable)
			list := e.waiting
			e.waiting = nil
			for _, p := range list {
				n.transmitIPv4(p.ip, p.body, e.mac)
			}
		}
	} else if ours && a.Operation() == wire.ARPRequest && !a.IsProbe() {
		e := &neighbour{mac: a.SenderMAC(), used: k.world.now}
		k.neighbours[t] = e
		k.setNeighbour(t, e, unix.NUD_STALE, k.config.Reachable)
	}
	if ours && a.Operation() == wire.ARPRequest {
		n.transmitARP(wire.ARPReply, target, sender, a.SenderMAC(), a.SenderMAC())
	}
}
