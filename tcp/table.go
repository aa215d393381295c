package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// ID is a connection's place in its Table. It is good until EventGone.
type ID uint32

// NoID stands for no connection.
const NoID = ^ID(0)

// ListenerID is a listener's place in its Table, from 1 on. It is good until CloseListener.
type ListenerID uint32

// maxRefs is how many records of a kind the flow table can name.
const maxRefs = 1<<30 - 2

// Table is the connections of one host that one ring serves. It belongs to one goroutine. A call with an ID that is not good returns
// ErrNoConn, or does nothing.
type Table struct {
	config Config
	key    key
	now    clock.Time // of the call being made

	conns        []*[connChunk]conn
	free         []ID
	count        int
	appClosed    int // records whose application is gone
	flows        flows
	settings     []interned
	settingsAt   map[Settings]uint32
	freeSettings []uint32
	nextPort     uint32

	listeners     []listener // by ListenerID - 1
	freeListeners []ListenerID
	listenersAt   map[Endpoint]ListenerID
	halfOpen      halfOpens
	cookieEpoch   uint32 // the last one in which a cookie was sent
	timeWaits     timeWaits

	senders      []*sender // by conn.sender - 1
	freeSenders  []uint32
	reassemblies []*reassembly // by conn.reassembly - 1
	freeReasm    []uint32
	outOfOrder   int // bytes beyond gaps, of all connections
	reneged      int // place in reassemblies where Renege goes on

	wheel   *wheel.Wheel
	onTimer func(uint64)

	ready   queue[ID]      // connections that Output looks at
	burst   int            // segments that the first of them has sent in its turn
	answers queue[Segment] // segments of no connection that are to be sent
	events  [2][]Event     // filled, and what Events returned last
	gone    [2][]ID        // of these, the IDs that are given out again when the caller has seen EventGone: at the call of Events after it

	resetsIn       int64 // the second that resetsLeft is for
	resetsLeft     int
	answersDropped uint64

	fetched uint32 // of no meaning: without a use the reads of FetchFlow and FetchConn would be left out

	stats Stats
}

// Stats are totals.
type Stats struct {
	In, Out        uint64 // segments
	Retransmitted  uint64 // segments that carried what was sent before
	TimeOuts       uint64 // of retransmission
	FastRecovery   uint64 // loss episodes that began without a time-out
	LossProbes     uint64 // RFC 8985 section 7
	Undone         uint64 // loss episodes that were none
	WindowProbes   uint64
	KeepAlives     uint64
	Resets         uint64 // resets that were sent to segments of no connection
	ResetsLimited  uint64 // and those that were not, because of Config.ResetsPerSecond
	ResetsTaken    uint64 // connections that the peer reset
	Challenges     uint64 // challenge ACKs (RFC 5961)
	OutOfOrder     uint64 // segments that came beyond a gap
	Reneged        uint64 // of these, pieces that Renege discarded
	Duplicate      uint64 // segments that came again
	Old            uint64 // segments that PAWS refused
	Unacceptable   uint64 // segments outside the window
	Overflows      uint64 // handshakes that a full backlog stopped
	Cookies        uint64 // SYNs that were answered with a cookie
	CookiesBad     uint64 // acknowledgements that were no cookie, while cookies were out
	BlackHoles     uint64 // paths that seem to lose large packets without a word
	SizeProbes     uint64 // segments larger than the path is known to carry (RFC 8899)
	AppClosedReset uint64 // connections that were reset because of Config.MaxAppClosed
}

// New makes an empty table.
func New(c Config, now clock.Time) (*Table, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	t := &Table{config: c, resetsIn: -1, key: key{c.Random(), c.Random()}, now: now, flows: newFlows([2]uint64{c.Random(), c.Random()}),
		settingsAt: map[Settings]uint32{}, listenersAt: map[Endpoint]ListenerID{}, nextPort: uint32(c.Random()),
		wheel: wheel.New(now, clock.Millisecond)}
	t.onTimer = t.expired
	return t, nil
}

// Len is how many connections have a record, half-open ones and those in TIME-WAIT not counted.
func (t *Table) Len() int { return t.count }

// HalfOpen is how many SYNs were answered whose handshake is not complete. TimeWaits is how many connections are in TIME-WAIT.
func (t *Table) HalfOpen() int  { return t.halfOpen.count }
func (t *Table) TimeWaits() int { return t.timeWaits.count }

// Output writes the next segment to be sent to s. It returns false when nothing is to be sent now.
func (t *Table) Output(now clock.Time, s *Segment) bool {
	t.now = now
	if t.answers.len() > 0 {
		*s = t.answers.pop()
		t.stats.Out++
		return true
	}
	if t.halfOpen.next(t, s) {
		t.stats.Out++
		return true
	}
	for t.ready.len() > 0 {
		id := *t.ready.at(0)
		c := t.conn(id)
		if c.has(flagLive) && c.state != Closed && t.transmit(id, c, s) {
			t.stats.Out++
			if t.burst++; t.burst >= t.config.Burst && t.ready.len() > 1 {
				t.ready.push(t.ready.pop())
				t.burst = 0
			}
			return true
		}
		t.ready.pop()
		t.burst = 0
		c.flags &^= flagReady
		if !c.has(flagLive) {
			t.gone[0] = append(t.gone[0], id)
			continue
		}
		t.schedule(id, c)
	}
	return false
}

// HasOutput reports whether Output has something to look at. HasEvents reports whether Events has something.
func (t *Table) HasOutput() bool {
	return t.ready.len() > 0 || t.answers.len() > 0 || t.halfOpen.send.len() > 0
}
func (t *Table) HasEvents() bool { return len(t.events[0]) > 0 }

// Events are what happened since the last call, in order. The slice is good until the next call of Events.
func (t *Table) Events() []Event {
	if len(t.gone[0])+len(t.gone[1]) > 0 {
		t.free = append(t.free, t.gone[1]...)
		t.gone[0], t.gone[1] = t.gone[1][:0], t.gone[0]
	}
	done := t.events[0]
	t.events[0], t.events[1] = t.events[1][:0], done
	return done
}

// Stats are the totals so far.
func (t *Table) Stats() Stats { return t.stats }

// unknown is a segment of no connection and no listener: RFC 9293 section 3.10.7.1.
func (t *Table) unknown(s *Segment) wire.Drop {
	if s.Flags&wire.TCPRst == 0 {
		t.reset(s)
	}
	return wire.TCPNoConnection
}

// reset answers a segment so that its sender accepts the reset (RFC 9293 section 3.5.2), within Config.ResetsPerSecond.
func (t *Table) reset(s *Segment) {
	if second := int64(t.now) / int64(clock.Second); second != t.resetsIn {
		t.resetsIn, t.resetsLeft = second, t.config.ResetsPerSecond
	}
	if t.resetsLeft == 0 {
		t.stats.ResetsLimited++
		return
	}
	t.resetsLeft--
	t.stats.Resets++
	r := Segment{Local: s.Local, Remote: s.Remote, Flags: wire.TCPRst}
	if s.Flags&wire.TCPAck != 0 {
		r.Seq = s.Ack
	} else {
		r.Flags |= wire.TCPAck
		r.Ack = s.Seq.Add(s.span())
	}
	t.sendControl(r)
}

// maxControl bounds the answers that wait to be sent.
const maxControl = 4096

// defaultTTL is that of a segment whose connection and listener are not known: of a reset for no connection, and in TIME-WAIT.
const defaultTTL = 64

// sendControl queues a segment that no record is asked for when it leaves.
func (t *Table) sendControl(s Segment) {
	if t.answers.len() >= maxControl {
		t.answersDropped++
		return
	}
	s.Conn = NoID
	if s.TTL == 0 {
		s.TTL = defaultTTL
	}
	t.answers.push(s)
}
