package tcp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

const ms = clock.Millisecond

// script is one table and a peer that the test plays. Segments are text as tcpdump would show them, with numbers relative to the initial ones:
//
//	"P. 1:1001 ack 1 win 500 sack 2001-3001"
type script struct {
	*require.Assertions
	t        *testing.T
	table    *Table
	now      clock.Time
	start    clock.Time
	id       ID
	listener ListenerID
	iss, irs Seq // ours and the peer's
	knowISS  bool
	scale    uint8 // of the peer's windows, once the handshake is over
	window   int   // that the peer's segments have where they do not say
	settings Settings
	pending  []string // segments that left, not looked at yet, with their time
	raw      []Segment
	events   []Event
	buffers  Buffer
}

var (
	us1    = Endpoint{wire.Addr{10, 0, 0, 1}, 80}
	them   = Endpoint{wire.Addr{10, 0, 0, 2}, 5000}
	peerIS = Seq(0xffffff00) // the peer's numbers wrap soon
)

type change func(s *Settings, c *Config)

// newScript has a table in which segments hold 1,000 bytes; there are no timestamps and nothing is delayed.
func newScript(t *testing.T, changes ...change) *script {
	s := &script{Assertions: require.New(t), t: t, start: clock.Time(100 * clock.Second), irs: peerIS, window: 50000}
	s.now = s.start
	s.settings = DefaultSettings()
	s.settings.Timestamps, s.settings.NoDelay, s.settings.MaxSegment, s.settings.WindowScale = false, true, 1000, -1
	s.settings.Congestion = NewReno
	random := uint64(1)
	c := Config{Random: func() uint64 { random = random*6364136223846793005 + 1442695040888963407; return random }}
	c.InitialSequence = func(local, remote Endpoint) Seq { return 0xfffff000 }
	for _, f := range changes {
		f(&s.settings, &c)
	}
	var err error
	s.table, err = New(c, s.now)
	s.NoError(err)
	return s
}

// connected is a connection that we have opened.
func connected(t *testing.T, changes ...change) *script {
	s := newScript(t, changes...)
	s.dial()
	s.out("S 0:0")
	s.in("S. 0:0 ack 1" + s.peerOptions())
	s.out(". 1:1 ack 1")
	s.event(EventConnected)
	return s
}

// accepted is a connection that the peer has opened.
func accepted(t *testing.T, changes ...change) *script {
	s := newScript(t, changes...)
	s.listen()
	s.in("S 0:0" + s.peerOptions())
	s.out("S. 0:0 ack 1")
	s.in(". 1:1 ack 1")
	s.event(EventAccepted)
	s.NoError(s.table.Take(s.id, 7))
	return s
}

func (s *script) peerOptions() string {
	o := " mss 1000"
	if s.settings.SACK {
		o += " sackok"
	}
	if s.settings.WindowScale >= 0 {
		o += " wscale 7"
		s.scale = 7
	}
	if s.settings.Timestamps {
		o += " ts 1000/0"
	}
	return o
}

func (s *script) dial() {
	id, err := s.table.Connect(s.now, Dial{Local: us1, Remote: them, User: 7, Settings: s.settings})
	s.NoError(err)
	s.id = id
}

func (s *script) listen() {
	id, err := s.table.Listen(ListenConfig{Local: Endpoint{Port: us1.Port}, Backlog: 1, Settings: s.settings, User: 9})
	s.NoError(err)
	s.listener = id
}

// collect takes all that is to be sent, and all events.
func (s *script) collect() {
	for {
		var seg Segment
		more := s.table.Output(s.now, &seg)
		for _, e := range s.table.Events() {
			if e.Kind == EventAccepted {
				s.id = e.Conn
			}
			s.events = append(s.events, e)
		}
		if !more {
			return
		}
		if seg.Flags&wire.TCPSyn != 0 {
			s.iss, s.knowISS = seg.Seq, true
		}
		s.pending = append(s.pending, s.text(&seg))
		s.raw = append(s.raw, seg)
	}
}

func (s *script) text(g *Segment) string {
	seq := g.Seq - s.iss
	if g.Flags == wire.TCPRst && g.Conn == NoID {
		seq = g.Seq - s.iss
	}
	b := fmt.Sprintf("%v %d:%d", g.Flags, seq, int(seq)+int(g.Payload.Length))
	if g.Flags&wire.TCPAck != 0 {
		b += fmt.Sprintf(" ack %d", g.Ack-s.irs)
	}
	for i := range int(g.Options.SACKCount) {
		if g.Options.Has&wire.TCPHasSACK == 0 {
			break
		}
		sep := ","
		if i == 0 {
			sep = " sack "
		}
		b += fmt.Sprintf("%s%d-%d", sep, Seq(g.Options.SACK[i].Left)-s.irs, Seq(g.Options.SACK[i].Right)-s.irs)
	}
	return b
}

// parse reads the peer's segment.
func (s *script) parse(text string) Segment {
	g := Segment{Local: us1, Remote: them, Window: uint16(s.window)}
	f := strings.Fields(text)
	for _, letter := range f[0] {
		g.Flags |= map[rune]wire.TCPFlags{'S': wire.TCPSyn, 'F': wire.TCPFin, 'R': wire.TCPRst, 'P': wire.TCPPsh, '.': wire.TCPAck,
			'U': wire.TCPUrg, 'E': wire.TCPEce, 'W': wire.TCPCwr}[letter]
	}
	number := func(v string) Seq {
		n, err := strconv.ParseInt(v, 10, 64)
		s.NoError(err)
		return Seq(n)
	}
	pair := func(v, sep string) (Seq, Seq) {
		a, b, ok := strings.Cut(v, sep)
		s.True(ok, v)
		return number(a), number(b)
	}
	from, to := pair(f[1], ":")
	g.Seq = s.irs + from
	if g.Payload.Length = uint32(to - from); g.Payload.Length > 0 {
		s.buffers++
		g.Payload.Buffer = s.buffers
	}
	o := &g.Options
	for i := 2; i < len(f); i++ {
		word, arg := f[i], ""
		if i+1 < len(f) {
			arg = f[i+1]
		}
		switch word {
		case "ack":
			g.Ack = s.iss + number(arg)
		case "win":
			g.Window = uint16(number(arg))
		case "urg":
			g.Urgent = uint16(number(arg))
		case "mss":
			o.Has, o.MSS = o.Has|wire.TCPHasMSS, uint16(number(arg))
		case "wscale":
			o.Has, o.WindowScale = o.Has|wire.TCPHasWindowScale, uint8(number(arg))
		case "sackok":
			o.Has |= wire.TCPHasSACKPermitted
			continue
		case "ce":
			g.ECN = CE
			continue
		case "ts":
			v, e := pair(arg, "/")
			o.Has, o.TSValue, o.TSEcho = o.Has|wire.TCPHasTimestamps, uint32(v), uint32(e)
		case "sack":
			o.Has |= wire.TCPHasSACK
			for _, block := range strings.Split(arg, ",") {
				l, r := pair(block, "-")
				o.SACK[o.SACKCount] = wire.SACKBlock{Left: uint32(s.iss + l), Right: uint32(s.iss + r)}
				o.SACKCount++
			}
		default:
			s.Fail("unknown word " + word)
		}
		i++
	}
	return g
}

// in is a segment of the peer, now.
func (s *script) in(text string) wire.Drop {
	s.t.Helper()
	s.collect()
	g := s.parse(text)
	_, d := s.table.Input(s.now, &g)
	s.collect()
	return d
}

// burst is several segments of the peer in one turn.
func (s *script) burst(texts ...string) {
	for _, text := range texts {
		g := s.parse(text)
		s.table.Input(s.now, &g)
	}
	s.collect()
}

// out is what has left since the last look, in this order, and nothing else.
func (s *script) out(want ...string) {
	s.t.Helper()
	s.collect()
	got := s.pending
	s.pending = nil
	if len(want) == 0 {
		want = []string{}
	}
	if got == nil {
		got = []string{}
	}
	s.Equal(want, got, "at %v", s.now.Sub(s.start))
}

// last is the segment that left last.
func (s *script) last() *Segment { return &s.raw[len(s.raw)-1] }

// wait lets time pass. The table is called when it wants to be.
func (s *script) wait(d clock.Duration) {
	s.collect()
	end := s.now.Add(d)
	for {
		at := s.table.Deadline()
		if at > end {
			break
		}
		s.now = max(s.now, at)
		for s.table.Expire(s.now) {
		}
		s.collect()
		if s.table.Deadline() <= s.now {
			s.now++
		}
	}
	s.now = max(end, s.now)
	for s.table.Expire(s.now) {
	}
	s.collect()
}

// silent lets time pass in which nothing leaves.
func (s *script) silent(d clock.Duration) {
	s.t.Helper()
	s.out()
	s.wait(d)
	s.out()
}

// event is what happened next.
func (s *script) event(kind EventKind) Event {
	s.t.Helper()
	s.collect()
	for len(s.events) > 0 {
		e := s.events[0]
		s.events = s.events[1:]
		if e.Kind == kind {
			return e
		}
	}
	s.Fail("no event " + kind.String())
	return Event{}
}

// has counts events of a kind.
func (s *script) count(kind EventKind) (n int) {
	s.collect()
	for _, e := range s.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// send queues n bytes.
func (s *script) send(n int) {
	s.buffers++
	s.NoError(s.table.Send(s.now, s.id, Payload{Buffer: s.buffers, Length: uint32(n)}, false))
}

func (s *script) state(want State) {
	s.t.Helper()
	s.Equal(want.String(), s.table.State(s.id).String())
}

func (s *script) info() Info {
	i, _ := s.table.Info(s.id)
	return i
}
