package stream

import (
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// hold is what connections rest on: a claim of the host's, so that their segments come to the stack, and the socket below that reserves the
// port. A listener and its children share one. It ends when the last of them has, and what may still come for them has had its time.
//
//	listener     Listen … Close ─┐
//	children     Accepted … Gone ├─ last ── TimeWait ── claim and port released
//	opened here  Connect … Gone ─┘
//
// When the listener is closed, its children get holds of their own where that is possible, and its claim ends at once: claimChildren.
type hold struct {
	claim int32     // 0: the host has nothing to claim
	below ring.Conn // 0: the listener's, which Close ends
	users int32
	// isListeners: it is a listener's and its children's, not one connection's.
	isListeners bool

	adopted holdKey // of connections that were adopted: its place in holds.adopted
}

// leaving is a hold without users.
type leaving struct {
	hold int32
	due  clock.Time
}

// holds are the holds of a ring.
type holds struct {
	list    []hold            // by number - 1
	free    []int32           // numbers that are not used
	leaving []leaving         // in order of time
	adopted map[holdKey]int32 // of connections that were adopted
}

// at is the hold with a number.
func (x *holds) at(number int32) *hold { return &x.list[number-1] }

// add keeps a hold, and returns its number; remove frees that.
func (x *holds) add(h hold) (number int32) {
	if n := len(x.free); n > 0 {
		number = x.free[n-1]
		x.free = x.free[:n-1]
		x.list[number-1] = h
		return number
	}
	x.list = append(x.list, h)
	return int32(len(x.list))
}

func (x *holds) remove(number int32) {
	*x.at(number) = hold{}
	x.free = append(x.free, number)
}

// nextEnd is when the time of the first hold without users is over; clock.Never: there is none.
func (x *holds) nextEnd() clock.Time {
	if len(x.leaving) == 0 {
		return clock.Never
	}
	return x.leaving[0].due
}

// addHold claims a flow for a listener or a connection that is opened, and returns the number of its hold, which has one user. below is the
// socket of the transport below to release at its end, 0 for none.
func (t *Transport) addHold(local, remote netip.AddrPort, device int, below ring.Conn) (int32, error) {
	const noPort = ring.Conn(0)
	claim, err := t.host.Claim(local, remote, device, below == noPort) // exact: of a port that a connection has for itself more may be claimed
	if err != nil {
		return 0, err
	}
	h := hold{claim: claim, below: below, users: 1}
	return t.holds.add(h), nil
}

// dropHold counts a user less. The last one leaves the claim for the time in which the peer may repeat its last segment: the kernel must not see
// it. Without a claim there is nothing to wait for.
func (t *Transport) dropHold(at int32) {
	if at == 0 {
		return
	}
	h := t.holds.at(at)
	if h.users--; h.users > 0 {
		return
	}
	if h.adopted.local.Port != 0 {
		delete(t.holds.adopted, h.adopted) // those that come from now on have another
	}
	if h.claim == 0 {
		t.endHold(at)
		return
	}
	t.holds.leaving = append(t.holds.leaving, leaving{at, t.now().Add(t.timeWait)})
}

// defaultCloseClaims is Options.CloseClaims where that is 0.
const defaultCloseClaims = 2048

// claimChildren claims the flow of each connection that rests on the hold of a listener, and of each that is in TIME-WAIT on its address, so
// that the claim of the port can end. It reports whether that is so. Where it is not, all is as before, and the port stays claimed until the
// last of the connections has ended: there are more than Options.CloseClaims, a claim was refused, or one of the connections is in transit to
// another ring.
func (t *Transport) claimChildren(l *listener) bool {
	t.takeEvents()
	return !t.transit.hasFrom(l.local) && t.claimEach(l.local, func(at int32) bool { return at == l.hold })
}

// leavePort ends the claims of the port of a listener of any ring that is closed, on which connections that were adopted here rest. Each gets a
// claim of its own, as in claimChildren; where that is not possible all stays as it was, which is false.
func (t *Transport) leavePort(local tcp.Endpoint) bool {
	rests := func(at int32) bool {
		h := t.holds.at(at)
		return h.adopted.local.Port != 0 && h.claim != 0 && isOfPort(h.adopted.local, local)
	}
	var holds []int32
	for i := range t.holds.list {
		if rests(int32(i) + 1) {
			holds = append(holds, int32(i)+1)
		}
	}
	if len(holds) == 0 {
		return true
	}
	if !t.claimEach(local, rests) {
		return false
	}
	t.holds.leaving = slices.DeleteFunc(t.holds.leaving, func(x leaving) bool { return slices.Contains(holds, x.hold) })
	for _, at := range holds {
		delete(t.holds.adopted, t.holds.at(at).adopted)
		t.endHold(at)
	}
	return true
}

// claimEach gives a hold of its own to each connection whose hold rests returns true for, and to each that is in TIME-WAIT on the address of a
// listener. It reports whether that was possible; else nothing has changed.
func (t *Transport) claimEach(listener tcp.Endpoint, rests func(hold int32) bool) bool {
	limit := t.closeClaims
	type child struct {
		local, remote tcp.Endpoint
		device        int32
	}
	var ids []tcp.ID
	var list []child // those with records first, in the order of ids
	for id := range tcp.ID(len(t.records) * chunk) {
		if r := t.record(id); r.hold != 0 && rests(r.hold) && len(list) <= limit {
			local, remote := t.table.Endpoints(id)
			ids = append(ids, id)
			list = append(list, child{local, remote, r.device})
		}
	}
	t.table.EachTimeWait(listener, func(local, remote tcp.Endpoint, user uint64) {
		if len(list) <= limit {
			list = append(list, child{local, remote, deviceOfUser(user)})
		}
	})
	if len(list) > limit {
		return false
	}
	holds := make([]int32, 0, len(list))
	for _, c := range list {
		at, err := t.addHold(c.local.AddrPort(), c.remote.AddrPort(), int(c.device), 0)
		if err != nil {
			for _, at := range holds {
				t.endHold(at) // the port is claimed still
			}
			return false
		}
		holds = append(holds, at)
	}
	for i, id := range ids {
		r := t.record(id)
		t.holds.at(r.hold).users--
		r.hold = holds[i]
	}
	for _, at := range holds[len(ids):] {
		t.dropHold(at)
	}
	return true
}

// takeHold ends the hold of a connection that has moved away, at once, and returns the socket below, which stays open. Of a listener's hold it
// counts a user less.
func (t *Transport) takeHold(at int32) (below ring.Conn) {
	switch {
	case at == 0:
		return 0
	case t.holds.at(at).isListeners:
		t.dropHold(at)
		return 0
	}
	h := t.holds.at(at)
	below, h.below = h.below, 0
	t.endHold(at)
	return below
}

// expireHolds ends the holds without users whose time is over. All wait equally long, so leaving is in the order of due.
func (t *Transport) expireHolds(now clock.Time) {
	n := 0
	for n < len(t.holds.leaving) && t.holds.leaving[n].due <= now {
		t.endHold(t.holds.leaving[n].hold)
		n++
	}
	t.holds.leaving = t.holds.leaving[:copy(t.holds.leaving, t.holds.leaving[n:])]
}

// endHold ends the host's claim, releases the port of the socket below, and frees the hold's place.
func (t *Transport) endHold(at int32) {
	h := t.holds.at(at)
	if h.claim != 0 {
		t.host.Unclaim(h.claim)
	}
	if h.below != 0 {
		_ = t.below.Release(h.below) // its end is of no interest to anybody
	}
	t.holds.remove(at)
}
