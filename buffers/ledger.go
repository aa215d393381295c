package buffers

import "fmt"

// Ledger says where every buffer is. Each is in exactly one place, so the sum of the places is always Total.
type Ledger struct {
	Free         int // on a free list
	Filling      int // with a driver, to be filled
	Received     int // filled, waiting inside a ring
	Held         int // with the application, packets and retained buffers
	Lent         int // with other goroutines, or released by them and not yet reclaimed
	Transmitting int // being sent
	// Unacknowledged are not referred to by a link and not yet confirmed by the peer.
	Unacknowledged int
	Completing     int // sent, completion not yet delivered
	Total          int // all buffers of the pool
}

// Ledger counts the buffers by state, in time proportional to their number: nothing is counted on the packet path.
func (p *Pool) Ledger() Ledger {
	var n [numStates]int
	for i := range p.meta {
		n[p.meta[i].state]++
	}
	return p.ledgerOf(&n)
}

// SampleLedger is Ledger for any goroutine, while the owner goes on: each buffer is counted once, in a state that it had while the count ran, so
// that the sum is Total. The owner pays with cache lines that it finds shared: 32 bytes for each buffer. For statistics, which count once a
// second.
//
// The race detector is kept from it, because it reads what the owner writes without synchronisation. A state is one byte, which is read whole.
//
//go:norace
func (p *Pool) SampleLedger() Ledger {
	var n [numStates]int
	for i := range p.meta {
		n[p.meta[i].state]++
	}
	return p.ledgerOf(&n)
}

// ledgerOf is the ledger of a pool with so many buffers in each state.
func (p *Pool) ledgerOf(n *[numStates]int) Ledger {
	return Ledger{
		Free: n[stateFree], Filling: n[stateFilling], Received: n[stateReceived],
		Held: n[stateHeld] + n[stateRetained], Lent: n[stateLent],
		Transmitting: n[stateTransmitting], Unacknowledged: n[stateUnacknowledged], Completing: n[stateCompleting], Total: len(p.meta),
	}
}

// Sum is the number of buffers accounted for; it equals Total.
func (l Ledger) Sum() int {
	return l.Free + l.Filling + l.Received + l.Held + l.Lent + l.Transmitting + l.Unacknowledged + l.Completing
}

// String is the value in words.
func (l Ledger) String() string {
	return fmt.Sprintf("free %d, filling %d, received %d, held %d, lent %d, transmitting %d, unacknowledged %d, completing %d, total %d",
		l.Free, l.Filling, l.Received, l.Held, l.Lent, l.Transmitting, l.Unacknowledged, l.Completing, l.Total)
}
