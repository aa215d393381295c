package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp/congestion"
)

// sender is the side record of a connection that has something queued or in flight. It is used again by another connection later.
//
//	flight   what was sent and not acknowledged: the retransmission queue, in order of sequence numbers
//	unsent   pieces that Send was given; the first may have been sent in part
type sender struct {
	flight queue[sent]
	unsent queue[piece]

	// The scoreboard (RFC 6675): sequence numbers in flight by what is known of them. An element of flight has one of these marks at most.
	sacked, lost int
	left         int // without SACK: what duplicate acknowledgements stand for
	again        int // those that were retransmitted and neither acknowledged nor declared lost since
	sackedCount  int // elements

	partEnd  Seq // behind the last segment that was not full while more waited
	lostFrom Seq // no element before it is declared lost
	recover  Seq // where the episode of recovery ends: nxt at its beginning

	// Proportional rate reduction (RFC 9937).
	delivered, out, flightAtLoss int

	// RACK (RFC 8985 section 6.1): the segment sent last of those that arrived.
	rackAt    clock.Time
	rackEnd   Seq
	rackRTT   clock.Duration
	rackMult  uint8 // reordering window in quarters of the least round trip
	rackKeep  uint8 // recoveries until it is one again
	rackRound Seq   // it grows once in a round trip
	highest   Seq   // the highest sequence number that arrived, for finding reordering

	// Tail loss probe (section 7).
	probeEnd   Seq
	probing    bool // a probe is out
	probeAgain bool // and it carried what was sent before

	// Undo (RFC 3522, RFC 3708, RFC 5682): what shows that an episode was spurious.
	undo        bool
	undoLeft    int    // retransmissions of the episode that no D-SACK has reported
	undoFrom    Seq    // una at the beginning
	undoTS      uint32 // timestamp of its first retransmission
	undoTSKnown bool
	frto        frto
	frtoLeft    int // segments of new data that may be sent

	slow congestion.HyStart

	ecnEnd Seq // the window that was reduced for ECE already
	ecnSet bool
}

// sent is an element of the retransmission queue.
type sent struct {
	payload Payload
	at      clock.Time // it left last
	seq     Seq
	span    uint32 // sequence numbers: payload, and FIN
	flags   sentFlags
}

// frto is which acknowledgement after a time-out is awaited: RFC 5682 section 2.1.
type frto uint8

const (
	frtoNone    frto = iota
	frtoFirst        // the first one, step 2
	frtoNewData      // none yet: up to two segments of new data go first
	frtoSecond       // the second one, step 3
)

type sentFlags uint8

const (
	sentSACKed sentFlags = 1 << iota
	sentLost             // declared lost, and not sent again yet
	sentAgain            // a retransmission is in flight
	sentTwice            // was retransmitted ever
	sentFin
	sentPush
	sentProbe // larger than the path is known to carry
	sentEnd   // the end of a piece: EventSent when it is acknowledged
)

func (r *sent) end() Seq { return r.seq + Seq(r.span) }

// piece is what of a piece that Send was given was not sent.
type piece struct {
	Payload
	begun bool // a part of it was sent: the buffer may lie in a link
}

// senderOf returns the connection's side record for sending. A connection without one gets a free or new one.
func (t *Table) senderOf(c *conn) *sender {
	if c.sender != 0 {
		return t.senders[c.sender-1]
	}
	var at uint32
	if n := len(t.freeSenders); n > 0 {
		at, t.freeSenders = t.freeSenders[n-1], t.freeSenders[:n-1]
	} else {
		at = uint32(len(t.senders))
		t.senders = append(t.senders, new(sender))
	}
	s := t.senders[at]
	flight, unsent := s.flight, s.unsent
	flight.clear()
	unsent.clear()
	*s = sender{flight: flight, unsent: unsent, rackMult: 1, highest: c.una, recover: c.una, partEnd: c.una}
	c.sender = at + 1
	return s
}

// idleSender returns the side record when nothing is queued and nothing in flight.
func (t *Table) idleSender(c *conn) {
	if c.sender == 0 {
		return
	}
	// It also stays until the window is acknowledged that was reduced for ECE: a second ECE for it is not to reduce it again.
	if s := t.senders[c.sender-1]; s.flight.len() > 0 || s.unsent.len() > 0 || s.ecnSet && c.una.Before(s.ecnEnd) {
		return
	}
	t.freeSender(c)
}

// maxKeptRing is how long a ring may be in a side record that waits for another connection.
const maxKeptRing = 4096

// freeSender makes the side record free for another connection. Its queues keep their memory up to maxKeptRing.
func (t *Table) freeSender(c *conn) {
	s := t.senders[c.sender-1]
	if len(s.flight.ring) > maxKeptRing {
		s.flight = queue[sent]{}
	}
	if len(s.unsent.ring) > maxKeptRing {
		s.unsent = queue[piece]{}
	}
	t.freeSenders = append(t.freeSenders, c.sender-1)
	c.sender = 0
}

// dropSender ends the side record of a connection that is over: each buffer that was queued or in flight returns by EventSent.
func (t *Table) dropSender(id ID, c *conn) {
	if c.sender == 0 {
		return
	}
	s := t.senders[c.sender-1]
	for s.flight.len() > 0 {
		if r := s.flight.pop(); r.flags&sentEnd != 0 {
			t.emit(id, c, Event{Kind: EventSent, Payload: r.payload})
		}
	}
	for s.unsent.len() > 0 {
		t.emit(id, c, Event{Kind: EventSent, Payload: s.unsent.pop().Payload})
	}
	t.freeSender(c)
}

// Send queues a piece of a buffer behind what was queued before. Before the connection is established it waits. The piece may be longer than a
// segment, or than Room: Room is what the caller is to keep to. more says that more follows soon: a segment that is not full then waits, as
// with Settings.Cork, until the next Send without it or Push.
func (t *Table) Send(now clock.Time, id ID, p Payload, more bool) error {
	t.now = now
	c := t.get(id)
	switch {
	case c == nil:
		return ErrNoConn
	case c.has(flagFailed) || c.state == Closed:
		return ErrNotOpen
	case c.has(flagMoving):
		return ErrMoving
	case c.has(flagFin) || c.has(flagAppClosed):
		return ErrClosed
	case p.Length == 0:
		return ErrSettings
	case int64(c.end.Minus(c.una))+int64(p.Length) > maxWindow:
		return ErrFull
	}
	t.senderOf(c).unsent.push(piece{Payload: p})
	t.queued(id, c, int(p.Length), more)
	return nil
}

// queued is the common end of Send and Extend: n bytes were queued, and more says whether the caller will queue more soon. Before the handshake
// is complete nothing is sent.
func (t *Table) queued(id ID, c *conn, n int, more bool) {
	c.end += Seq(n)
	if more {
		c.flags |= flagMore
	} else {
		c.flags &^= flagMore
	}
	if c.state != SynSent && c.state != SynReceived {
		t.wake(id, c)
	}
}

// Room is how many bytes may be queued until Settings.SendBuffer is reached.
func (t *Table) Room(id ID) int {
	c := t.get(id)
	if c == nil || c.has(flagFailed|flagFin|flagAppClosed|flagMoving) || c.state == Closed {
		return 0
	}
	una := c.una
	if c.state == SynSent || c.state == SynReceived {
		una = c.nxt // our SYN has a number, and is no byte of the queue
	}
	return max(t.settingsOf(c).SendBuffer-c.end.Minus(una), 0)
}

// Tail is the last piece that was queued, if no byte of it was sent yet: the transport may write more behind it and then call Extend.
func (t *Table) Tail(id ID) (p Payload, ok bool) {
	c := t.get(id)
	if c == nil || c.sender == 0 || c.has(flagFin|flagAppClosed|flagMoving) {
		return Payload{}, false
	}
	s := t.senders[c.sender-1]
	if n := s.unsent.len(); n > 0 {
		last := s.unsent.at(n - 1)
		return last.Payload, !last.begun
	}
	return Payload{}, false
}

// Extend makes the piece that Tail returned n bytes longer.
func (t *Table) Extend(now clock.Time, id ID, n int, more bool) error {
	if _, ok := t.Tail(id); !ok {
		return ErrNoConn
	}
	t.now = now
	c := t.conn(id)
	if n <= 0 || c.end.Minus(c.una)+n > maxWindow {
		return ErrFull
	}
	s := t.senders[c.sender-1]
	s.unsent.at(s.unsent.len() - 1).Length += uint32(n)
	t.queued(id, c, n, more)
	return nil
}

// Push lets a segment go that is not full and waits for more.
func (t *Table) Push(now clock.Time, id ID) {
	t.now = now
	if c := t.get(id); c != nil && c.unsent() > 0 {
		c.flags |= flagPush
		c.flags &^= flagMore
		t.wake(id, c)
	}
}

// find is the place of the element that has the sequence number, or of the first behind it.
func (snd *sender) find(seq Seq) int {
	low, high := 0, snd.flight.len()
	for low < high {
		mid := (low + high) / 2
		if seq.Before(snd.flight.at(mid).end()) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
