package ring

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
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
	stateClosing                 // Close was called; the kernel still holds something
	stateGone                    // descriptor closed; at most CLOSED is still to be delivered
)

func (s state) String() string {
	return [...]string{"new", "connecting", "open", "listening", "dead", "closing", "closed"}[s]
}

// Why reading is stopped; it goes on when no bit is left.
type stop uint8

const (
	stopUser    stop = 1 << iota // Suspend
	stopBudget                   // holds too many buffers
	stopStarved                  // the pool was empty
	stopBackoff                  // accept failed for want of descriptors or memory
	stopEnded                    // FIN, error or not started yet
)

// Socket is a TCP listener, a TCP connection or a UDP socket. It belongs to its ring's owner.
type Socket struct {
	handle   Handle
	ring     *Ring
	set      *Set
	userData uint64

	// odd is whether packets must take the long way: a hook, another mode than Completions, suspended, or closing.
	odd       bool
	ready     bool // in the ring's ready list
	state     state
	stops     stop
	mode      Mode
	flags     Event // raised, not yet delivered
	quietTurn uint64
	latched   uint64
	nextReady *Socket
	cause     error // of the flags that tell of an end
	late      error // of EventOut: a write deadline
	received  queue // packets not yet delivered
	done      queue // finished sends not yet delivered
	hook      Hook

	local, remote netip.AddrPort
	listener      *Socket

	sending    sendQueue
	discarded  bool          // nobody is to hear of it, not even that it was closed
	wantOut    bool          // EventOut was promised
	shutWrite  bool          // CloseWrite was called
	writeShut  bool          // and done
	touched    bool          // has been in a state in which packets can come
	broken     syscall.Errno // a send was told that the connection is no more
	fatal      error         // what ended the connection
	eof        bool          // the peer's FIN was raised or is pending
	lingering  bool          // Close waits for the peer's FIN or the close timer
	backoff    time.Duration
	linger     time.Duration // <0: the default; 0: Close aborts; >0: Close waits this long for the peer's FIN
	timers     *[numTimers]wheel.Timer
	family     int
	config     Config
	acceptErrs uint64
	withheld   []withheld // connections that came in while the listener was being suspended
	device     int        // interface index of BindToDevice
}

// withheld is a connection nobody was told of yet.
type withheld struct {
	fd   int
	peer netip.AddrPort
}

// ID is the socket's descriptor, which is unique while the socket lives and is its user data by default.
func (s *Socket) ID() int { return s.handle.FD }

// Kind tells listeners, streams and datagram sockets apart.
func (s *Socket) Kind() SocketKind { return s.handle.Kind }

// Ring is the ring that delivers the socket's completions; nil while it has none: before listen or connect (TCP), before bind
// to a port or connect (UDP). (VMA: get_socket_rings_num answers 0.)
func (s *Socket) Ring() *Ring { return s.ring }

// NumRings is how many rings the socket has: 0 or 1 on kernel sockets. (VMA: get_socket_rings_num.)
func (s *Socket) NumRings() int {
	if s.ring == nil {
		return 0
	}
	return 1
}

// RingFDs writes the descriptors of the socket's rings to dst and returns how many there are room for and exist. An empty dst is
// an error. (VMA: get_socket_rings_fds.)
func (s *Socket) RingFDs(dst []int) (int, error) {
	if len(dst) == 0 {
		return 0, badArgument("ring fds", "destination of length", 0)
	}
	if s.ring == nil {
		return 0, nil
	}
	dst[0] = s.ring.FD()
	return 1, nil
}

// LocalAddr is the address the socket is bound to; the zero AddrPort before.
func (s *Socket) LocalAddr() netip.AddrPort { return s.local }

// RemoteAddr is the peer of a connection; the zero AddrPort when there is none.
func (s *Socket) RemoteAddr() netip.AddrPort { return s.remote }

// UserData is what SetUserData set, or the socket's ID.
func (s *Socket) UserData() uint64 { return s.userData }

// SetUserData sets the value that later completions of the socket carry. A completion that is pending keeps the value it was
// raised with; for a connection that was delivered as new in the last Poll nothing is pending yet, so the value set now is on all
// that follows. (VMA: SO_VMA_USER_DATA.)
func (s *Socket) SetUserData(v uint64) {
	s.userData = v
	if s.ring != nil && s.quiet() {
		s.latched = v
	}
}

// Path tells how the socket's bytes travel, and why not better.
func (s *Socket) Path() Path {
	p := Path{Tier: "os"}
	if s.set != nil {
		p.Reasons = s.set.reasons
		p.Kind = s.set.kind
	}
	if s.ring != nil {
		p.Kind = s.ring.drv.Kind()
		if s.ring.key.reason.Code != "" {
			p.Reasons = append(append([]Reason(nil), p.Reasons...), s.ring.key.reason)
		}
	}
	return p
}

// Account is the buffer memory the socket holds, in bytes: what is queued for it and what the application has not released.
func (s *Socket) Held() int {
	if s.ring == nil {
		return 0
	}
	return s.ring.pool.Used(s.handle.Account)
}

// Drops is how many datagrams the kernel dropped at this socket, for want of room in its receive buffer mostly.
func (s *Socket) Drops() (uint32, error) { return sys.Drops(s.handle.FD) }

// AcceptFailures is how often this listener could not accept for want of descriptors or memory.
func (s *Socket) AcceptFailures() uint64 { return s.acceptErrs }

func (s *Socket) quiet() bool     { return s.quietTurn == s.ring.turn }
func (s *Socket) suspended() bool { return s.stops&stopUser != 0 && s.state < stateDead }
func (s *Socket) special() bool   { return s.odd || s.ready || s.quietTurn == s.ring.turn }

func (s *Socket) judge() {
	s.odd = s.hook != nil || s.mode != Completions || s.stops&stopUser != 0 || s.state >= stateClosing
}

// destination is where the datagram was sent to: as the kernel says, or the socket's own address when that is definite.
func (s *Socket) destination(m *Meta) netip.AddrPort {
	if m.Destination.IsValid() {
		return netip.AddrPortFrom(m.Destination, s.local.Port())
	}
	return s.local
}

// Suspend stops reading: no more packets are delivered until Resume, the peer's window closes (TCP) or the kernel's receive
// buffer fills and then drops and counts (UDP). What the ring had taken already waits, in order. A listener stops accepting.
// A failure of the connection ends the suspension: what waits is delivered, then the error.
func (s *Socket) Suspend() error {
	if err := s.usable("suspend"); err != nil {
		return err
	}
	s.stop(stopUser)
	s.judge()
	return nil
}

// Resume undoes Suspend.
func (s *Socket) Resume() error {
	if err := s.usable("resume"); err != nil {
		return err
	}
	s.start(stopUser)
	s.judge()
	for _, c := range s.withheld {
		s.ring.accepted(s, c.fd, c.peer)
	}
	s.withheld = nil
	if s.deliverable() {
		s.makeReady()
	}
	return nil
}

// usable tells whether the caller may use the socket now.
func (s *Socket) usable(op string) error {
	if s.state >= stateClosing {
		return &OpError{Op: op, Err: ErrClosed}
	}
	if s.ring == nil {
		return stateError(op, s)
	}
	if err := s.ring.check(); err != nil {
		return &OpError{Op: op, Err: err}
	}
	return nil
}

// stop stops reading for one more reason, start takes a reason away.
func (s *Socket) stop(why stop) {
	if s.stops&why != 0 || s.sending.detaching {
		return
	}
	was := s.stops
	s.stops |= why
	r := s.ring
	if why&(stopBudget|stopStarved) != 0 {
		if why == stopBudget {
			r.stats.BudgetStops++
		}
		if was&(stopBudget|stopStarved) == 0 {
			if len(r.stopped) == 0 {
				// Everything freed from here on may set it going again; comparing with an older count would look once too
				// often, comparing with a later one would miss.
				r.freed = r.pool.Freed()
			}
			r.stopped = append(r.stopped, s)
		}
	}
	if was == 0 {
		if err := r.drv.Receive(s, false); err != nil {
			r.fail(&OpError{Op: "stop receiving", Err: err})
		}
	}
}

func (s *Socket) start(why stop) {
	if s.stops&why == 0 {
		return
	}
	s.stops &^= why
	if s.stops == 0 && s.state < stateClosing {
		if err := s.ring.drv.Receive(s, true); err != nil {
			s.ring.fail(&OpError{Op: "receive", Err: err})
		}
	}
}

// restartLimit bounds how many stopped sockets one Poll looks at.
const restartLimit = 64

// restart lets sockets read again that had stopped for want of buffers, as far as the budgets now allow.
func (r *Ring) restart() {
	freed := r.pool.Freed()
	if freed == r.freed {
		return
	}
	n := len(r.stopped)
	batch := r.waking[:copy(r.waking[:], r.stopped)]
	r.stopped = r.stopped[:copy(r.stopped, r.stopped[len(batch):])]
	for i, s := range batch {
		batch[i] = nil
		if s.state >= stateDead {
			s.stops &^= stopBudget | stopStarved
			continue
		}
		if !r.pool.Over(s.handle.Account) && r.pool.Available(s.handle.Class) > 0 {
			s.start(stopBudget | stopStarved)
		} else {
			r.stopped = append(r.stopped, s)
		}
	}
	if n <= restartLimit {
		r.freed = freed
	}
}

// accepted makes the child of a listener and publishes it: it is bound to the ring before its NEW_CONNECTION is raised.
func (r *Ring) accepted(l *Socket, fd int, peer netip.AddrPort) {
	if l.state != stateListening {
		_ = unix.Close(fd) // the listener was closed in this turn: the peer sees a reset, as of a closed port
		return
	}
	l.backoff = 0
	if l.stops&stopUser != 0 {
		// Accepted while Suspend was on its way to the kernel: it waits for Resume.
		l.withheld = append(l.withheld, withheld{fd, peer})
		return
	}
	if !peer.IsValid() {
		if peer = sys.PeerName(fd); !peer.IsValid() {
			_ = unix.Close(fd) // reset before it was accepted: there never was a connection to speak of
			return
		}
	}
	s := &Socket{set: l.set, family: l.family, remote: peer, listener: l, linger: l.linger, mode: l.mode, hook: l.hook,
		state: stateOpen, config: l.config}
	s.handle = Handle{FD: fd, Kind: Stream, Class: l.config.streamClass()}
	s.local = l.local
	if s.local.Addr().IsUnspecified() {
		s.local = sys.SockName(fd)
	}
	s.userData = uint64(fd)
	if err := r.adopt(s); err != nil {
		r.stats.AcceptFailures++
		r.fail(&OpError{Op: "accept", Addr: peer, Err: err})
		sys.Reset(fd)
		return
	}
	s.judge()
	r.stats.Accepted++
	s.raise(EventNewConnection, nil)
	if err := r.drv.Receive(s, true); err != nil {
		s.failed(asErrno(err))
	}
}

// backoffFirst and backoffMost bound how long a listener waits after the descriptor limit was hit.
const (
	backoffFirst = 5 * time.Millisecond
	backoffMost  = 500 * time.Millisecond
)

func (r *Ring) acceptFailed(l *Socket, e syscall.Errno) {
	if l.state != stateListening {
		return
	}
	r.stats.AcceptFailures++
	l.acceptErrs++
	l.stop(stopBackoff)
	l.backoff = min(max(2*l.backoff, backoffFirst), backoffMost)
	l.setTimer(timerAccept, r.clock().Add(l.backoff))
}

// adopt gives the socket a slot and an account and introduces it to the driver.
func (r *Ring) adopt(s *Socket) error {
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
	s.ring = r
	r.slots[slot] = s
	r.sockets++
	if err := r.drv.Attach(s); err != nil {
		r.pool.CloseAccount(a)
		s.forget()
		s.ring = nil
		return err
	}
	return nil
}

// forget takes the socket out of its slot; it is the end of it.
func (s *Socket) forget() {
	r := s.ring
	if s.handle.Kind == Listener {
		r.listeners = slices.DeleteFunc(r.listeners, func(l *Socket) bool { return l == s })
	}
	r.slots[s.handle.Slot] = nil
	r.freeSlots = append(r.freeSlots, s.handle.Slot)
	r.sockets--
}

// ended is the peer's FIN.
func (s *Socket) ended() {
	if s.eof || s.state == stateDead || s.state >= stateGone {
		return
	}
	if s.broken != 0 && s.state < stateDead {
		s.failed(s.broken)
		return
	}
	s.eof = true
	s.handle.Ended = true
	s.stop(stopEnded)
	if s.state == stateClosing {
		if s.lingering {
			s.detach()
		}
		return
	}
	s.raise(eventFin, nil)
}

// failed is an error the kernel reported for the socket.
func (s *Socket) failed(e syscall.Errno) {
	switch {
	case s.state == stateClosing:
		// The connection broke while it was being closed: there is nobody to tell and nothing left to wait for.
		if s.sending.inflight == 0 || s.lingering {
			s.dropSends()
			s.detach()
		}
		return
	case s.state >= stateDead:
		return
	case s.handle.Kind == Datagram:
		// An ICMP error concerns one datagram that was sent; the socket lives on.
		s.raise(EventErr, e)
		return
	}
	connecting := s.state == stateConnecting
	s.state = stateDead
	s.stop(stopEnded)
	s.setTimer(timerConnect, clock.Never)
	if !connecting {
		e = normalise(e)
	}
	s.fatal = e
	s.raise(eventOfError(e, connecting), e)
	s.judge()
}

func (s *Socket) connectTimedOut() {
	if s.state == stateConnecting {
		s.failed(unix.ETIMEDOUT)
	}
}

// writable answers the driver's NotifyWritable: the connection is there, or the send queue has room again.
func (s *Socket) writable() {
	switch s.state {
	case stateConnecting:
		if e := sys.SocketError(s.handle.FD); e != 0 {
			s.failed(e)
			return
		}
		s.state = stateOpen
		s.wantOut = false
		s.setTimer(timerConnect, clock.Never)
		s.local = sys.SockName(s.handle.FD)
		s.raise(EventOut, nil)
		s.start(stopEnded)
		if s.sending.queued() {
			s.transmit()
		}
		if s.shutWrite {
			s.shutdownWrite()
		}
	case stateOpen:
		if s.wantOut && !s.sending.busy() {
			s.wantOut = false
			s.raise(EventOut, nil)
		}
	}
}

// Close ends the socket in good order: what was handed to Send and SendPacket before still goes out, then FIN. Packets that
// were not delivered yet are released; those the application holds stay valid. EventSent of sends under way and at last
// EventClosed follow; then the Socket is spent. A peer that takes nothing is given up after Config.CloseTimeout. With linger 0
// it is Abort. Owner only.
func (s *Socket) Close() error {
	if s.state >= stateClosing {
		return &OpError{Op: "close", Err: ErrClosed}
	}
	if s.ring == nil {
		s.state = stateGone
		return closeFD(s.handle.FD)
	}
	if err := s.ring.check(); err != nil {
		return &OpError{Op: "close", Err: err}
	}
	if s.linger == 0 && s.handle.Kind == Stream {
		return s.abort()
	}
	dead := s.state == stateDead || s.state == stateConnecting
	s.retire()
	switch {
	case dead:
		s.dropSends()
		s.detach()
	case s.sending.busy():
		s.setTimer(timerClose, s.ring.clock().Add(s.config.CloseTimeout))
	default:
		s.flushed()
	}
	return nil
}

// flushed goes on with Close once all sends are done.
func (s *Socket) flushed() {
	if s.handle.Kind == Stream && s.linger > 0 && !s.eof {
		s.lingering = true
		s.shutdownWrite()
		s.stops = 0 // whatever had stopped it: what comes now is thrown away
		if err := s.ring.drv.Receive(s, true); err != nil {
			s.ring.fail(&OpError{Op: "receive", Err: err})
		}
		s.setTimer(timerClose, s.ring.clock().Add(s.linger))
		return
	}
	s.detach()
}

// Abort ends the socket at once: what was not sent is dropped (its EventSent carries ErrClosed), a TCP peer sees a reset.
// EventClosed follows. Owner only.
func (s *Socket) Abort() error {
	if s.state >= stateGone {
		return &OpError{Op: "abort", Err: ErrClosed}
	}
	if s.ring == nil {
		return s.Close()
	}
	if err := s.ring.check(); err != nil {
		return &OpError{Op: "abort", Err: err}
	}
	return s.abort()
}

// Discard is Abort for a socket that nobody was told of yet, such as one whose set-up failed half way: no completion speaks of it.
func (s *Socket) Discard() error {
	s.discarded = true
	return s.Abort()
}

func (s *Socket) abort() error {
	if s.state < stateClosing {
		s.retire()
	}
	if s.handle.Kind == Stream {
		sys.SetReset(s.handle.FD)
	}
	s.dropSends()
	s.detach()
	return nil
}

// retire is what every way of closing begins with: from here on nothing but SENT and CLOSED is delivered.
func (s *Socket) retire() {
	s.state = stateClosing
	s.stopTimers()
	s.flags, s.cause, s.late = 0, nil, nil
	s.dropReceived()
	for _, c := range s.withheld {
		sys.Reset(c.fd)
	}
	s.withheld = nil
	s.hook = nil
	s.judge()
}

// detach makes the driver let go of the socket, once.
func (s *Socket) detach() {
	if s.sending.detaching {
		return
	}
	s.sending.detaching = true
	s.lingering = false
	s.setTimer(timerClose, clock.Never)
	if s.ring.drv.Detach(s) {
		s.detached()
	}
}

// detached goes on when no operation of the driver needs the descriptor any more.
func (s *Socket) detached() {
	if s.state != stateClosing {
		return
	}
	fd := s.handle.FD
	if s.handle.Kind == Stream && !s.eof {
		// close(2) with unread data sends a reset, which may overtake what we sent last (RFC 1122 section 4.2.2.13); what the
		// application did not want to read must not cost the peer what it still wanted to.
		for range 16 {
			if n, e := sys.Discard(fd, 1<<20); n <= 0 || e != 0 {
				break
			}
		}
	}
	s.state = stateGone
	if err := closeFD(fd); err != nil {
		s.ring.fail(err)
	}
	s.ring.pool.CloseAccount(s.handle.Account)
	s.ring.wakeListeners()
	s.finish()
}

// finish raises CLOSED when the last send was given back.
func (s *Socket) finish() {
	if s.state != stateGone || s.sending.inflight > 0 {
		return
	}
	if s.discarded {
		s.flags = 0
		s.forget()
	} else {
		s.raise(EventClosed, nil)
	}
}

// wakeListeners lets listeners that ran out of descriptors try again now that one was closed.
func (r *Ring) wakeListeners() {
	if r.stats.AcceptFailures == 0 {
		return
	}
	for _, l := range r.listeners {
		if l.stops&stopBackoff != 0 {
			l.setTimer(timerAccept, clock.Never)
			l.start(stopBackoff)
		}
	}
}

// CloseWrite sends FIN after all that was handed to Send and SendPacket; reading goes on. Owner only.
func (s *Socket) CloseWrite() error {
	if err := s.usable("close write"); err != nil {
		return err
	}
	if s.handle.Kind != Stream || s.state == stateDead {
		return stateError("close write", s)
	}
	s.shutWrite = true
	if s.state == stateOpen && !s.sending.busy() {
		s.shutdownWrite()
	}
	return nil
}

func (s *Socket) shutdownWrite() {
	if s.writeShut {
		return
	}
	s.writeShut = true
	if err := unix.Shutdown(s.handle.FD, unix.SHUT_WR); err != nil && err != unix.ENOTCONN {
		s.ring.fail(&OpError{Op: "shutdown", Addr: s.remote, Err: err})
	}
}

func closeFD(fd int) error {
	if err := unix.Close(fd); err != nil {
		return &OpError{Op: "close", Err: fmt.Errorf("descriptor %d: %w", fd, err)}
	}
	return nil
}
