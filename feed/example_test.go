package feed_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed"
)

// Two lines carry the same messages; line A loses the second packet, line B cuts the messages otherwise.
func Example() {
	channel, err := feed.New[int](feed.Config{Lines: 2, GapTime: 1000})
	if err != nil {
		panic(err)
	}
	const a, b = 0, 1
	for _, s := range []feed.Segment[int]{
		{Line: a, Seq: 1, Count: 2, Payload: []byte("AB"), Arrival: 10},
		{Line: a, Seq: 5, Count: 1, Payload: []byte("E"), Arrival: 20},
		{Line: b, Seq: 1, Count: 3, Payload: []byte("ABC"), Arrival: 25},
		{Line: b, Seq: 4, Count: 2, Payload: []byte("DE"), Arrival: 30},
	} {
		channel.Input(&s)
		for d := (feed.Delivery[int]{}); channel.Next(&d); {
			if d.Count > 0 {
				fmt.Printf("from line %c: %s\n", 'A'+d.Line, d.Payload[d.Skip:d.Skip+d.Count])
			}
		}
		for e := (feed.Event{}); channel.Event(&e); {
			if e.Kind == feed.StateChanged {
				fmt.Printf("%v: %s\n", e.To, e.Cause)
			}
		}
	}
	// Output:
	// from line A: AB
	// SYNC: first packet
	// GAP-WAIT: gap
	// from line B: C
	// from line B: D
	// from line A: E
	// SYNC: filled
}
