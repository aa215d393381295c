package extraapi

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// FreeError reports which of the packets given to FreePackets or FreeCompletions could not be freed. It unwraps to buffers.ErrOtherPool (another
// poller's), ErrStale (freed, lent or sent before) or ErrNone (the zero Packet).
type FreeError struct {
	Call  string // FreePackets or FreeCompletions
	Index int    // in the slice
	Err   error
}

// Error is the failure in a sentence.
func (e *FreeError) Error() string {
	return fmt.Sprintf("extraapi: %s: packet %d: %v", e.Call, e.Index, e.Err)
}

// Unwrap gives the cause.
func (e *FreeError) Unwrap() error { return e.Err }

// FreePackets releases packets that a callback held, RecvFromZeroCopy took or Poll delivered, of any socket of s's owner, and returns how
// many. They are looked at first: with one that is foreign, freed or zero among them none is freed, and a *FreeError says which. A
// packet that is in the slice more often than it has references is freed once, and is a *FreeError as well; all others are freed. s may be
// closed by then. Owner only: another goroutine gets ErrOwner; it has a Lent packet to release. (VMA: free_packets, which stops in the
// middle, and socketxtreme_free_vma_packets.)
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

// FreeCompletions is FreePackets for what RecvFromZeroCopy or Poll filled; completions without a packet are passed over. The packets
// in c are zero afterwards, so that nothing is freed twice.
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
