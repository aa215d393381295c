package pacetest

import (
	"sort"
	"time"
)

// Notes are what a sender writes down: one that fills a queue of a known length until it is refused, and then polls, again and again.
type Notes struct {
	Stopped time.Duration // for how long it may have had something to send, and did not run
	Times   int           // how often that was

	patience time.Duration
	turns    []turn
}

// turn is one turn of the sender.
type turn struct {
	begin int64
	left  int // the first datagram that waited when the queue was full
}

// NewNotes makes the notes of a sender that must keep r. It computes how long the sender may stay away without losing rate: until the bucket
// is full, of which half is left for what it had before; a turn sends at least 16 datagrams or the burst.
func NewNotes(r Rule) *Notes {
	return &Notes{patience: time.Duration(float64(min(8*r.Size, r.Burst/2)) / float64(r.Rate) * 1e9)}
}

// Turn notes that a turn began at the time begin, and that, when the socket accepted no more, the datagrams before left had been sent of
// those given to it since the first turn.
func (n *Notes) Turn(begin int64, left int) {
	if k := len(n.turns); k > 0 {
		// Two looks at the bucket lie within two turns at most.
		if gap := time.Duration(begin - n.turns[k-1].begin); gap > n.patience/2 {
			n.Stopped += gap + n.patience
			n.Times++
		}
	}
	n.turns = append(n.turns, turn{begin, left})
}

// Since returns a time before which a datagram cannot have been sent: the beginning of the last turn after which it still waited for its time
// or for the link.
func (n *Notes) Since(number int) int64 {
	k := sort.Search(len(n.turns), func(i int) bool { return n.turns[i].left > number })
	return n.turns[max(k-1, 0)].begin
}

// Ran returns the time from the first turn to the last.
func (n *Notes) Ran() time.Duration {
	return time.Duration(n.turns[len(n.turns)-1].begin - n.turns[0].begin)
}

// Disturbed reports whether the machine stopped the sender so long that Rule.Least asks for little.
func (n *Notes) Disturbed() bool { return n.Stopped > n.Ran()/20 }
