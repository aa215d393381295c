package ring

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wheel"
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
type Socket struct {
	handle    Handle
	transport Transport
	stack     StackTransport       // transport, if it is one; else nil
	ring      *Ring                // the owner's; others read shared
	shared    atomic.Pointer[Ring] // ring, for any goroutine
	set       *Set                 // the owner's: it may change until there is a ring
	maker     *Set                 // the set that made the socket, for any goroutine
	userData  uint64
	id        int

	// slowPath is whether packets must take the slow path: a callback, another mode than Completions, suspended, or closing.
	slowPath      bool
	ready         bool // in the ring's ready list
	state         state
	stops         stop
	mode          Mode
	flags         Event // raised, not yet delivered
	announcedTurn uint64
	latched       uint64
	nextReady     *Socket
	cause         error // of the flags that tell of an end
	late          error // of EventOut: a write deadline
	received      queue // packets not yet delivered
	unseen        queue // packets that came while the socket was suspended, for the callback; behind those in received
	waiting       int   // bytes in both
	done          queue // finished sends not yet delivered
	callback      ReceiveCallback

	local, remote netip.AddrPort
	ends          atomic.Pointer[ends] // both, for any goroutine; nil: they never change
	listener      *Socket

	sending      sendQueue
	discarded    bool          // no event reports it, not even that it was closed
	reset        bool          // it ends with a reset
	wantOut      bool          // EventOut was promised
	shutWrite    bool          // CloseWrite was called
	writeShut    bool          // and done
	touched      bool          // has been in a state in which packets can come
	broken       syscall.Errno // a send was notified that the connection is no more
	fatal        error         // what ended the connection
	eof          bool          // the peer's FIN was raised or is pending
	lingering    bool          // Close waits for the peer's FIN or the close timer
	backoff      time.Duration
	linger       time.Duration // <0: the default; 0: Close aborts; >0: Close waits this long for the peer's FIN
	timers       *[numTimers]wheel.Timer
	family       Family
	config       Config
	counts       socketCounts
	options      SocketOptions
	shaper       *shaper // of datagram sockets that are paced or numbered
	files        *outFiles
	pacing       Pacing
	acceptErrs   uint64
	withheld     []withheld // connections that came in while the listener was being suspended
	device       int        // interface index of BindToDevice
	needsOwnRing bool       // its ring allocation logic wants another ring than the one of its set
	unix         *unixEnd   // of unix-domain sockets
	why          []Reason   // of SetConfig.Place
}

// ID is the number that the transport gave the socket when it was made: unique while the socket lives, and its user data by default. In the
// kernel it is the descriptor: good for what fcntl and getsockopt answer, and for duplicating (F_DUPFD_CLOEXEC); it is not to be closed or read
// from. Any goroutine.
func (s *Socket) ID() int { return s.id }

// Connecting reports that the socket is a stream whose connection neither stands nor has failed. For drivers.
func (s *Socket) Connecting() bool { return s.readable() && s.state == stateConnecting }

// Kind tells listeners, streams and datagram sockets apart. Owner only.
func (s *Socket) Kind() SocketKind {
	if !s.readable() {
		return 0
	}
	return s.handle.Kind
}

// Ring is the ring that delivers the socket's completions; nil while it has none: before listen or connect (TCP), before bind
// to a port or connect (UDP). (VMA: get_socket_rings_num answers 0.) Any goroutine.
func (s *Socket) Ring() *Ring { return s.shared.Load() }

// setRing gives the socket its ring, or takes it away again: nil.
func (s *Socket) setRing(r *Ring) {
	s.ring = r
	s.shared.Store(r)
}

// NumRings is how many rings the socket has: 1 from when it gets one until it is closed. Owner only. (VMA: get_socket_rings_num.)
func (s *Socket) NumRings() int {
	if !s.readable() || s.ring == nil || s.state >= stateClosing {
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
	dst[0] = s.ring.FD()
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
	if s.ring != nil && s.announcedThisPoll() {
		s.latched = v
	}
	return nil
}

// Path reports how the socket's bytes travel, and why not better. Owner only.
func (s *Socket) Path() Path {
	if !s.readable() {
		return Path{}
	}
	if s.ring != nil {
		if x, ok := s.ring.drv.(PathReporter); ok {
			return s.driverPath(x)
		}
	}
	p := Path{Tier: TierKernel}
	if s.set != nil {
		p.Reasons = s.set.reasons
		p.Kind = s.set.kind
		if len(s.why) > 0 {
			p.Lost = s.why[0].Code
			p.Reasons = append(append([]Reason(nil), s.why...), p.Reasons...)
		}
	}
	if s.ring != nil {
		p.Kind = s.ring.drv.Kind()
		if s.ring.key.reason.Code != "" {
			p.Reasons = append(append([]Reason(nil), p.Reasons...), s.ring.key.reason)
		}
		if s.shaper != nil && s.ring.drv.Caps().Has(CapZeroCopySend) {
			p.Reasons = append(p.Reasons[:len(p.Reasons):len(p.Reasons)], paceCopies)
		}
		p.Reasons = s.cardReasons(p.Reasons)
	}
	return p
}

// Held is the buffer memory the socket holds, in bytes: what is queued for it and what the application has not released. Owner only.
func (s *Socket) Held() int {
	if !s.readable() || s.ring == nil {
		return 0
	}
	return s.ring.pool.Used(s.handle.Account)
}

// State is what the socket is doing, in a word: "new", "connecting", "open", "listening", "dead" (ended by an error), "closing",
// "closed". Owner only; "" for others.
func (s *Socket) State() string {
	if !s.readable() {
		return ""
	}
	return s.state.String()
}

func (s *Socket) announcedThisPoll() bool { return s.announcedTurn == s.ring.turn }

func (s *Socket) suspended() bool {
	return s.stops&stopUser != 0 && s.state < stateDead && s.broken == 0
}

func (s *Socket) needsSlowPath() bool { return s.slowPath || s.ready || s.announcedTurn == s.ring.turn }

func (s *Socket) updateSlowPath() {
	s.slowPath = s.callback != nil || s.mode != Completions || s.stops&stopUser != 0 || s.state >= stateDead
}

// destination is where the datagram was sent to: as the kernel says, or the socket's own address when that is definite.
func (s *Socket) destination(m *Meta) netip.AddrPort {
	if m.Destination.IsValid() {
		return netip.AddrPortFrom(m.Destination, s.local.Port())
	}
	return s.local
}

// admit gives the socket a slot and an account and introduces it to the driver.
func (r *Ring) admit(s *Socket) error {
	if err := r.mayStamp(s); err != nil {
		return err
	}
	a, err := r.pool.OpenAccount(s.config.Budget)
	if err != nil {
		return err
	}
	var slot uint32
	if n := len(r.freeSlots); n > 0 {
		slot = r.freeSlots[n-1]
		r.freeSlots = r.freeSlots[:n-1]
	} else {
		slot = uint32(len(r.slots))
		r.slots = append(r.slots, nil)
		r.gens = append(r.gens, 0)
	}
	r.gens[slot]++
	s.handle.Slot, s.handle.Gen, s.handle.Account = slot, r.gens[slot], a
	s.setRing(r)
	r.slots[slot] = s
	r.sockets++
	err = r.drv.Attach(s)
	if err == nil {
		if err = r.askCredit(s); err != nil {
			r.drv.Detach(s)
		}
	}
	if err != nil {
		r.pool.CloseAccount(a)
		s.removeFromRing()
		s.setRing(nil)
		return err
	}
	s.openStamps()
	return nil
}

// removeFromRing takes the socket out of its slot; it is the end of it.
func (s *Socket) removeFromRing() {
	r := s.ring
	if s.handle.Kind == KindListener {
		r.listeners = slices.DeleteFunc(r.listeners, func(l *Socket) bool { return l == s })
	}
	r.slots[s.handle.Slot] = nil
	r.freeSlots = append(r.freeSlots, s.handle.Slot)
	r.sockets--
}
