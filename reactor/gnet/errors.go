package gnet

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Reasons that OnClose gives and gnet does not know.
var (
	// ErrOutboundLimit: the peer took its data too slowly, and what waited for it exceeded the hard limit of
	// WithOutboundLimits. The error that wraps it is an *OutboundLimitError.
	ErrOutboundLimit = errors.New("gnet: outbound limit exceeded")
	// ErrHandlerPanic: the handler panicked in an event of this connection, which was therefore reset; with
	// WithPanicPolicy(reactor.StopLoop), of any connection of its loop.
	ErrHandlerPanic = errors.New("gnet: the handler panicked")
)

// OutboundLimitError reports how much waited to be sent when a connection was given up.
type OutboundLimitError struct{ Buffered, Limit int }

// Error is the failure in a sentence.
func (e *OutboundLimitError) Error() string {
	return fmt.Sprintf("gnet: %d bytes wait to be sent, more than the limit of %d", e.Buffered, e.Limit)
}

// Is makes it an ErrOutboundLimit.
func (e *OutboundLimitError) Is(target error) bool { return target == ErrOutboundLimit }

// callError wraps the error of a system call as gnet does: an *os.SyscallError with the bare errno, for programs that compare its text or
// unwrap it once.
func callError(call string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return os.NewSyscallError(call, errno)
	}
	return os.NewSyscallError(call, err)
}
