package ring

import "github.com/socketxtreme/socketxtreme/internal/sys"

// A set, its rings and their sockets belong to one goroutine, the owner: the one that polled a ring of the set first. Each exported method
// compares its caller with it before it reads anything else, also on closed sockets and on those without a ring.
//
//	the caller is                     a call with an error result         a call without
//	the owner                         goes on                             goes on
//	anyone, before the first Poll     goes on                             goes on
//	another goroutine                 ErrOwner                            the zero value, no effect
//	anyone, after the ring's Close    ErrClosed                           goes on: nothing changes any more
//
// What is refused is counted: RingStats.Misuses. The methods for any goroutine say so in their comment; ringtest has the list, with the reasons.

// closedOwner is the identity of no goroutine: a closed ring belongs to none.
const closedOwner = ^uintptr(0)

// Check reports whether the calling goroutine may use the ring: nil for its owner, and for anyone before it has one; ErrOwner or ErrClosed.
// Any goroutine.
func (r *Ring) Check() error {
	self := sys.Goroutine()
	switch owner := r.owner.Load(); {
	case owner == self, owner == 0 && !r.set.isOwnedByOther(self):
		return nil
	case owner == closedOwner:
		return ErrClosed
	}
	return ErrOwner
}

// check is Check that also counts a call by another goroutine as a misuse.
func (r *Ring) check() error {
	err := r.Check()
	if err == ErrOwner {
		r.misuses.Add(1)
	}
	return err
}

// isOwner is check without an error and without counting, for the calls that are made for each message.
func (r *Ring) isOwner() bool {
	owner, self := r.owner.Load(), sys.Goroutine()
	return owner == self || owner == 0 && !r.set.isOwnedByOther(self)
}

// isPolledHere reports whether the calling goroutine polls the ring.
func (r *Ring) isPolledHere() bool { return r.owner.Load() == sys.Goroutine() }

// IsPolled reports whether a goroutine has polled the ring, which is open. Any goroutine.
func (r *Ring) IsPolled() bool {
	owner := r.owner.Load()
	return owner != 0 && owner != closedOwner
}

// readable reports whether the calling goroutine may read the ring's state: the owner, or anyone before the first Poll and after Close.
func (r *Ring) readable() bool { return r.isOwner() || r.check() != ErrOwner }

// Check reports whether the calling goroutine may use the set: nil for the owner of its rings, and for anyone before they have one; ErrOwner or
// ErrClosed. Any goroutine.
func (set *Set) Check() error {
	switch {
	case set.isOwnedByOther(sys.Goroutine()):
		return ErrOwner
	case set.closed.Load():
		return ErrClosed
	}
	return nil
}

// BeginCall is Check that also counts a call by another goroutine as a misuse. Methods of the set, and of objects that belong to the same owner
// (pollers), begin with it. Any goroutine.
func (set *Set) BeginCall() error {
	err := set.Check()
	if err == ErrOwner {
		if rings := set.siblings(); len(rings) > 0 {
			rings[0].misuses.Add(1)
		}
	}
	return err
}

// siblings are the rings of the set's owner, those of its other sets included.
func (set *Set) siblings() []*Ring {
	if f := set.config.Siblings; f != nil {
		return f()
	}
	return set.Rings()
}

// isOwnedByOther reports whether a ring of the set's owner belongs to another goroutine than self.
func (set *Set) isOwnedByOther(self uintptr) bool {
	for _, r := range set.siblings() {
		if owner := r.owner.Load(); owner != 0 && owner != self && owner != closedOwner {
			return true
		}
	}
	return false
}

// mayUse is nil if the calling goroutine may use the socket, with a ring or before it has one; else the error of the call op: ErrOwner or
// ErrClosed.
func (s *Socket) mayUse(op string) error {
	err := s.checkUse(op)
	if err != nil {
		return traced(s, op, "", err) // calls that go on are traced where they end
	}
	return nil
}

// checkUse is mayUse for calls that are not traced.
func (s *Socket) checkUse(op string) error {
	if r := s.ring(); r != nil {
		if !r.isOwner() { // first: the rest is the owner's to read
			return s.ownerError(op)
		}
	} else if err := s.makerSet().BeginCall(); err != nil {
		return &OpError{Op: op, Err: err}
	}
	if s.state >= stateClosing {
		return &OpError{Op: op, Err: ErrClosed}
	}
	return nil
}

// usable is mayUse for what needs a ring.
func (s *Socket) usable(op string) error {
	if err := s.mayUse(op); err != nil {
		return err
	}
	if s.ring() == nil {
		return stateError(op, s)
	}
	return nil
}

// readable reports whether the calling goroutine may read the socket's state; a refusal is counted as a misuse.
func (s *Socket) readable() bool {
	if r := s.ring(); r != nil {
		return r.readable()
	}
	return s.makerSet().BeginCall() != ErrOwner
}

// Check reports whether the calling goroutine may use the socket now: nil for the owner of one that has a ring; else ErrOwner, ErrClosed, or
// ErrState before it has one. Any goroutine.
func (s *Socket) Check() error {
	var err error
	if r := s.ring(); r != nil {
		err = r.Check()
	} else {
		err = s.makerSet().Check()
	}
	switch {
	case err != nil:
		return &OpError{Op: "use", Err: err}
	case s.state >= stateClosing:
		return &OpError{Op: "use", Err: ErrClosed}
	case s.ring() == nil:
		return stateError("use", s)
	}
	return nil
}

// ownerError is the error of a call by another goroutine than the ring's; ErrClosed when the ring is closed.
func (s *Socket) ownerError(op string) error { return &OpError{Op: op, Err: s.ring().check()} }
