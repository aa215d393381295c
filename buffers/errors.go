package buffers

import (
	"errors"
	"fmt"
	"net"
)

// The errors of this package. Those of the packet path are returned as they are, so that reporting misuse costs no
// allocation; errors about an argument wrap one of these and name the argument and its value.
var (
	// ErrStale: the handle was used up (released, lent, sent, appended) before this call.
	ErrStale = errors.New("buffers: stale handle: already released, lent, sent or appended")
	// ErrNone: the zero Packet, Buffer or Lent was used. It is an ErrStale for errors.Is, but is not counted as one.
	ErrNone = fmt.Errorf("buffers: zero handle: %w", ErrStale)
	// ErrClosed: the pool was closed, and its memory may be gone.
	ErrClosed = fmt.Errorf("buffers: pool closed: %w", net.ErrClosed)
	// ErrExhausted: no free buffer of a fitting class.
	ErrExhausted = errors.New("buffers: pool exhausted")
	// ErrSize: a length is negative or larger than the place it must fit in.
	ErrSize = errors.New("buffers: size out of range")
	// ErrOtherPool: the handle belongs to another pool.
	ErrOtherPool = errors.New("buffers: handle of another pool")
	// ErrShared: the operation changes the packet, and somebody else holds a reference to it.
	ErrShared = errors.New("buffers: packet is shared")
	// ErrState: the packet is not in a state that allows the operation.
	ErrState = errors.New("buffers: wrong state")
	// ErrOverflow: more references to one packet or buffer than can be counted.
	ErrOverflow = errors.New("buffers: too many references")
	// ErrAccount: the account was never opened, or was closed and has no buffers.
	ErrAccount = errors.New("buffers: no such account")
)
