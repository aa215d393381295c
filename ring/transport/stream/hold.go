package stream

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
)

// hold is what connections rest on: a claim of the host's, so that their segments come to the stack, and the socket below that reserves the
// port. A listener and its children share one. It ends when the last of them has, and what may still come for them has had its time.
//
//	listener     Listen … Close ─┐
//	children     Accepted … Gone ├─ last ── TimeWait ── claim and port released
//	opened here  Connect … Gone ─┘
type hold struct {
	claim int32     // 0: the host has nothing to claim
	below ring.Conn // 0: the listener's, which Close ends
	users int32
	// isListeners: it is a listener's and its children's, not one connection's.
	isListeners bool

	adopted holdKey // of connections that were adopted: its place in Transport.adopted
}

// leaving is a hold without users.
type leaving struct {
	hold int32
	due  clock.Time
}

// addHold claims a flow for a listener or a connection that is opened, and returns the number of its hold, which has one user. below is the
// socket of the transport below to release at its end, 0 for none.
func (t *Transport) addHold(local, remote netip.AddrPort, device int, below ring.Conn) (int32, error) {
	claim, err := t.host.Claim(local, remote, device)
	if err != nil {
		return 0, err
	}
	h := hold{claim: claim, below: below, users: 1}
	if n := len(t.freeHolds); n > 0 {
		at := t.freeHolds[n-1]
		t.freeHolds = t.freeHolds[:n-1]
		t.holds[at-1] = h
		return at, nil
	}
	t.holds = append(t.holds, h)
	return int32(len(t.holds)), nil
}

// dropHold counts a user less. The last one leaves the claim for the time in which the peer may repeat its last segment: the kernel must not see
// it. Without a claim there is nothing to wait for.
func (t *Transport) dropHold(at int32) {
	if at == 0 {
		return
	}
	h := &t.holds[at-1]
	if h.users--; h.users > 0 {
		return
	}
	if h.adopted.local.Port != 0 {
		delete(t.adopted, h.adopted) // those that come from now on have another
	}
	if h.claim == 0 {
		t.endHold(at)
		return
	}
	t.leaving = append(t.leaving, leaving{at, t.now().Add(t.timeWait)})
}

// takeHold ends the hold of a connection that has moved away, at once, and returns the socket below, which stays open. Of a listener's hold it
// counts a user less.
func (t *Transport) takeHold(at int32) (below ring.Conn) {
	switch {
	case at == 0:
		return 0
	case t.holds[at-1].isListeners:
		t.dropHold(at)
		return 0
	}
	h := &t.holds[at-1]
	below, h.below = h.below, 0
	t.endHold(at)
	return below
}

// expireHolds ends the holds without users whose time is over. All wait equally long, so leaving is in the order of due.
func (t *Transport) expireHolds(now clock.Time) {
	n := 0
	for n < len(t.leaving) && t.leaving[n].due <= now {
		t.endHold(t.leaving[n].hold)
		n++
	}
	t.leaving = t.leaving[:copy(t.leaving, t.leaving[n:])]
}

// endHold ends the host's claim, releases the port of the socket below, and frees the hold's place.
func (t *Transport) endHold(at int32) {
	h := &t.holds[at-1]
	if h.claim != 0 {
		t.host.Unclaim(h.claim)
	}
	if h.below != 0 {
		_ = t.below.Release(h.below) // its end is of no interest to anybody
	}
	*h = hold{}
	t.freeHolds = append(t.freeHolds, at)
}
