package tcp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// world is two tables and what is under way between them, in virtual time. All that happens follows from the seed.
type world struct {
	*require.Assertions
	t      *testing.T
	now    clock.Time
	random *rand.Rand
	sides  [2]*side
	flying []packet
	link   link
	seed   uint64
	steps  int
	log    []string
	hash   uint64 // of all that left
}

// link is what happens to packets. Probabilities are in thousandths.
type link struct {
	delay, jitter               clock.Duration
	lose, duplicate, hold, mark int
	rate                        int // bytes a millisecond, 0: no limit
	buffer                      clock.Duration
	maxPacket                   int // larger ones vanish
	free                        [2]clock.Time
	drop                        func(from int, s *Segment) bool
}

type packet struct {
	at   clock.Time
	to   *side
	wire []byte // header as it would be on the wire
	data []byte
	ecn  ECN
}

// side is one host with at most one listener.
type side struct {
	w       *world
	index   int
	addr    wire.Addr
	table   *Table
	buffers map[Buffer][]byte
	next    Buffer
	streams map[ID]*stream
	all     []*stream
	dropped map[wire.Drop]int
	sent    map[Buffer]bool // what Send was given and EventSent did not return
	kept    map[Buffer]int  // what Input kept and no event returned
	slow    bool            // the application reads nothing
	moved   map[ID]bool     // records of connections that have moved away
}

// stream is what an application knows of a connection.
type stream struct {
	side     *side
	id       ID
	key      uint64 // of what it sends
	peerKey  uint64 // of what it receives
	sent     int
	acked    int
	toSend   int
	chunk    int
	got      int
	held     int // received and not credited
	finished bool
	ended    bool // the peer's FIN
	failed   Reason
	gone     bool
	up       bool
	closed   bool
}

// content is the byte of a stream at a place.
func content(key uint64, at int) byte {
	x := (key + uint64(at)) * 0x9e3779b97f4a7c15
	return byte(x >> 56)
}

func newWorld(t *testing.T, seed uint64, changes ...func(side int, c *Config)) *world {
	w := &world{Assertions: require.New(t), t: t, now: clock.Time(1000 * clock.Second), seed: seed, random: rand.New(rand.NewPCG(seed, 77))}
	w.link.delay = 5 * ms
	for i := range w.sides {
		c := Config{Random: w.random.Uint64}
		for _, f := range changes {
			f(i, &c)
		}
		table, err := New(c, w.now)
		w.NoError(err)
		w.sides[i] = &side{w: w, index: i, addr: wire.Addr{10, 0, 0, byte(i + 1)}, table: table, buffers: map[Buffer][]byte{},
			streams: map[ID]*stream{}, dropped: map[wire.Drop]int{}, sent: map[Buffer]bool{}, kept: map[Buffer]int{}}
	}
	return w
}

// pair connects side 0 to a listener of side 1, each with n bytes to send.
func (w *world) pair(n0, n1 int, settings ...Settings) (a, b *stream) {
	s0, s1 := DefaultSettings(), DefaultSettings()
	if len(settings) > 0 {
		s0, s1 = settings[0], settings[len(settings)-1]
	}
	_, err := w.sides[1].table.Listen(ListenConfig{Local: Endpoint{Port: 80}, Backlog: 100, Settings: s1})
	if err != nil {
		w.ErrorIs(err, ErrInUse)
	}
	x := w.sides[0]
	id, err := x.table.Connect(w.now, Dial{Local: Endpoint{Addr: x.addr}, Remote: Endpoint{w.sides[1].addr, 80}, Settings: s0})
	w.NoError(err)
	a = x.add(id, n0)
	a.key, a.peerKey = 1, 2
	w.sides[1].toServe(n1)
	w.settle()
	return a, nil
}

var serveBytes int

func (x *side) toServe(n int) { serveBytes = n }

func (x *side) add(id ID, n int) *stream {
	s := &stream{side: x, id: id, toSend: n, chunk: 4000}
	x.streams[id] = s
	x.all = append(x.all, s)
	return s
}

func (x *side) other() *side { return x.w.sides[1-x.index] }

// settle has both sides do all that they can do now.
func (w *world) settle() {
	for again := true; again; {
		again = false
		for _, x := range w.sides {
			again = x.turn() || again
		}
	}
}

// turn is one turn of a transport.
func (x *side) turn() (did bool) {
	for again := true; again; {
		again = false
		for _, e := range x.table.Events() {
			x.event(e)
			again = true
		}
		for _, s := range x.all {
			again = s.work() || again
		}
		var seg Segment
		for x.table.Output(x.w.now, &seg) {
			x.transmit(&seg)
			again = true
		}
		did = did || again
	}
	return did
}

func (x *side) event(e Event) {
	w := x.w
	if e.Kind == EventAccepted {
		s := x.add(e.Conn, serveBytes)
		s.key, s.peerKey, s.up = 2, 1, true
		w.NoError(x.table.Take(e.Conn, 1))
		return
	}
	if e.Kind == EventDropped {
		x.release(e.Payload.Buffer)
		return
	}
	if x.moved[e.Conn] {
		w.Contains([]EventKind{EventSent, EventGone}, e.Kind)
		if e.Kind == EventGone {
			delete(x.moved, e.Conn)
			return
		}
		delete(x.sent, e.Payload.Buffer)
		delete(x.buffers, e.Payload.Buffer)
		return
	}
	s := x.streams[e.Conn]
	w.NotNil(s, "%v for connection %d", e.Kind, e.Conn)
	w.False(s.gone)
	switch e.Kind {
	case EventConnected:
		s.up = true
	case EventData:
		w.False(s.ended, "data after FIN")
		w.Zero(s.failed, "data after failure")
		b := x.buffers[e.Payload.Buffer]
		w.NotNil(b)
		for _, c := range b[e.Payload.Offset : e.Payload.Offset+e.Payload.Length] {
			if c != content(s.peerKey, s.got) {
				w.FailNow("wrong byte", "seed %d: byte %d", w.seed, s.got)
			}
			s.got++
		}
		s.held += int(e.Payload.Length)
		x.release(e.Payload.Buffer)
	case EventEnd:
		w.False(s.ended, "FIN twice")
		s.ended = true
	case EventAcked:
		s.acked += int(e.Payload.Length)
		w.LessOrEqual(s.acked, s.sent)
	case EventSent:
		w.True(x.sent[e.Payload.Buffer], "a buffer returned twice")
		delete(x.sent, e.Payload.Buffer)
		delete(x.buffers, e.Payload.Buffer)
	case EventFailed:
		w.Zero(s.failed)
		s.failed = e.Reason
	case EventGone:
		s.gone = true
		delete(x.streams, e.Conn)
	}
}

func (x *side) release(b Buffer) {
	x.w.Positive(x.kept[b], "a received buffer returned twice")
	if x.kept[b]--; x.kept[b] == 0 {
		delete(x.kept, b)
		delete(x.buffers, b)
	}
}

// work is what the application does.
func (s *stream) work() (did bool) {
	x, w := s.side, s.side.w
	if s.gone || s.closed {
		return false
	}
	if s.held > 0 && !x.slow {
		x.table.Credit(w.now, s.id, s.held)
		s.held = 0
		did = true
	}
	for s.up && s.failed == 0 && s.sent < s.toSend {
		n := min(s.toSend-s.sent, s.chunk, x.table.Room(s.id))
		if n <= 0 {
			break
		}
		x.next++
		const headroom = 60
		b := make([]byte, headroom+n)
		for i := range n {
			b[headroom+i] = content(s.key, s.sent+i)
		}
		x.buffers[x.next], x.sent[x.next] = b, true
		w.NoError(x.table.Send(w.now, s.id, Payload{x.next, headroom, uint32(n)}, false))
		s.sent += n
		did = true
	}
	if s.up && s.failed == 0 && s.sent == s.toSend && !s.finished {
		s.finished = true
		w.NoError(x.table.CloseWrite(w.now, s.id))
		did = true
	}
	if s.finished && s.ended && s.held == 0 || s.failed != 0 {
		s.closed = true
		x.table.Close(w.now, s.id)
		did = true
	}
	return did
}

// transmit puts a segment on the wire.
func (x *side) transmit(s *Segment) {
	w := x.w
	w.steps++
	w.Less(w.steps, 3_000_000, "seed %d: it does not end", w.seed)
	data := []byte(nil)
	if n := s.Payload.Length; n > 0 {
		b := x.buffers[s.Payload.Buffer]
		w.NotNil(b, "a segment of a buffer that was returned")
		data = append(data, b[s.Payload.Offset:s.Payload.Offset+n]...)
	}
	head := make([]byte, s.HeaderLen())
	s.Put(head, wire.Pseudo(s.Local.Addr, s.Remote.Addr, wire.ProtocolTCP, uint16(len(head)+len(data))), wire.Sum(0).Add(data))
	w.LessOrEqual(len(head), wire.TCPLen+wire.TCPOptionsMax)
	for _, b := range head {
		w.hash = (w.hash ^ uint64(b)) * 0x100000001b3
	}
	size := len(head) + len(data) + wire.IPv4Len
	if w.log != nil {
		w.log = append(w.log, fmt.Sprintf("%d %v: %v %d:%d ack %d win %d", x.index, w.now, s.Flags, s.Seq, s.Seq+Seq(len(data)), s.Ack, s.Window))
	}
	l := &w.link
	if l.drop != nil && l.drop(x.index, s) || w.random.IntN(1000) < l.lose || l.maxPacket > 0 && size > l.maxPacket {
		return
	}
	at := w.now
	if l.rate > 0 { // a queue in front of a line
		start := max(at, l.free[x.index])
		if start.Sub(at) > l.buffer {
			return
		}
		l.free[x.index] = start.Add(clock.Duration(size) * ms / clock.Duration(l.rate))
		at = l.free[x.index]
	}
	at = at.Add(l.delay)
	if l.jitter > 0 {
		at = at.Add(clock.Duration(w.random.Int64N(int64(l.jitter))))
	}
	if w.random.IntN(1000) < l.hold {
		at = at.Add(clock.Duration(w.random.Int64N(int64(4*l.delay + ms))))
	}
	p := packet{at: at, to: x.other(), wire: head, data: data, ecn: s.ECN}
	if s.ECN != NotECT && w.random.IntN(1000) < l.mark {
		p.ecn = CE
	}
	w.fly(p)
	if w.random.IntN(1000) < l.duplicate {
		p.at = p.at.Add(l.delay / 2)
		w.fly(p)
	}
}

// fly keeps packets in order of arrival; those of a moment in the order in which they left.
func (w *world) fly(p packet) {
	i := len(w.flying)
	for i > 0 && w.flying[i-1].at > p.at {
		i--
	}
	w.flying = append(w.flying, packet{})
	copy(w.flying[i+1:], w.flying[i:])
	w.flying[i] = p
}

func (x *side) receive(p packet) {
	x.next++
	b := append(append([]byte(nil), p.wire...), p.data...)
	var s Segment
	s.ECN = p.ecn
	x.w.Equal(wire.Accept, s.Parse(x.other().addr, x.addr, b, x.next, 0))
	kept, d := x.table.Input(x.w.now, &s)
	if d != wire.Accept {
		x.dropped[d]++
	}
	if kept {
		x.kept[x.next]++
		x.buffers[x.next] = b
	}
}

// step moves to the next moment at which something happens, at most to the limit, and reports whether there was one.
func (w *world) step(limit clock.Time) bool {
	at := clock.Never
	if len(w.flying) > 0 {
		at = w.flying[0].at
	}
	for _, x := range w.sides {
		at = min(at, x.table.Deadline())
	}
	if at > limit {
		w.now = max(w.now, min(limit, clock.Never-1))
		return false
	}
	if at <= w.now && (len(w.flying) == 0 || w.flying[0].at > w.now) {
		at = w.now + 1 // a wheel may say a little early
	}
	w.now = max(w.now, at)
	for len(w.flying) > 0 && w.flying[0].at <= w.now {
		p := w.flying[0]
		w.flying = w.flying[1:]
		p.to.receive(p)
	}
	for _, x := range w.sides {
		for x.table.Expire(w.now) {
		}
	}
	w.settle()
	w.check()
	return true
}

// run lets time pass until nothing happens any more or the limit is reached.
func (w *world) run(d clock.Duration) {
	w.settle()
	for limit := w.now.Add(d); w.step(limit); {
	}
}

// until runs until a condition holds, and fails after d.
func (w *world) until(d clock.Duration, what string, done func() bool) {
	w.t.Helper()
	w.settle()
	limit := w.now.Add(d)
	for !done() {
		if !w.step(limit) {
			w.FailNow("not reached: "+what, "seed %d: %s", w.seed, w.describe())
		}
	}
}

// quiet reports whether all connections have ended.
func (w *world) quiet() bool {
	for _, x := range w.sides {
		if x.table.Len() > 0 || x.table.HalfOpen() > 0 {
			return false
		}
	}
	return true
}

func (w *world) describe() string {
	out := ""
	for _, x := range w.sides {
		for _, s := range x.all {
			i, ok := x.table.Info(s.id)
			out += fmt.Sprintf("\nside %d: sent %d of %d, acked %d, got %d, ended %v, failed %v, gone %v\n  %v %+v", x.index, s.sent, s.toSend, s.acked,
				s.got, s.ended, s.failed, s.gone, ok, i)
		}
	}
	return out
}

// check holds what must hold at every moment.
func (w *world) check() {
	for _, x := range w.sides {
		t := x.table
		for _, s := range x.all {
			c := t.get(s.id)
			if c == nil || s.gone {
				continue
			}
			w.False(c.nxt.Before(c.una), "SND.NXT before SND.UNA")
			if c.sender == 0 {
				continue
			}
			snd := t.senders[c.sender-1]
			sacked, lost, again, count := 0, 0, 0, 0
			at := c.una
			for i := range snd.flight.len() {
				r := snd.flight.at(i)
				w.Equal(at, r.seq, "a gap in the retransmission queue")
				at = r.end()
				switch {
				case r.flags&sentSACKed != 0:
					sacked += int(r.span)
					count++
				case r.flags&sentLost != 0:
					lost += int(r.span)
				case r.flags&sentAgain != 0:
					again += int(r.span)
				}
			}
			w.Equal([]any{c.nxt, sacked, lost, again, count}, []any{at, snd.sacked, snd.lost, snd.again, snd.sackedCount},
				"seed %d: the scoreboard", w.seed)
			if synchronized.has(c.state) {
				w.GreaterOrEqual(int(c.cc.Window), c.payloadLimit(), "seed %d: the congestion window", w.seed)
				w.True(c.flight() == 0 || c.rtxAt != clock.Never || c.flags&(flagReady|flagMoving) != 0, "seed %d: data in flight and no timer", w.seed)
			}
		}
	}
}

// finish runs to the end of everything, and looks for what is left.
func (w *world) finish(d clock.Duration) {
	w.t.Helper()
	w.until(d, "the end of all connections", w.quiet)
	for _, x := range w.sides {
		w.Empty(x.sent, "buffers not returned")
		w.Empty(x.kept, "received buffers not returned")
		w.Zero(x.table.Len())
		for _, s := range x.all {
			w.True(s.gone)
		}
	}
	w.run(130 * clock.Second) // TIME-WAIT
	for _, x := range w.sides {
		w.Zero(x.table.TimeWaits())
		w.Zero(x.table.flows.count)
		w.Zero(x.table.wheel.Len())
		w.Equal(clock.Never, x.table.Deadline())
		w.Len(x.table.freeSenders, len(x.table.senders))
		w.Len(x.table.freeReasm, len(x.table.reassemblies))
	}
}

// delivered says that all bytes have arrived, in both directions.
func (w *world) delivered() {
	w.t.Helper()
	for _, x := range w.sides {
		for _, s := range x.all {
			w.Zero(s.failed, "seed %d", w.seed)
			w.Equal(s.toSend, s.sent)
			w.Equal(s.toSend, s.acked, "seed %d", w.seed)
		}
	}
	w.Equal(w.sides[0].all[0].toSend, w.sides[1].all[0].got)
	w.Equal(w.sides[1].all[0].toSend, w.sides[0].all[0].got)
}

func TestTransfer(t *testing.T) {
	w := newWorld(t, 1)
	w.pair(1_000_000, 300_000)
	w.finish(60 * clock.Second)
	w.delivered()
	st := w.sides[0].table.Stats()
	require.Zero(t, st.Retransmitted, "nothing was lost")
	require.Zero(t, st.TimeOuts)
}

// The same seed gives the same bytes on the wire.
func TestWorldRepeats(t *testing.T) {
	hash := func(seed uint64) uint64 {
		w := newWorld(t, seed)
		w.link.lose, w.link.hold, w.link.duplicate = 50, 50, 20
		w.pair(100_000, 50_000)
		w.finish(600 * clock.Second)
		return w.hash
	}
	require.Equal(t, hash(5), hash(5))
	require.NotEqual(t, hash(5), hash(6))
}

// Streams arrive whole over links that lose, hold, double and mark, with all settings.
func TestBadLinks(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 30
	}
	for seed := range uint64(seeds) {
		w := badWorld(t, seed+1)
		w.finish(3000 * clock.Second)
		w.delivered()
	}
}

// badWorld has a link and settings that follow from the seed.
func badWorld(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed)
	r := w.random
	w.link = link{delay: clock.Duration(r.IntN(40)+1) * ms / 2, jitter: clock.Duration(r.IntN(5)) * ms, lose: r.IntN(4) * r.IntN(60),
		duplicate: r.IntN(3) * 20, hold: r.IntN(3) * 30, mark: r.IntN(2) * 20}
	if r.IntN(3) == 0 {
		w.link.rate, w.link.buffer = 200+r.IntN(5000), clock.Duration(10+r.IntN(50))*ms
	}
	var set [2]Settings
	for i := range set {
		s := DefaultSettings()
		s.SACK, s.Timestamps, s.ECN, s.NoDelay, s.QuickAck = r.IntN(4) > 0, r.IntN(3) > 0, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(4) == 0
		s.WindowScale = int8(r.IntN(10) - 1)
		s.Congestion = Congestion(r.IntN(int(numCongestion)))
		s.ReceiveBuffer, s.SendBuffer = 2000+r.IntN(200_000), 1+r.IntN(200_000)
		if r.IntN(3) == 0 {
			s.MaxSegment = uint16(100 + r.IntN(1300))
		}
		if r.IntN(4) == 0 {
			s.RTOMin, s.RTOInitial = ms, 100*ms
		}
		set[i] = s
	}
	w.pair(r.IntN(200_000), r.IntN(100_000), set[0], set[1])
	return w
}
