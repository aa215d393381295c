package shadow

import (
	"maps"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// OtherSockets is what was found of other sockets of the host at one time. It is never changed.
type OtherSockets struct {
	Shared   map[GroupFlow]struct{} // groups of ours that others are members of
	Received map[GroupFlow]bool     // of the groups that ours send to: whether others receive them
	Ports    map[PortUse]struct{}   // ports of ours that others have too

	// The inodes of those others. One of them may turn out to be ours: see dropOurs.
	sharedBy   map[GroupFlow][]uint64
	receivedBy map[GroupFlow][]uint64
	portsBy    map[PortUse][]uint64
}

func (n *OtherSockets) equal(m *OtherSockets) bool {
	return maps.Equal(n.Shared, m.Shared) && maps.Equal(n.Received, m.Received) && maps.Equal(n.Ports, m.Ports)
}

// dropOurs is n without what is shared with sockets of ours alone, or received by them; n itself if there is nothing. A socket of ours is bound,
// and joins, before its owner tells the watcher of it, and the owner may be displaced in between for longer than confirmAfter.
func (n *OtherSockets) dropOurs(ours map[uint64]bool) *OtherSockets {
	shared, changed := onlyOthers(n.Shared, n.sharedBy, ours)
	ports, portsChanged := onlyOthers(n.Ports, n.portsBy, ours)
	received, receivedChanged := n.Received, false
	for g, is := range n.Received {
		if !is || !areOurs(n.receivedBy[g], ours) {
			continue
		}
		if !receivedChanged {
			received, receivedChanged = maps.Clone(n.Received), true
		}
		received[g] = false
	}
	if !changed && !portsChanged && !receivedChanged {
		return n
	}
	return &OtherSockets{shared, received, ports, n.sharedBy, n.receivedBy, n.portsBy}
}

// onlyOthers copies a set without the members for which by has sockets of ours alone; it is the same set if there is none.
func onlyOthers[K comparable](set map[K]struct{}, by map[K][]uint64, ours map[uint64]bool) (rest map[K]struct{}, changed bool) {
	rest = set
	for k := range set {
		if !areOurs(by[k], ours) {
			continue
		}
		if !changed {
			rest, changed = maps.Clone(set), true
		}
		delete(rest, k)
	}
	return rest, changed
}

// areOurs reports whether the sockets of a list are all ours; false for an empty list.
func areOurs(list []uint64, ours map[uint64]bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(inode uint64) bool { return !ours[inode] })
}

var noOtherSockets = &OtherSockets{}

// GroupFlow is a group and port on an interface.
type GroupFlow struct {
	host.GroupOn
	Port uint16
}

// Key is a socket of ours: ring and slot.
type Key struct {
	Ring int
	Slot uint32
}

// Joined is what a socket has joined, with how many descriptors; under the lock once it was set.
type Joined struct {
	Inode  uint64
	Port   uint16
	Groups map[host.GroupOn]int
}

// sending is which groups a socket sends to with IP_MULTICAST_LOOP on.
type sending struct {
	inode uint64
	flows map[GroupFlow]bool
}

// PortUse is a socket of ours whose port others may have as well: SO_REUSEPORT or SO_REUSEADDR is set. A claim takes all datagrams of its
// flow, so where another socket has the port too, on the same address or on one that ours has among others, the kernel is left to choose
// between them as it does without us.
type PortUse struct {
	Inode     uint64
	Local     [4]byte // zero: all addresses
	Port      uint16
	IfIndex   uint32 // that ours is tied to; 0: to none
	Broadcast bool   // Local is a broadcast address: every socket with the port receives its datagrams
	Strangers bool   // ours is connected, and its claim takes what other peers send, too
}

// conflicts reports whether the kernel gives datagrams to another socket that ours would take from it. Of two sockets the one with the more
// precise address has them, so another one on all addresses loses nothing to one of ours that names its own. A broadcast is for both, and to a
// connected socket the kernel gives its peer's datagrams alone.
func (p *PortUse) conflicts(b *host.Bound) bool {
	everywhere := b.Local == [4]byte{}
	return b.Port == p.Port && (p.Local == [4]byte{} || b.Local == p.Local || (p.Broadcast || p.Strangers) && everywhere) &&
		!(p.IfIndex != 0 && b.Interface != 0 && p.IfIndex != b.Interface) && b.Local[0]>>4 != 14
}
