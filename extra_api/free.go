package extraapi

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// FreeError is the error of FreePackets and FreeCompletions for a packet that could not be freed. It unwraps to Err.
type FreeError struct {
	Call  string // "FreePackets" or "FreeCompletions"
	Index int    // of the packet in the slice
	Err   error  // buffers.ErrOtherPool (another poller's), ErrStale (freed, lent or sent before) or ErrNone (the zero Packet)
}

// Error is the failure in a sentence.
func (e *FreeError) Error() string {
	return fmt.Sprintf("extraapi: %s: packet %d: %v", e.Call, e.Index, e.Err)
}

// Unwrap returns Err.
func (e *FreeError) Unwrap() error { return e.Err }

// FreePackets releases packets of any socket of the poller that s belongs to, whether a callback held them, RecvFromZeroCopy returned them or
// Poll delivered them, and returns how many it released. All packets are checked first: if one is another poller's, was freed before or is
// the zero Packet, none is released and the error is a *FreeError. A packet that is in the slice more often than it has references is
// released as often as it has references, and is a *FreeError too; all others are released. s may be closed.
//
// Owner only: another goroutine gets ErrOwner, and releases packets that were lent to it by Lent.Release. (VMA: free_packets, which stops at the
// first bad packet, and socketxtreme_free_vma_packets.)
func FreePackets(s *xtreme.Socket, p ...buffers.Packet) (freed int, err error) {
	pool, err := poolOf("FreePackets", s)
	if err != nil {
		return 0, err
	}
	for i := range p {
		if err := pool.Check(p[i]); err != nil {
			return 0, &FreeError{"FreePackets", i, err}
		}
	}
	for i := range p {
		if e := p[i].Release(); e != nil {
			if err == nil {
				err = &FreeError{"FreePackets", i, e}
			}
			continue
		}
		freed++
	}
	return freed, err
}

// FreeCompletions is FreePackets for the packets of completions that RecvFromZeroCopy or Poll returned. Completions without a packet are passed
// over. The packets in c are set to zero, so that a second call frees nothing twice.
func FreeCompletions(s *xtreme.Socket, c []xtreme.Completion) (freed int, err error) {
	pool, err := poolOf("FreeCompletions", s)
	if err != nil {
		return 0, err
	}
	for i := range c {
		if p := c[i].Packet; !p.IsZero() {
			if err := pool.Check(p); err != nil {
				return 0, &FreeError{"FreeCompletions", i, err}
			}
		}
	}
	for i := range c {
		switch e := c[i].Packet.Release(); {
		case e == nil:
			freed++
		case !errors.Is(e, buffers.ErrNone) && err == nil:
			err = &FreeError{"FreeCompletions", i, e}
		}
		c[i].Packet = buffers.Packet{}
	}
	return freed, err
}

// poolOf returns the pool to which the packets of a socket belong; also after the socket, or its ring, was closed. call is for errors.
func poolOf(call string, s *xtreme.Socket) (*buffers.Pool, error) {
	if s == nil {
		return nil, noSocket(call)
	}
	r := s.Ring()
	if r == nil {
		return nil, fmt.Errorf("extraapi: %s: socket %d has no ring, and so no packets: %w", call, s.ID(), ring.ErrState)
	}
	if err := r.Check(); err != nil && !errors.Is(err, ring.ErrClosed) {
		return nil, fmt.Errorf("extraapi: %s: %w", call, err)
	}
	return r.Pool(), nil
}
