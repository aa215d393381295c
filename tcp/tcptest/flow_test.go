package tcptest

import (
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// flow is one connection of a scenario: two sides that write and read streams of known content, and an order in which they end.
type flow struct {
	number int
	plan   flowPlan
	sides  [2]*side // the client's and the server's
	local  tcp.Endpoint
	remote tcp.Endpoint

	disturbed bool // by a crash or a flood: it may fail
}

// flowPlan is what a flow does.
type flowPlan struct {
	client, server int  // nodes
	port           int  // of the server's listeners
	from           int  // the client's port; 0: any
	both           bool // simultaneous open
	sides          [2]sidePlan
	first          int // which side closes first: 0, 1, 2 both
	settings       int
	haste          haste     // what the client does before it is connected
	hasteIn        tcp.State // when it gets there
}

// haste is what an application does while its connection is being opened.
type haste uint8

const (
	noHaste haste = iota
	hasteCloses
	hasteAborts
	hasteCloseWrites
)

var hasteNames = [...]string{"", "closes", "aborts", "half closes"}

// sidePlan is what a side does.
type sidePlan struct {
	bytes  int           // to write
	chunk  int           // at once
	pause  time.Duration // between two writes
	more   bool          // says that more follows
	pace   int           // bytes that are read at once; 0: all
	rest   time.Duration // between two reads
	late   time.Duration // before the first read
	rude   bool          // closes when all is written, whatever the peer does
	aborts int           // after so many bytes were read or written; 0: never
	stays  time.Duration // keeps the connection so long behind its end
}

func (p sidePlan) String() string {
	s := fmt.Sprintf("%d bytes by %d", p.bytes, p.chunk)
	add := func(on bool, format string, args ...any) {
		if on {
			s += fmt.Sprintf(", "+format, args...)
		}
	}
	add(p.pause > 0, "pause %v", p.pause)
	add(p.more, "more")
	add(p.pace > 0, "reads %d each %v", p.pace, p.rest)
	add(p.late > 0, "reads after %v", p.late)
	add(p.stays > 0, "stays for %v", p.stays)
	add(p.rude, "rude")
	add(p.aborts > 0, "aborts after %d", p.aborts)
	return s
}

func (p flowPlan) String() string {
	kind := "connects"
	if p.both {
		kind = "meets"
	}
	s := fmt.Sprintf("node %d %s node %d:%d from %d, settings %d, first %d, (%v), (%v)", p.client, kind, p.server, p.port, p.from, p.settings, p.first,
		p.sides[0], p.sides[1])
	if p.haste != noHaste {
		s += fmt.Sprintf(", %s in %v", hasteNames[p.haste], p.hasteIn)
	}
	return s
}

// polite: neither side ends before the other's data has come.
func (f *flow) polite() bool {
	return !f.disturbed && f.plan.haste == noHaste && f.plan.port != closedPort && !f.plan.sides[0].rude && !f.plan.sides[1].rude && f.plan.sides[0].aborts == 0 && f.plan.sides[1].aborts == 0
}

// side is one end of a flow.
type side struct {
	scenario *scenario
	flow     *flow
	index    int
	plan     sidePlan
	node     *Node
	conn     *Conn
	sent     int
	got      int
	writing  bool // a timer for the next write runs
	reading  bool
	staying  bool
	awake    bool // may read
	dead     bool // its node has crashed
}

// content is byte i of the stream that a side of a flow sends.
func content(flow, side, i int) byte {
	x := uint32(i)*0x9e3779b1 ^ uint32(flow*2+side)*0x85ebca6b
	return byte(x>>24 ^ x>>9)
}

// step does what the side can do now.
func (s *side) step(now clock.Time) {
	c := s.conn
	if c == nil || s.dead || c.Gone || c.Closed {
		return
	}
	if c.Reason != 0 {
		s.scenario.reasons[c.Reason]++
		if s.flow.polite() {
			s.scenario.fail("flow %d: side %d has failed: %v", s.flow.number, s.index, c.Reason)
		}
		c.Close(now)
		s.wake()
		return
	}
	if !c.Connected {
		return
	}
	if s.plan.aborts > 0 && s.sent+s.got >= s.plan.aborts {
		s.scenario.aborted++
		c.Abort(now)
		s.wake()
		return
	}
	s.write(now)
	s.read(now)
	s.end(now)
	s.wake()
}

// hurry does what the plan has for a connection that is not established, when it is in the state.
func (s *side) hurry(in tcp.State) {
	if p := s.flow.plan; p.haste == noHaste || s.index != 0 || p.hasteIn != in {
		return
	}
	s.after(0, func() {
		c, now := s.conn, s.scenario.network.Now()
		switch {
		case s.dead || c.Gone || c.State() != in:
		case s.flow.plan.haste == hasteCloses:
			c.Close(now)
		case s.flow.plan.haste == hasteAborts:
			c.Abort(now)
		case in != tcp.SynSent: // nothing was agreed on there
			c.CloseWrite(now)
		}
	})
}

func (s *side) wake() { s.node.Wake(s.scenario.network.Now()) }

func (s *side) write(now clock.Time) {
	for s.sent < s.plan.bytes && !s.writing {
		n := min(s.plan.chunk, s.plan.bytes-s.sent)
		more := s.plan.more && s.sent+n < s.plan.bytes
		if n = min(n, s.conn.Room()); n <= 0 {
			return
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = content(s.flow.number, s.index, s.sent+i)
		}
		k := s.conn.Write(now, b, more)
		s.sent += k
		if k == 0 {
			return
		}
		if s.plan.pause > 0 && s.sent < s.plan.bytes {
			s.writing = true
			s.after(s.plan.pause, func() { s.writing = false })
		}
	}
}

func (s *side) after(d time.Duration, f func()) {
	s.scenario.network.World.After(d, func() {
		f()
		s.step(s.scenario.network.Now())
	})
}

func (s *side) read(now clock.Time) {
	if !s.awake {
		if !s.reading {
			s.reading = true
			s.after(s.plan.late, func() { s.awake, s.reading = true, false })
		}
		return
	}
	for s.conn.Unread() > 0 && !s.reading {
		n := s.conn.Unread()
		if s.plan.pace > 0 {
			n = min(n, s.plan.pace)
		}
		for i, b := range s.conn.Read(now, n) {
			if want := content(s.flow.number, 1-s.index, s.got+i); b != want {
				s.scenario.fail("flow %d: content: byte %d at side %d is %#x, expected %#x", s.flow.number, s.got+i, s.index, b, want)
				return
			}
		}
		s.got += n
		s.scenario.bytes += n
		if peer := s.flow.plan.sides[1-s.index]; s.got > peer.bytes {
			s.scenario.fail("flow %d: content: side %d has read %d bytes of %d", s.flow.number, s.index, s.got, peer.bytes)
			return
		}
		if s.plan.pace > 0 && s.plan.rest > 0 {
			s.reading = true
			s.after(s.plan.rest, func() { s.reading = false })
		}
	}
}

// end closes when it is the side's turn.
func (s *side) end(now clock.Time) {
	c := s.conn
	if s.sent == s.plan.bytes && !c.WriteClosed {
		switch {
		case s.plan.rude:
			c.Close(now)
			return
		case s.flow.plan.first == s.index || s.flow.plan.first == 2 || c.Ended:
			c.CloseWrite(now)
		}
	}
	if c.Ended && c.Unread() == 0 {
		if peer := s.flow.sides[1-s.index]; peer != nil && s.got != peer.plan.bytes && s.flow.polite() {
			s.scenario.fail("flow %d: content: side %d has got %d bytes before the end, of %d", s.flow.number, s.index, s.got, peer.plan.bytes)
			return
		}
		switch {
		case !c.WriteClosed || s.staying:
		case s.plan.stays > 0:
			s.staying = true
			s.after(s.plan.stays, func() {
				c.Close(s.scenario.network.Now())
				s.wake()
			})
		default:
			c.Close(now)
		}
	}
}

// finished checks a side when the world is over.
func (s *side) finished() error {
	if s == nil || s.dead {
		return nil
	}
	switch {
	case s.conn == nil:
		return nil
	case !s.conn.Gone && s.conn.Closed:
		return fmt.Errorf("liveness: flow %d: side %d was closed and its record is there, %v, read %d, written %d of %d", s.flow.number, s.index,
			s.conn.State(), s.got, s.sent, s.plan.bytes)
	case !s.conn.Gone:
		return fmt.Errorf("liveness: flow %d: side %d is %v, read %d, written %d of %d, %+v", s.flow.number, s.index, s.conn.State(), s.got, s.sent, s.plan.bytes,
			s.conn.Info())
	case s.flow.polite() && s.sent != s.plan.bytes:
		return fmt.Errorf("liveness: flow %d: side %d has written %d of %d", s.flow.number, s.index, s.sent, s.plan.bytes)
	}
	return nil
}
