package tcp

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// echoPair is two tables with n connections between them, and no link: what one sends the other receives at once.
type echoPair struct {
	tables [2]*Table
	ids    [2][]ID
	now    clock.Time
	seg    Segment
}

func newEchoPair(t testing.TB, n int) *echoPair {
	p := &echoPair{now: clock.Time(100 * clock.Second)}
	random := uint64(1)
	settings := DefaultSettings()
	for i := range p.tables {
		table, err := New(Config{Random: func() uint64 { random = random*6364136223846793005 + 1442695040888963407; return random }}, p.now)
		require.NoError(t, err)
		p.tables[i] = table
	}
	_, err := p.tables[1].Listen(ListenConfig{Local: Endpoint{Port: 80}, Backlog: 1 << 30, Settings: settings})
	require.NoError(t, err)
	for i := range n {
		local := Endpoint{wire.Addr{10, 1, byte(i >> 16), byte(i >> 8)}, uint16(1024 + i&0xff)}
		id, err := p.tables[0].Connect(p.now, Dial{Local: local, Remote: Endpoint{wire.Addr{10, 0, 0, 1}, 80}, Settings: settings})
		require.NoError(t, err)
		p.ids[0] = append(p.ids[0], id)
		p.pump()
	}
	require.Len(t, p.ids[1], n)
	return p
}

// pump moves segments until both are silent.
func (p *echoPair) pump() {
	for again := true; again; {
		again = false
		for i, from := range p.tables {
			for from.Output(p.now, &p.seg) {
				p.seg.Local, p.seg.Remote = p.seg.Remote, p.seg.Local
				p.tables[1-i].Input(p.now, &p.seg)
				again = true
			}
		}
		for i, x := range p.tables {
			for _, e := range x.Events() {
				switch e.Kind {
				case EventAccepted:
					_ = x.Take(e.Conn, 1)
					p.ids[i] = append(p.ids[i], e.Conn)
				case EventData:
					x.Credit(p.now, e.Conn, int(e.Payload.Length))
				}
				again = true
			}
		}
	}
}

// exchange sends n bytes each way on connection c.
func (p *echoPair) exchange(c, n int) {
	for i := range p.tables {
		_ = p.tables[i].Send(p.now, p.ids[i][c], Payload{Buffer: 1, Length: uint32(n)}, false)
		p.pump()
	}
	p.now = p.now.Add(clock.Millisecond)
	for _, x := range p.tables {
		x.Expire(p.now)
	}
}

// Segments, their acknowledgements and timers allocate nothing.
func TestNoAllocationInSteadyState(t *testing.T) {
	p := newEchoPair(t, 10)
	for range 200 {
		for c := range 10 {
			p.exchange(c, 3000)
		}
	}
	require.Zero(t, testing.AllocsPerRun(200, func() { p.exchange(3, 3000) }))
	require.Zero(t, p.tables[0].Stats().Retransmitted)
}

// An idle connection takes its record, its flow and its timer, and nothing of it holds a pointer.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const n = 20_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	p := newEchoPair(t, n)
	p.exchange(5, 100)
	p.now = p.now.Add(clock.Second) // what is acknowledged late
	for _, x := range p.tables {
		x.Expire(p.now)
	}
	p.pump()
	each := float64(heap()-before) / n / 2
	t.Logf("%.0f bytes a connection", each)
	require.Less(t, each, 400.0, "the flow table may be a quarter full, and free lists are as long as the table was")
	for _, x := range p.tables {
		require.Equal(t, n, x.Len())
		require.Len(t, x.freeSenders, len(x.senders))
	}
	runtime.KeepAlive(p)
}

// One exchange of 64 bytes each way, both ends, without a link.
func BenchmarkExchange(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(itoa(n), func(b *testing.B) {
			p := newEchoPair(b, n)
			b.ReportAllocs()
			c := 0
			for b.Loop() {
				if c += 7919; c >= n {
					c %= n
				}
				p.exchange(c, 64)
			}
		})
	}
}

// A stream of full segments, both ends, without a link; the time is that of one segment.
func BenchmarkStream(b *testing.B) {
	p := newEchoPair(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if p.tables[0].Room(p.ids[0][0]) < 1448 {
			p.pump()
		}
		_ = p.tables[0].Send(p.now, p.ids[0][0], Payload{Buffer: 1, Length: 1448}, false)
		p.now = p.now.Add(clock.Microsecond)
	}
}
