package steering

import (
	"errors"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Claimer redirects flows from the kernel to the links of an interface: packets that a claim matches arrive there. Any goroutine.
type Claimer interface {
	Claim(f link.Flow) error
	Release(f link.Flow) error
}

// Target is where flows are claimed: with an interface, for frames of one tag.
type Target struct {
	Claimer
	VLAN uint16
}

// Claim is a flow, and where it is claimed. The flow has the target's tag.
type Claim struct {
	At Target
	link.Flow
}

// HeldClaims are the claims of one socket. The zero value has none.
type HeldClaims struct{ claims []Claim }

// Has reports whether the socket has a claim.
func (h *HeldClaims) Has(c Claim) bool { return slices.Contains(h.claims, c) }

// Len is how many claims the socket has.
func (h *HeldClaims) Len() int { return len(h.claims) }

// Table is the claims of one ring's sockets. It belongs to the ring's goroutine.
type Table struct {
	targets  []Target
	users    map[Claim]int // sockets that hold each
	failures uint64
}

// NewTable makes a table without targets.
func NewTable() *Table { return &Table{users: map[Claim]int{}} }

// Failures counts claims that could not be released: the flow still comes by the link, and has no socket.
func (t *Table) Failures() uint64 { return t.failures }

// Targets lists where flows can be claimed; not to be changed.
func (t *Table) Targets() []Target { return t.targets }

// AddTarget makes one more target known. Queues of one interface share theirs.
func (t *Table) AddTarget(at Target) {
	if at.Claimer != nil && !slices.Contains(t.targets, at) {
		t.targets = append(t.targets, at)
	}
}

// RemoveTarget forgets a target. What sockets hold there is released before, by ReleaseAt.
func (t *Table) RemoveTarget(at Target) {
	t.targets = slices.DeleteFunc(t.targets, func(x Target) bool { return x == at })
}

// Add claims one more flow for a socket.
func (t *Table) Add(h *HeldClaims, c Claim) error {
	if t.users[c] == 0 {
		if err := c.At.Claim(c.Flow); err != nil {
			return err
		}
	}
	t.users[c]++
	h.claims = append(h.claims, c)
	return nil
}

// Remove releases one of the socket's claims, if it has it.
func (t *Table) Remove(h *HeldClaims, c Claim) (had bool) {
	i := slices.Index(h.claims, c)
	if i < 0 {
		return false
	}
	h.claims = slices.Delete(h.claims, i, i+1)
	t.release(c)
	return true
}

// release counts one user of a claim less, and releases it with the last one.
func (t *Table) release(c Claim) {
	if t.users[c]--; t.users[c] > 0 {
		return
	}
	delete(t.users, c)
	if c.At.Release(c.Flow) != nil {
		t.failures++
	}
}

// Set makes the socket's claims those of a list: missing ones are made, others released. added: there are new ones. refused: why others could
// not be made.
func (t *Table) Set(h *HeldClaims, want []Claim) (added bool, refused []error) {
	had := h.claims
	has := make(map[Claim]bool, len(had))
	for _, c := range had {
		has[c] = true
	}
	h.claims = nil
	keeps := make(map[Claim]bool, len(want))
	for _, c := range want {
		if keeps[c] = true; has[c] {
			h.claims = append(h.claims, c)
		} else if err := t.Add(h, c); err != nil {
			refused = append(refused, err)
		} else {
			added = true
		}
	}
	for _, c := range had {
		if !keeps[c] {
			t.release(c)
		}
	}
	return added, refused
}

// AddAt makes those claims of a list that are for one target, where the socket does not have them yet. On an error some may be made: see
// ReleaseAt.
func (t *Table) AddAt(h *HeldClaims, at Target, want []Claim) error {
	has := make(map[Claim]bool, len(h.claims))
	for _, c := range h.claims {
		has[c] = true
	}
	for _, c := range want {
		if c.At != at || has[c] {
			continue
		}
		if err := t.Add(h, c); err != nil {
			return err
		}
	}
	return nil
}

// ReleaseAt releases a socket's claims at one target. On an error a flow is still redirected.
func (t *Table) ReleaseAt(h *HeldClaims, at Target) error {
	failures := t.failures
	h.claims = slices.DeleteFunc(h.claims, func(c Claim) bool {
		if c.At == at {
			t.release(c)
		}
		return c.At == at
	})
	if t.failures > failures {
		return errors.New("offload: a claim could not be given back")
	}
	return nil
}

// ReleaseAll releases all claims of a socket.
func (t *Table) ReleaseAll(h *HeldClaims) {
	for _, c := range h.claims {
		t.release(c)
	}
	h.claims = nil
}
