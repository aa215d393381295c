package ring

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Logic says which sockets of an owner share a ring. The values are VMA's (VMA_RING_ALLOCATION_LOGIC_RX); the key is always
// taken within one owner and one interface, because a ring belongs to one goroutine.
type Logic int

// The ring allocation logics.
const (
	PerInterface  Logic = 0  // one ring per interface
	PerIP         Logic = 1  // one per local address
	PerSocket     Logic = 10 // one per socket
	PerUserID     Logic = 11 // one per Config.UserID; exempt from the limit
	PerThread     Logic = 20 // one per owner: an owner is one goroutine, so this is PerInterface with VMA's number
	PerCore       Logic = 30 // one per processor that the owner runs on when the ring is reserved
	PerCoreAttach Logic = 31 // one, and binds the owner's thread to the processor that it runs on when the first is reserved
)

// Validate reports whether the value is one of VMA's.
func (l Logic) Validate() error {
	switch l {
	case PerInterface, PerIP, PerSocket, PerUserID, PerThread, PerCore, PerCoreAttach:
		return nil
	}
	return badArgument("ring allocation logic", "value", int(l))
}

// String is the value in words.
func (l Logic) String() string {
	switch l {
	case PerInterface:
		return "per interface"
	case PerIP:
		return "per IP"
	case PerSocket:
		return "per socket"
	case PerUserID:
		return "per user id"
	case PerThread:
		return "per thread"
	case PerCore:
		return "per core"
	case PerCoreAttach:
		return "per core, attached"
	}
	return itoa(int(l))
}

// Key is what a ring was allocated for.
type Key struct {
	Interface int // index; 0 for sockets bound to no single interface
	Logic     Logic
	Value     uint64     // socket, user id or core
	IP        netip.Addr // of PerIP
	reason    Reason
}

// String is the value in words.
func (k Key) String() string {
	s := fmt.Sprintf("interface %d, %v", k.Interface, k.Logic)
	switch k.Logic {
	case PerIP:
		if k.IP.IsValid() {
			s += " " + k.IP.String()
		}
	case PerSocket, PerUserID, PerCore, PerCoreAttach:
		s += fmt.Sprintf(" %d", k.Value)
	}
	return s
}

// Logic is the ring allocation logic that holds for the socket: its own, or its set's. Owner only.
func (s *Socket) Logic() Logic {
	if !s.readable() {
		return 0
	}
	if s.config().Alloc != nil {
		return *s.config().Alloc
	}
	return s.set().config.Logic
}

// key is what the socket's ring is to be allocated for.
func (s *Socket) key() Key {
	k := Key{Interface: s.active().device, Logic: s.Logic()}
	if k.Interface == 0 {
		k.Interface = s.localInterface()
	}
	if k.Interface == 0 {
		k.Interface = s.groupsInterface()
	}
	switch k.Logic {
	case PerIP:
		if k.IP = s.local().Addr(); !k.IP.IsValid() && s.handle.Kind == KindListener && !s.Unix() {
			k.IP = unspecified(s.family) // where it will listen
		}
	case PerSocket:
		k.Value = uint64(s.id)
	case PerUserID:
		k.Value = s.config().UserID
	case PerCore:
		k.Value = uint64(sys.CPU())
	case PerCoreAttach:
		k.Value = s.set().attachedCore()
	}
	return k
}

// attachedCore is the processor of the owner's rings with PerCoreAttach: the one that the first of them was made on. The owner has one thread,
// which is bound in the first Poll; sockets that are opened before it, on whatever processors set-up runs, are all for that one.
func (set *Set) attachedCore() uint64 {
	for _, r := range set.siblings() {
		if r.key.Logic == PerCoreAttach {
			return r.key.Value
		}
	}
	return uint64(sys.CPU())
}

// groupsInterface is the interface of all groups that a socket bound to a group or to the wildcard has joined; 0 when there is none, or more
// than one. A socket that is bound before it joins has its ring by then.
func (s *Socket) groupsInterface() (index int) {
	local := s.local().Addr()
	if s.handle.Kind != KindDatagram || !local.IsMulticast() && !local.IsUnspecified() {
		return 0
	}
	for _, m := range s.active().options.Groups {
		if local.IsMulticast() && m.Group.WithZone("") != local.WithZone("") {
			continue // none of it comes to this socket
		}
		at := m.Interface
		if at == 0 {
			at = s.transport().RoutedInterface(m.Group)
		}
		if at == 0 || index != 0 && at != index {
			return 0
		}
		index = at
	}
	return index
}

// oneRing is the key of the only ring of a set with SetConfig.OneRing. Logics that make a ring for each address, socket or user become
// PerInterface; the others make one ring for each owner anyway.
func oneRing(k Key) Key {
	k.Interface = 0
	switch k.Logic {
	case PerIP, PerSocket, PerUserID:
		return Key{Logic: PerInterface}
	}
	return k
}

// needsOwnRing reports whether the allocation logic of the key would have made another ring than r, the only one of its set: the socket's path
// then shows why it shares r.
func (r *Ring) needsOwnRing(k Key) bool {
	switch k.Logic {
	case PerInterface, PerThread:
		return false
	case PerCore, PerCoreAttach:
		return r.key.Logic != k.Logic || r.key.Value != k.Value
	}
	return true
}

// ringFor finds or makes the ring for a key. A ring whose last socket is gone serves the next key, so that there are never more
// rings than were in use at one time; but only one of the same logic, so that a ring which NewRing has made stays for the sockets it was made
// for. At the limit per interface the ring with the fewest sockets is shared (VMA: the same).
func (set *Set) ringFor(key Key) (*Ring, error) {
	if set.config.OneRing.Code != "" && len(set.rings) > 0 {
		if r := set.rings[0]; r.slots.open == 0 {
			r.rekey(oneRing(key))
		}
		return set.rings[0], nil
	}
	var idle, least *Ring
	same := 0
	for _, r := range set.rings {
		k := r.key
		k.reason = Reason{} // of a pin that failed: the ring is the key's all the same
		if k == key {
			return r, nil
		}
		if r.slots.open == 0 && idle == nil && r.key.Logic == key.Logic {
			idle = r
		}
		if r.key.Interface == key.Interface {
			same++
			if least == nil || r.slots.open < least.slots.open {
				least = r
			}
		}
	}
	switch limit := set.config.Limit; {
	case idle != nil && idle.key.Interface == key.Interface: // the interface has no ring more than before
		idle.rekey(key)
		return idle, nil
	case limit > 0 && same >= limit && key.Logic != PerUserID: // the application has asked for a ring by its id: it gets that one
		return least, nil
	case idle != nil: // of another interface: here it counts
		idle.rekey(key)
		return idle, nil
	}
	return set.newRing(key)
}

// rekey allocates an idle ring to another key, and pins the thread if that key's logic says so.
func (r *Ring) rekey(key Key) {
	r.key = key
	if r.owner.Load() == sys.Goroutine() {
		r.pin() // otherwise the first Poll does
	}
}

// pin ties the owner's thread to the core the ring was allocated for, if its logic is PerCoreAttach. A failure becomes a reason in the paths of
// the ring's sockets.
func (r *Ring) pin() {
	if r.key.Logic != PerCoreAttach || r.affinity != nil { // a pinned thread stays on its core: a later key names the same one
		return
	}
	r.lockThread() // the goroutine stays on the thread that is pinned
	before := sys.AffinityMask()
	if other := r.pinnedSibling(); other != nil {
		before = other.affinity // the mask of now is that of its pin
	}
	if err := sys.PinThread(int(r.key.Value)); err != nil {
		r.key.reason = Reason{Code: "ring.not_attached", Text: err.Error()}
		return
	}
	r.affinity = before
}

// unpin lets the thread run on the processors that it could run on before pin, unless another ring of the owner has pinned it too: then the last
// of them does. Close calls it.
func (r *Ring) unpin() {
	if r.affinity != nil {
		if r.pinnedSibling() == nil {
			if err := sys.SetAffinity(r.affinity); err != nil {
				r.fail(err)
			}
		}
		r.affinity = nil
	}
}

// pinnedSibling is another ring of the same owner that has pinned the thread; nil if there is none.
func (r *Ring) pinnedSibling() *Ring {
	for _, s := range r.set.siblings() {
		if s != r && s.affinity != nil {
			return s
		}
	}
	return nil
}

// unspecified is the wildcard address of a family.
func unspecified(family Family) netip.Addr {
	if family == IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// localInterface is the index of the interface that has the socket's address; 0 for wildcards, groups and addresses nobody has.
func (s *Socket) localInterface() int {
	ip := s.local().Addr()
	if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() {
		return 0
	}
	return s.transport().InterfaceOf(ip)
}
