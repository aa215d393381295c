package ring

import (
	"net/netip"
	"slices"
	"sync/atomic"
)

type state uint8

// The states of a socket, in the order in which it can pass through them.
const (
	stateNew        state = iota // made, perhaps bound: no ring yet (a bound or connected UDP socket is open)
	stateConnecting              // TCP: SYN sent
	stateOpen                    // receives and sends
	stateListening               // TCP: accepts
	stateDead                    // ended by an error, which was reported; waits for Close
	stateClosing                 // Close was called; the driver or its transport still holds something
	stateGone                    // closed in the transport; at most CLOSED is still to be delivered
)

func (s state) String() string {
	return [...]string{"new", "connecting", "open", "listening", "dead", "closing", "closed"}[s]
}

// Socket is a listener or a connection, TCP or unix-domain, or a UDP socket. It belongs to its ring's owner.
//
// Applications get one from a poller, use it on the goroutine that polls, and compare it by its address. A *Socket stays valid after CLOSED:
// calls then return ErrClosed.
type Socket struct {
	// The record has two cache lines and no pointer, and lies in a chunk of such records (socketTable), so that a million idle connections
	// cost the garbage collector nothing. What else a socket has is its active state.
	//
	//	 0 │ handle: connection, slot, generation, account, kind, class … │ 24
	//	24 │ user data                 │ id           │ ring            │ 40
	//	40 │ set that made it │ place  │ active state │ settings        │ 56
	//	56 │ state, stops, mode, family, transport, flags               │ 68
	//	68 │ packets and bytes received, messages and bytes sent        │ 84
	//	84 │ local and remote address                                   │ 128
	handle      Handle
	userData    uint64
	id          int32
	ringNumber  atomic.Uint32 // of rings; 0: it has none
	maker       uint32        // number of the set that made the socket
	at          uint32        // place in the maker's table
	activeIndex uint32        // of its active state, at the maker; 0: it has none of its own
	settings    atomic.Uint32 // what it was made with, at the maker

	state  state
	stops  stop
	mode   Mode
	family Family
	via    uint8 // transport, at the maker

	// slowPath is whether packets must take the slow path: a callback, another mode than Completions, suspended, or closing.
	slowPath         bool
	ready            bool // in the ring's ready list
	announced        bool // its NEW_CONNECTION was delivered by the last Poll
	touched          bool // has been in a state in which packets can come
	wantOut          bool // EventOut follows when there is room
	closeWriteCalled bool // CloseWrite was called
	marks            mark

	totals totals
	ends   endpoints
}

// mark is a flag of a socket that is seldom read.
type mark uint8

const (
	markCounts      mark = 1 << iota // its maker has more of its counts
	markIdleAccount                  // it is in Ring.idleAccounts
)

// isAccepted reports that the socket is a listener's child, and not one that the application has opened.
func (s *Socket) isAccepted() bool { return !s.active().own }

// ID is the number that the transport gave the socket when it was made: unique while the socket lives, and its user data by default. In the
// kernel it is the descriptor: good for what fcntl and getsockopt answer, and for duplicating (F_DUPFD_CLOEXEC); it is not to be closed or read
// from. Any goroutine.
func (s *Socket) ID() int { return int(s.id) }

// IsConnecting reports that the socket is a stream whose connection is neither established nor has failed. For transports; owner only.
func IsConnecting(s *Socket) bool { return s.readable() && s.state == stateConnecting }

// Kind tells listeners, streams and datagram sockets apart. Owner only.
func (s *Socket) Kind() SocketKind {
	if !s.readable() {
		return 0
	}
	return s.handle.Kind
}

// Ring is the ring that delivers the socket's completions; nil while it has none: before listen or connect (TCP), before bind
// to a port or connect (UDP). (VMA: get_socket_rings_num answers 0.) Any goroutine.
func (s *Socket) Ring() *Ring {
	n := s.ringNumber.Load()
	if r := rings.at(n); r != closedRing {
		return r
	}
	return rings.entry(n).was.Value()
}

// setRing gives the socket its ring, or takes it away again: nil.
func (s *Socket) setRing(r *Ring) {
	if r == nil {
		s.ringNumber.Store(0)
		return
	}
	s.ringNumber.Store(r.number)
}

// set is the set that carries the socket: it may change until there is a ring.
func (s *Socket) set() *Set {
	if r := s.ring(); r != nil {
		return r.set
	}
	return s.active().set
}

// NumRings is how many rings the socket has: 1 from when it gets one until it is closed. Owner only. (VMA: get_socket_rings_num.)
func (s *Socket) NumRings() int {
	if !s.readable() || s.ring() == nil || s.state >= stateClosing {
		return 0
	}
	return 1
}

// RingFDs writes the descriptors of the socket's rings to dst and returns how many there are room for and exist. An empty dst is
// an error. Owner only. (VMA: get_socket_rings_fds.)
func (s *Socket) RingFDs(dst []int) (int, error) {
	if !s.readable() {
		return 0, &OpError{Op: "ring fds", Err: ErrOwner}
	}
	if len(dst) == 0 {
		return 0, badArgument("ring fds", "destination of length", 0)
	}
	if s.NumRings() == 0 {
		return 0, nil
	}
	dst[0] = s.ring().FD()
	return 1, nil
}

// UserData is what SetUserData set, or the socket's ID. Owner only.
func (s *Socket) UserData() uint64 {
	if !s.readable() {
		return 0
	}
	return s.userData
}

// SetUserData sets the value that later completions of the socket carry. A completion that is pending keeps the value it was
// raised with; for a connection that was delivered as new in the last Poll nothing is pending yet, so the value set now is on all
// that follows. Another goroutine than the owner gets ErrOwner. On a closed socket it has no effect but on EventClosed. (VMA:
// SO_VMA_USER_DATA.)
func (s *Socket) SetUserData(v uint64) error {
	if !s.readable() {
		return &OpError{Op: "set user data", Err: ErrOwner}
	}
	s.userData = v
	if s.announced && s.isActive() { // flags that were raised since carry the value of now
		s.active().latched = v
	}
	return nil
}

// Path reports how the socket's bytes travel, and why not better. Owner only.
func (s *Socket) Path() Path {
	if !s.readable() {
		return Path{}
	}
	r := s.Ring()
	if r != nil {
		if x, ok := r.drv.(PathReporter); ok {
			return s.driverPath(r, x)
		}
	}
	p := Path{Tier: TierKernel}
	if set := s.set(); set != nil {
		p.Reasons = set.reasons
		p.Kind = set.kind
		if why := s.settingsRecord().placeReasons; len(why) > 0 {
			if !slices.ContainsFunc(set.reasons, func(r Reason) bool { return r.Code == notAsked }) {
				p.Lost = why[0].Code // a poller that was not asked for bypass has lost none
			}
			p.Reasons = append(append([]Reason(nil), why...), p.Reasons...)
		}
	}
	if r != nil {
		p.Kind = r.drv.Kind()
		if r.key.reason.Code != "" {
			p.Reasons = append(append([]Reason(nil), p.Reasons...), r.key.reason)
		}
		if s.active().shaper != nil && r.drv.Caps().Has(CapZeroCopySend) {
			p.Reasons = append(p.Reasons[:len(p.Reasons):len(p.Reasons)], paceCopies)
		}
		p.Reasons = s.cardReasons(p.Reasons)
	}
	return p
}

// Held is the buffer memory the socket holds, in bytes: what is queued for it and what the application has not released. Owner only.
func (s *Socket) Held() int {
	if !s.readable() || s.handle.Account == 0 {
		return 0
	}
	if r := s.Ring(); r != nil {
		return r.pool.Used(s.handle.Account)
	}
	return 0
}

// State is what the socket is doing, in a word: "new", "connecting", "open", "listening", "dead" (ended by an error), "closing",
// "closed". Owner only; "" for others.
func (s *Socket) State() string {
	if !s.readable() {
		return ""
	}
	return s.state.String()
}

// suspended reports whether packets wait for Resume. The end of the connection ends a suspension, also the end that a send has met
// (noteSendBroken).
func (s *Socket) suspended() bool {
	return s.stops&stopUser != 0 && s.state < stateDead && s.active().sendError == 0
}

func (s *Socket) needsSlowPath() bool { return s.slowPath || s.ready || s.announced }

func (s *Socket) updateSlowPath() {
	s.slowPath = s.active().callback != nil || s.mode != Completions || s.stops&stopUser != 0 || s.state >= stateDead
}

// destination is where the datagram was sent to: as the kernel says, or the socket's own address when that is definite.
func (s *Socket) destination(m *Meta) netip.AddrPort {
	if m.Destination.IsValid() {
		return netip.AddrPortFrom(m.Destination, s.localPort())
	}
	return s.local()
}

// admit puts the socket on the ring: it gets a slot, a datagram socket an account, and the driver attaches it. On an error it has no ring.
func (r *Ring) admit(s *Socket) error {
	if err := r.mayStamp(s); err != nil {
		return err
	}
	if s.handle.Kind == KindDatagram {
		if err := s.openAccount(r); err != nil {
			return err
		}
	}
	s.setRing(r)
	r.slots.add(s)
	if err := r.drv.Attach(s); err != nil {
		s.closeAccount()
		s.handle.Account = 0
		r.removeSocket(s)
		s.setRing(nil)
		return err
	}
	s.openStamps()
	r.openPage(s)
	return nil
}

// removeSocket frees the socket's slot, and takes a listener off the ring's list.
func (r *Ring) removeSocket(s *Socket) {
	if s.handle.Kind == KindListener {
		r.listeners = slices.DeleteFunc(r.listeners, func(l *Socket) bool { return l == s })
	}
	r.closePage(s)
	r.locals.forget(s)
	r.slots.remove(s)
}

// removeFromRing is the last step of a closed socket. Its record is freed by the next Poll: callers further up may still read it.
func (s *Socket) removeFromRing() {
	r := s.ring()
	r.removeSocket(s)
	r.finished = append(r.finished, s)
}

// forgetFinished frees the records of the sockets that removeFromRing listed.
func (r *Ring) forgetFinished() {
	for i, s := range r.finished {
		s.forget()
		r.finished[i] = nil
	}
	r.finished = r.finished[:0]
}

// endAnnouncements is called at the next Poll after one that delivered NEW_CONNECTION: the application has seen those connections, their further
// events may follow, and the active states of idle ones are freed.
func (r *Ring) endAnnouncements() {
	for i, s := range r.announced {
		s.announced = false
		s.deactivateIfIdle()
		r.announced[i] = nil
	}
	r.announced = r.announced[:0]
}

// driverPath is the path as a driver with several paths reports it, with the reasons of the set and of the ring added.
func (s *Socket) driverPath(r *Ring, x PathReporter) Path {
	p := x.Path(s)
	reasons := append([]Reason(nil), r.set.reasons...)
	if why := r.key.reason; why.Code != "" {
		reasons = append(reasons, why)
	}
	if one := r.set.config.OneRing; one.Code != "" && s.active().needsOwnRing {
		reasons = append(reasons, one)
	}
	p.Reasons = s.cardReasons(append(append(reasons, p.Reasons...), s.settingsRecord().placeReasons...))
	return p
}
