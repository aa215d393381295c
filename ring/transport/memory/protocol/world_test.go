package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// world is two hosts and what is under way between them, in virtual time.
type world struct {
	*require.Assertions
	t      *testing.T
	now    clock.Time
	random *rand.Rand
	sides  [2]*side
	flying []frame
	delay  time.Duration
	lose   func(f *frame) bool
	log    []string // what left, readable
}

type frame struct {
	at      clock.Time
	to      *side
	s       Segment
	payload []byte
}

// side is one host: it keeps what it was given to send and what it got.
type side struct {
	w       *world
	name    string
	addr    [4]byte
	table   *Table
	streams map[ID]*stream
	all     []*stream
	next    []*stream // accepted, not taken by the test
	input   []byte    // payload of the segment being put in
	full    int       // so many more segments find the link full
	held    bool      // the link holds all frames
	empty   bool      // there is no buffer
}

// stream is what a host knows of a connection.
type stream struct {
	side   *side
	id     ID
	first  Seq // of data
	sent   []byte
	got    []byte
	events []EventKind
	acked  int
	gone   bool
}

func newWorld(t *testing.T, seed uint64, change ...func(i int, c *Config)) *world {
	w := &world{Assertions: require.New(t), t: t, now: 1, random: rand.New(rand.NewPCG(seed, 1)), delay: time.Millisecond}
	for i := range w.sides {
		c := Config{Random: w.random.Uint64}
		for _, f := range change {
			f(i, &c)
		}
		s := &side{w: w, name: string(rune('a' + i)), addr: [4]byte{10, 0, 0, byte(i + 1)}, streams: map[ID]*stream{}}
		s.table = New(c, s, w.now)
		w.sides[i] = s
	}
	return w
}

func (x *side) other() *side {
	if x == x.w.sides[0] {
		return x.w.sides[1]
	}
	return x.w.sides[0]
}

func (x *side) Piece(_ ID, _ Seq, n int) int { return n }

func (x *side) Transmit(id ID, s *Segment) Outcome {
	w := x.w
	if x.full > 0 {
		x.full--
		return Full
	}
	f := frame{at: w.now.Add(w.delay), to: x.other(), s: *s}
	if s.Length > 0 {
		st := x.streams[id]
		if x.held && s.Seq.Before(x.table.conns[id].max) {
			return Held
		}
		off := s.Seq.Minus(st.first)
		f.payload = slices.Clone(st.sent[off : off+int(s.Length)])
	}
	w.log = append(w.log, fmt.Sprintf("%s %s", x.name, describe(s)))
	if w.lose != nil && w.lose(&f) {
		return Sent
	}
	w.flying = append(w.flying, f)
	return Sent
}

func describe(s *Segment) string {
	text := ""
	for _, f := range []struct {
		bit  Flags
		name string
	}{{SYN, "SYN "}, {FIN, "FIN "}, {RST, "RST "}} {
		if s.Flags&f.bit != 0 {
			text += f.name
		}
	}
	if s.Length > 0 || text == "" {
		text += fmt.Sprint(s.Length)
	}
	return text
}

func (x *side) Receive(id ID, off, n int) bool {
	if x.empty {
		return false
	}
	st := x.streams[id]
	st.got = append(st.got, x.input[off:off+n]...)
	return true
}

func (x *side) Event(id ID, e Event) {
	st := x.streams[id]
	if e.Kind == EventAccepted {
		x.w.Nil(st)
		st = x.meet(id)
		x.next = append(x.next, st)
	}
	if st == nil {
		x.w.Equal(EventGone, e.Kind, "an event of a connection that nobody knows")
		return
	}
	x.w.False(st.gone, "an event after the last")
	switch e.Kind {
	case EventGone:
		st.gone = true
		delete(x.streams, id)
	case EventAcknowledged:
		st.acked += e.Bytes
		return
	}
	st.events = append(st.events, e.Kind)
}

func (x *side) meet(id ID) *stream {
	st := &stream{side: x, id: id, first: x.table.End(id)}
	x.streams[id] = st
	x.all = append(x.all, st)
	return st
}

// step goes on to the next thing that happens, until the limit; false: nothing does.
func (w *world) step(limit clock.Time) bool {
	for _, x := range w.sides {
		x.table.Flush(w.now)
		x.table.Resume(w.now)
	}
	at := clock.Never
	for i := range w.flying {
		at = min(at, w.flying[i].at)
	}
	for _, x := range w.sides {
		at = min(at, x.table.Deadline())
	}
	if at == clock.Never || at > limit {
		w.now = max(w.now, min(limit, clock.Never-1))
		return false
	}
	w.now = max(w.now, at)
	if i := slices.IndexFunc(w.flying, func(f frame) bool { return f.at <= w.now }); i >= 0 {
		f := w.flying[i]
		w.flying = slices.Delete(w.flying, i, i+1)
		wire := make([]byte, HeaderLen, HeaderLen+len(f.payload))
		f.s.Put(wire)
		s, payload, ok := Parse(append(wire, f.payload...))
		w.True(ok)
		f.to.input = payload
		f.to.table.Input(w.now, &s)
		return true
	}
	for _, x := range w.sides {
		for x.table.Expire(w.now) {
		}
	}
	return true
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for limit, n := w.now.Add(d), 0; w.step(limit); n++ {
		if n == 200_000 {
			w.Fail("a livelock", "%v: %v", w.now, w.log[max(0, len(w.log)-20):])
		}
	}
}

// connect makes a connection from side 0 to side 1.
func (w *world) connect() (client, server *stream) {
	w.t.Helper()
	if w.sides[1].table.listening(w.server()) == nil {
		w.listen(16)
	}
	client = w.begin()
	w.run(50 * time.Millisecond)
	w.Contains(client.events, EventConnected)
	return client, w.take()
}

func (w *world) server() Endpoint { return Endpoint{w.sides[1].addr, 80} }

func (w *world) listen(backlog int) int32 {
	w.t.Helper()
	return w.sides[1].table.Listen(w.server(), backlog)
}

func (w *world) begin() *stream {
	w.t.Helper()
	a := w.sides[0]
	local, err := a.table.Bind(Endpoint{Addr: a.addr})
	w.NoError(err)
	id, err := a.table.Connect(w.now, local, w.server())
	w.NoError(err)
	st := a.meet(id)
	return st
}

func (w *world) take() *stream {
	w.t.Helper()
	b := w.sides[1]
	w.NotEmpty(b.next)
	st := b.next[0]
	b.next = b.next[1:]
	b.table.Take(st.id)
	return st
}

func (st *stream) send(b []byte) {
	st.sent = append(st.sent, b...)
	st.side.table.Queue(st.side.w.now, st.id, len(b))
}

func (st *stream) credit() {
	st.side.table.Credit(st.side.w.now, st.id, st.side.table.Held(st.id))
}

func (st *stream) state() State { return st.side.table.State(st.id) }

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*3 ^ byte(i>>16)*7
	}
	return b
}

// empty asserts that both tables have no record and no time to keep.
func (w *world) empty() {
	w.t.Helper()
	for _, x := range w.sides {
		w.Zero(x.table.Len(), "records of %s", x.name)
		w.Equal(clock.Never, x.table.Deadline())
		w.Empty(x.table.lookup)
		w.Empty(x.streams)
	}
}
