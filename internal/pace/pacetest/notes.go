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

// NewNotes makes the notes of a sender that is to keep r. It may stay away for as long as the bucket has room for what it earns: a turn
// lets go at least 16 datagrams, or the burst; half of that is left for what was there before.
func NewNotes(r Rule) *Notes {
	return &Notes{patience: time.Duration(float64(min(8*r.Size, r.Burst/2)) / float64(r.Rate) * 1e9)}
}

// Turn notes that a turn began at the time begin, and that of the datagrams given to the socket since the first turn those before left were
// gone when it took no more.
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

// Since is a time before which the datagram was not let go: the beginning of the last turn at whose end it waited for its time, or waited for
// the link after its time had come in that turn.
func (n *Notes) Since(number int) int64 {
	k := sort.Search(len(n.turns), func(i int) bool { return n.turns[i].left > number })
	return n.turns[max(k-1, 0)].begin
}

// Ran is the time from the first turn to the last.
func (n *Notes) Ran() time.Duration {
	return time.Duration(n.turns[len(n.turns)-1].begin - n.turns[0].begin)
}

// Disturbed reports that the machine stopped the sender for so long that Rule.Least asks for little.
func (n *Notes) Disturbed() bool { return n.Stopped > n.Ran()/20 }
