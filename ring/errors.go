package ring

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
)

// sentinel is an error of the contract that also answers errors.Is for the errno it stands for.
type sentinel struct {
	text  string
	errno syscall.Errno
	same  error // the standard library's name for it, where it has one
}

func (e *sentinel) Error() string { return e.text }
func (e *sentinel) Is(target error) bool {
	return e.errno != 0 && target == error(e.errno) || e.same != nil && target == e.same
}

// Errors of the contract. Those that stand for an errno answer errors.Is for it as well.
var (
	// ErrWouldBlock: nothing or not all was taken; EventOut follows when the socket has room again.
	ErrWouldBlock error = &sentinel{text: "ring: send queue full: EventOut follows", errno: syscall.EAGAIN}
	// ErrNothing: no packet waits on a socket that delivers by Receive or Read; EventIn follows. It is an ErrWouldBlock for errors.Is.
	ErrNothing error = &sentinel{text: "ring: nothing to receive: EventIn follows", errno: syscall.EAGAIN, same: ErrWouldBlock}
	// ErrClosed: the ring or socket was closed.
	ErrClosed error = &sentinel{text: "ring: closed", errno: syscall.EBADF, same: net.ErrClosed}
	// ErrOwner: the ring belongs to the goroutine that polled it first, and this is another one.
	ErrOwner error = &sentinel{text: "ring: used by a goroutine that is not its owner", errno: syscall.EBUSY}
	// ErrNoSlice: Poll was given no room for completions (VMA: EINVAL).
	ErrNoSlice error = &sentinel{text: "ring: Poll: empty completion slice", errno: syscall.EINVAL}
	// ErrMode: the call belongs to another delivery mode than the socket's.
	ErrMode error = &sentinel{text: "ring: the socket is in another delivery mode", errno: syscall.EINVAL}
	// ErrTruncated: the datagram was longer than the socket's largest datagram; the rest is lost.
	ErrTruncated error = &sentinel{text: "ring: datagram cut: longer than the socket's largest datagram", errno: syscall.EMSGSIZE}
	// ErrDeadline: a read or write deadline passed; the socket lives on.
	ErrDeadline error = &sentinel{text: "ring: deadline exceeded", same: os.ErrDeadlineExceeded}
	// ErrNotSupported: this kind of ring cannot do it; the error that wraps it says why.
	ErrNotSupported error = &sentinel{text: "ring: not supported", errno: syscall.EOPNOTSUPP}
	// ErrState: the call does not fit the socket's state (listening, connected …); the error that wraps it says which.
	ErrState error = &sentinel{text: "ring: wrong socket state", errno: syscall.EINVAL}
)

// errStampUnknown: a transmit stamp came that cannot be told whose it is.
var errStampUnknown error = &sentinel{text: "ring: a transmit stamp of a datagram that is not known any more"}

// OpError reports what was being done, to what, and why it failed; it unwraps to the errno or contract error.
type OpError struct {
	Op   string         // "bind", "send" …
	Addr netip.AddrPort // zero when no address was involved
	Err  error
}

// Error is the failure in a sentence.
func (e *OpError) Error() string {
	if e.Addr.IsValid() {
		return "ring: " + e.Op + " " + e.Addr.String() + ": " + e.Err.Error()
	}
	return "ring: " + e.Op + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }

// FeatureError is a missing kernel feature: what needed it, and the kernel that has it.
type FeatureError struct {
	Feature string // "io_uring multishot receive"
	Since   string // "Linux 6.0"; empty when the version is not the reason
	Code    string // stable reason code
	Err     error  // what the kernel said
}

// Error is the failure in a sentence.
func (e *FeatureError) Error() string {
	s := e.Feature
	if e.Since != "" {
		s += " (since " + e.Since + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives what the kernel said.
func (e *FeatureError) Unwrap() error { return e.Err }

// Is makes every missing feature an ErrNotSupported.
func (e *FeatureError) Is(target error) bool { return target == ErrNotSupported }

// Reason is the error as a reason for a path not taken.
func (e *FeatureError) Reason() Reason { return Reason{Code: e.Code, Text: e.Error()} }

// CallbackPanic is a panic of a receive callback: its socket was reset, and Poll returns this error, after the completions of the Poll it
// happened in. Or of a listener's AcceptTo: the connection it was asked about was reset.
type CallbackPanic struct {
	Socket int // ID of the socket, or of the listener
	Value  any // what was given to panic
	Stack  []byte
}

// Error is the failure in a sentence.
func (e *CallbackPanic) Error() string {
	return fmt.Sprintf("ring: the callback of socket %d panicked: %v\n%s", e.Socket, e.Value, e.Stack)
}

// eventOfError maps the errno that ended a socket to the event bits of the contract (VMA's table, which netstat users know):
// a reset, a refused connection and a time-out look different, and Err always says which it was.
func eventOfError(e syscall.Errno, connecting bool) Event {
	switch {
	case e == syscall.ETIMEDOUT:
		return eventTimeout
	case connecting:
		return eventRefused
	case e == syscall.ECONNRESET:
		return eventReset
	}
	return eventRefused
}

// normalise makes ECONNRESET of EPIPE, with which the kernel reports a reset that arrived in CLOSE_WAIT (net/ipv4/tcp_input.c, tcp_reset).
func normalise(e syscall.Errno) syscall.Errno {
	if e == syscall.EPIPE {
		return syscall.ECONNRESET
	}
	return e
}

// badArgument is the error of a call op whose argument has a value that is not possible.
func badArgument(op, name string, value any) error {
	return &OpError{Op: op, Err: fmt.Errorf("%s %v: %w", name, value, syscall.EINVAL)}
}

// stateError is the error of a call op that the socket's kind or state does not allow.
func stateError(op string, s *Socket) error {
	return &OpError{Op: op, Err: fmt.Errorf("%s socket %d is %s: %w", s.kindName(), s.ID(), s.state, ErrState)}
}

// asErrno is the errno that an error wraps, EIO if it wraps none.
func asErrno(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}

func itoa(n int) string { return strconv.Itoa(n) }

// fail keeps an error that no call can return: the next Poll without completions does.
func (r *Ring) fail(err error) { r.failures = append(r.failures, err) }

// kindName is the socket's kind in words, for errors.
func (s *Socket) kindName() string { return kindOf(s.handle.Kind, s.Unix()) }

// kindOf is the kind in words; local is for unix-domain sockets.
func kindOf(k SocketKind, local bool) string {
	switch {
	case local && k == KindListener:
		return "unix listener"
	case local:
		return "unix"
	}
	return k.String()
}
