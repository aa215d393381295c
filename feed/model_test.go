package feed

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// model is the channel written as naively as possible, message by message with maps: no windows, no slots, no recovery.
type model struct {
	start      bool
	next, high uint64
	have       map[uint64]uint64 // message → its content
	noticed    map[uint64]int64  // missing message → when it was known to exist
	counted    map[uint64]uint64 // and how many packets had come
	arrivals   uint64
	now        int64
	gapTime    int64
	gapPackets uint64
	out        []uint64 // sequence numbers delivered
	lost       []uint64
}

func newModel(c Config) *model {
	return &model{have: map[uint64]uint64{}, noticed: map[uint64]int64{}, counted: map[uint64]uint64{}, gapTime: c.GapTime,
		gapPackets: c.GapPackets}
}

func (m *model) input(seq uint64, count uint32, now int64) {
	m.now = max(m.now, now)
	m.arrivals++
	if !m.start {
		m.start, m.next, m.high = true, seq, seq
	}
	for q := m.high; q < seq; q++ {
		m.noticed[q], m.counted[q] = m.now, m.arrivals
	}
	m.high = max(m.high, seq+uint64(count))
	for q := seq; q < seq+uint64(count); q++ {
		if q >= m.next {
			m.have[q] = q
			delete(m.noticed, q)
		}
	}
	m.drain()
}

func (m *model) drain() {
	for m.next < m.high {
		switch _, ok := m.have[m.next]; {
		case ok:
			m.out = append(m.out, m.next)
			delete(m.have, m.next)
		case m.gapTime > 0 && m.now-m.noticed[m.next] >= m.gapTime ||
			m.gapPackets > 0 && m.arrivals-m.counted[m.next] >= m.gapPackets || m.gapTime == 0 && m.gapPackets == 0:
			m.lost = append(m.lost, m.next)
		default:
			return
		}
		m.next++
	}
}

// rig drives a channel, checks what holds for every channel, and collects what comes out.
type rig struct {
	t      testing.TB
	c      *Channel[uint64]
	refs   map[uint64]bool // given to Input and not yet back
	ref    uint64
	epoch  uint32
	next   uint64
	out    []uint64
	lost   []Range
	events []Event
	// missing is how many messages were reported as missed, and neither as filled nor as given up.
	missing uint64
	twins   []Delivery[uint64]
	byRec   int
	copied  bool
}

func newRig(t testing.TB, c Config) *rig {
	ch, err := New[uint64](c)
	require.NoError(t, err)
	return &rig{t: t, c: ch, refs: map[uint64]bool{}, copied: c.CopyBytes > 0}
}

// payload is messages that carry their own sequence number and epoch's tag.
func payload(seq uint64, count uint32, tag uint64) []byte {
	b := make([]byte, 0, 8*count)
	for i := range uint64(count) {
		b = binary.LittleEndian.AppendUint64(b, (seq+i)^tag<<56)
	}
	return b
}

func (r *rig) in(s Segment[uint64]) {
	r.ref++
	s.Ref = r.ref
	r.refs[r.ref] = true
	if s.Payload == nil {
		s.Payload = payload(s.Seq, s.Count, s.Session)
	}
	r.c.Input(&s)
	r.drain()
	if r.copied { // the caller's memory is reused: what is parked must not be in it
		for i := range s.Payload {
			s.Payload[i] = 0xee
		}
	}
}

func (r *rig) drain() {
	var d Delivery[uint64]
	for r.c.Next(&d) {
		if d.Count > 0 {
			if d.Epoch != r.epoch {
				r.epoch, r.next = d.Epoch, d.Seq-d.Lost
			}
			if d.Lost > 0 {
				r.lost = append(r.lost, Range{r.next, r.next + d.Lost})
			}
			require.Equal(r.t, r.next+d.Lost, d.Seq)
			r.next = d.Seq
			for i := range d.Count {
				got := binary.LittleEndian.Uint64(d.Payload[8*(d.Skip+i):])
				require.Equal(r.t, (d.Seq+uint64(i))<<8, got<<8, "content of message %d", d.Seq+uint64(i))
				r.out = append(r.out, d.Seq+uint64(i))
			}
			r.next += uint64(d.Count)
			if d.Recovered {
				r.byRec += int(d.Count)
			}
		}
		if d.Twin {
			r.twins = append(r.twins, d)
		}
		if d.Done {
			require.True(r.t, r.refs[d.Ref], "reference %d came back twice", d.Ref)
			delete(r.refs, d.Ref)
		}
	}
	for e := (Event{}); r.c.Event(&e); {
		r.events = append(r.events, e)
		switch e.Kind {
		case Missed:
			r.missing += e.End - e.Seq
		case Filled, GaveUp:
			require.LessOrEqual(r.t, e.End-e.Seq, r.missing, "%v of messages that were not missed", e.Kind)
			r.missing -= e.End - e.Seq
		}
	}
	s := r.c.Stats()
	if s.Holes == 0 && s.EventsDropped == 0 {
		require.Zero(r.t, r.missing, "what was missed was filled or given up")
	}
	if r.copied {
		require.Empty(r.t, r.refs)
	} else {
		require.Len(r.t, r.refs, s.Parked)
	}
	r.check()
}

// check is what a tester can check of any run: the ledger of messages.
func (r *rig) check() {
	s := r.c.Stats()
	var wins uint64
	for i := range uint8(r.c.cfg.Lines) {
		wins += r.c.Line(i).FirstWins
	}
	wins += r.c.Line(Recovery).FirstWins
	var parked uint64
	for i := range r.c.park.ring {
		if r.c.park.ring[i] != 0 {
			parked++
		}
	}
	require.Equal(r.t, s.Delivered+parked, wins, "first wins and what was delivered or waits")
	missing := uint64(0)
	last := s.Next
	for _, h := range r.c.holes.h[:r.c.holes.n] {
		require.GreaterOrEqual(r.t, h.From, last, "holes are in order")
		require.Less(r.t, h.From, h.To)
		last = h.To
		missing += h.Len()
	}
	require.Equal(r.t, s.High-s.Next, parked+missing, "between next and high everything is parked or in a hole")
	require.Zero(r.t, s.EventsDropped)
}

// play makes packets of random cuts from messages 1 to n, sends them on lines with loss, duplication and reordering.
type sent struct {
	seq   uint64
	count uint32
	line  uint8
	at    int64
}

func play(rnd *rand.Rand, lines int, n uint64, loss, reorder float64) []sent {
	var all []sent
	for l := range lines {
		at := int64(l) * int64(rnd.IntN(2000))
		for seq := uint64(1); seq <= n; {
			count := uint32(min(uint64(1+rnd.IntN(9)), n-seq+1))
			at += int64(rnd.IntN(1000))
			p := sent{seq, count, uint8(l), at}
			if rnd.Float64() < reorder {
				p.at += int64(rnd.IntN(6000))
			}
			if rnd.Float64() >= loss {
				all = append(all, p)
				if rnd.IntN(20) == 0 {
					p.at += int64(rnd.IntN(3000))
					all = append(all, p)
				}
			}
			if rnd.IntN(30) == 0 {
				all = append(all, sent{seq + uint64(count), 0, uint8(l), at})
			}
			seq += uint64(count)
		}
	}
	for i := 1; i < len(all); i++ { // by arrival, stable
		for j := i; j > 0 && all[j].at < all[j-1].at; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

func compare(t testing.TB, seed uint64, c Config, packets []sent) {
	r, m := newRig(t, c), newModel(c)
	for _, p := range packets {
		r.in(Segment[uint64]{Session: 7, Seq: p.seq, Count: p.count, Line: p.line, Arrival: p.at})
		m.input(p.seq, p.count, p.at)
		require.Equal(t, m.next, r.c.Stats().Next, "seed %d, after %+v", seed, p)
		require.Equal(t, len(m.out), len(r.out), "seed %d, after %+v", seed, p)
	}
	require.Equal(t, m.out, r.out, "seed %d", seed)
	require.Equal(t, uint64(len(m.lost)), r.c.Stats().Unrecovered)
	r.c.Flush(r.c.now)
	r.drain()
	s := r.c.Stats()
	require.Equal(t, s.High, s.Next)
	require.Equal(t, s.Delivered+s.Unrecovered, s.High-s.First)
	require.Empty(t, r.refs)
}

// TestAgainstTheModel plays random lines through channel and model.
func TestAgainstTheModel(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := Config{Lines: 1 + rnd.IntN(3), Window: 1024, Slots: 1024, Holes: 1024, RestartAfter: -1}
		switch rnd.IntN(4) {
		case 0:
			c.GapTime = int64(rnd.IntN(20_000))
		case 1:
			c.GapPackets = uint64(rnd.IntN(20))
		case 2:
			c.GapTime, c.GapPackets = int64(1+rnd.IntN(20_000)), uint64(1+rnd.IntN(20))
		case 3:
			c.GapTime = 1 << 60 // never
		}
		if rnd.IntN(2) == 0 {
			c.CopyBytes = 128
		}
		compare(t, seed, c, play(rnd, c.Lines, uint64(50+rnd.IntN(400)), rnd.Float64()*0.3, rnd.Float64()*0.2))
	}
}

// FuzzChannel lets the fuzzer write the packets: any sequence of claims keeps the ledger, gives every reference back
// once and, as far as the model goes, delivers what the model delivers.
func FuzzChannel(f *testing.F) {
	f.Add([]byte{0, 1, 3, 0, 9, 2, 1, 4, 5})
	f.Add([]byte{0, 200, 1, 1, 10, 7, 3, 90, 0, 2, 100, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Config{Lines: 2, Window: 64, Slots: 4, Holes: 6, GapTime: 50, RestartAfter: 1000, LineTimeout: 300,
			Recovery: RecoveryConfig{Attempts: 2, Timeout: 20, MaxMessages: 5}}
		r := newRig(t, c)
		now, sentAt := int64(0), int64(1)
		for ; len(b) >= 3; b = b[3:] {
			now += int64(b[2] >> 3)
			sentAt += int64(b[2] >> 3)
			s := Segment[uint64]{Session: 1, Seq: uint64(b[1]), Count: uint32(b[2] & 7), Line: b[0] & 1, Arrival: now,
				Sent: sentAt}
			switch b[0] >> 4 {
			case 1:
				s.Line = Recovery
			case 2:
				s.Session = uint64(b[0] & 3)
			case 3:
				sentAt += 2000
				s.Sent = sentAt
			case 4:
				s.Sent = 0
			case 5:
				s.Reset = true
			case 6:
				s.End = true
			case 7:
				s.Seq = -uint64(b[1])
			case 8:
				s.Line = b[1]
			case 9:
				r.c.Poll(now)
				r.drain()
				for q := (Request{}); r.c.Request(now, &q); {
					require.Greater(t, q.To, q.From)
					require.LessOrEqual(t, q.Len(), uint64(5))
				}
				require.Greater(t, r.c.Deadline(), now, "all that was due is done")
				continue
			case 10:
				r.c.Rejected(now, Range{uint64(b[1]), uint64(b[1]) + uint64(b[2])})
				r.drain()
				continue
			case 11:
				r.c.Flush(now)
				r.drain()
				continue
			case 12:
				r.c.Resynced(now)
				r.drain()
				continue
			case 13:
				s.Count = uint32(b[2]) // longer than the window
			}
			if s.Count > 0 && s.Seq+uint64(s.Count) < s.Seq {
				s.Payload = []byte{}
			}
			r.in(s)
		}
		r.c.Flush(now)
		r.drain()
		require.Empty(t, r.refs)
	})
}
