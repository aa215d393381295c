package stats

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// still makes a file whose sampler runs when the test says so.
func still(t *testing.T) (*File, func(turns int), *Reader) {
	f, err := create(Config{Directory: t.TempDir() + "/stats", Sockets: 4})
	require.NoError(t, err)
	now := time.Now().UnixNano()
	f.sampler = newSampler(f, now)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f, func(turns int) {
		for range turns {
			now += int64(tick)
			f.sampler.step(now)
		}
	}, read(t, f.Path())
}

// notePeak is what owners do: see ring.Peak.
func notePeak(f *File, words []uint64, v uint64) {
	e := *f.Epoch()
	pair := words[2*(e&1):]
	if pair[0] != e {
		pair[0], pair[1] = e, 0
	}
	pair[1] = max(pair[1], v)
}

func TestSamplesHaveSumsAndPeaksOfTheirInterval(t *testing.T) {
	f, run, r := still(t)
	a, b := f.Open(Rings, nil, 1), f.Open(Rings, nil, 2)
	packets, batch := word(Rings, "packets"), word(Rings, "batch")
	a.Counters()[packets], b.Counters()[packets] = 3, 4
	run(2) // ends an interval, and takes its sample
	notePeak(f, a.Counters()[batch:], 5)
	notePeak(f, b.Counters()[batch:], 9)
	notePeak(f, b.Counters()[batch:], 2)
	run(99)
	notePeak(f, a.Counters()[batch:], 1) // of the next interval already
	run(1)
	b.Close()
	a.Counters()[packets]++
	run(100)
	s := r.Samples()
	require.Len(t, s, 3)
	column := func(name string) (list []uint64) {
		for i := range s {
			list = append(list, s[i].Values[name])
		}
		return list
	}
	require.Equal(t, []uint64{7, 7, 8}, column("ring.packets"), "sums never go back")
	require.Equal(t, []uint64{0, 9, 1}, column("ring.batch"))
	require.Equal(t, time.Second, s[1].Interval)
	require.Equal(t, time.Second, s[2].Time.Sub(s[1].Time))
}

// The sums of counters that drivers name do not go back when a ring is closed, when a link is closed and its counters go, or when a counter
// begins anew. A gauge is what is now.
func TestSumsOfDriversNeverGoBack(t *testing.T) {
	f, run, r := still(t)
	store := func(b *Block, counters ...any) {
		for i := 0; i < len(counters); i += 2 {
			b.SetNamed(i/2, counters[i].(string), uint64(counters[i+1].(int)))
		}
		b.SetCount(len(counters) / 2)
	}
	const full, lost, open = "driver.xdp.rx_ring_full", "driver.stack.lost", "driver.tcp.connections"
	check := func(what string, wantFull, wantLost, wantOpen uint64) {
		t.Helper()
		run(ticksPerTurn)
		s := r.Samples()
		last := s[len(s)-1].Values
		require.Equal(t, []uint64{wantFull, wantLost, wantOpen}, []uint64{last[full], last[lost], last[open]}, what)
	}
	run(2)
	a, b := f.Open(Drivers, nil, 1), f.Open(Drivers, nil, 2)
	store(a, "eth0/0.xdp.rx_ring_full", 3, "eth0/1.xdp.rx_ring_full", 4, "stack.lost", 10, "tcp.connections", 2)
	store(b, "eth1.xdp.rx_ring_full", 100, "tcp.connections", 5)
	check("two rings", 107, 10, 7)
	store(a, "eth0/1.xdp.rx_ring_full", 6, "stack.lost", 11, "tcp.connections", 2)
	check("a link is closed, the other one and the stack go on", 109, 11, 7)
	store(a, "eth0/0.xdp.rx_ring_full", 1, "eth0/1.xdp.rx_ring_full", 6, "stack.lost", 11, "tcp.connections", 2)
	check("the link is opened again, and counts from zero: what it has by then is no growth that was seen", 109, 11, 7)
	store(a, "eth0/0.xdp.rx_ring_full", 2, "eth0/1.xdp.rx_ring_full", 6, "stack.lost", 11, "tcp.connections", 2)
	check("it goes on", 110, 11, 7)
	store(b, "eth1.xdp.rx_ring_full", 101, "tcp.connections", 5)
	b.Close()
	check("a ring is closed, with what it had counted last", 111, 11, 2)
	c := f.Open(Drivers, nil, 3) // in its place
	store(c, "eth1.xdp.rx_ring_full", 2)
	check("another one begins", 113, 11, 2)
}

// An interval is as long as it took, also when the system's clock is set in it.
func TestIntervalsWhenTheClockIsSet(t *testing.T) {
	f, run, r := still(t)
	begin, passed := f.sampler.last, 2*tick
	f.sampler.steady = func() int64 { return begin + int64(passed) }
	run(2)
	for _, set := range []time.Duration{-time.Hour, time.Hour} {
		passed += time.Second
		f.sampler.turn += ticksPerTurn - 1
		f.sampler.step(time.Now().Add(set).UnixNano())
	}
	s := r.Samples()
	require.Len(t, s, 3)
	require.Equal(t, 2*tick, s[0].Interval)
	require.Equal(t, []time.Duration{time.Second, time.Second}, []time.Duration{s[1].Interval, s[2].Interval})
}

func TestSamplesOfAQuarterOfAnHour(t *testing.T) {
	f, run, r := still(t)
	b := f.Open(Rings, nil, 1)
	for i := range sampleCount + 5 {
		b.Counters()[word(Rings, "packets")] = uint64(i)
		run(ticksPerTurn)
	}
	s := r.Samples()
	require.Len(t, s, sampleCount)
	for i := range s {
		require.EqualValues(t, i+6, s[i].Number)
		require.EqualValues(t, i+5, s[i].Values["ring.packets"])
	}
}

func TestLossesAreInTheJournal(t *testing.T) {
	f, run, r := still(t)
	drops, driver := f.Open(Drops, nil, 1), f.Open(Drivers, nil, 1)
	run(1)
	drops.Counters()[word(Drops, "udp.budget")] = 3
	drops.Counters()[word(Drops, "eth.not_ours")] = 100 // nothing lost
	driver.SetNamed(0, "eth0/2.xdp.rx_ring_full", 7)
	driver.SetNamed(1, "eth0/2.rx_frames", 8)
	driver.SetCount(2)
	run(1)
	drops.Counters()[word(Drops, "udp.budget")] = 5
	run(3)
	drops.Counters()[word(Drops, "udp.budget")] = 6
	drops.Close() // now, which is before the times that the sampler was given
	events := r.Events()
	require.True(t, slices.IsSortedFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) }))
	slices.SortFunc(events, func(a, b Event) int { return int(a.Number) - int(b.Number) })
	var list []string
	for _, e := range events {
		list = append(list, fmt.Sprint(e.Kind, " ", e.Of, " ", e.Count, " ", e.Text))
	}
	require.Equal(t, []string{"drop drop 1 3 udp.budget", "drop driver 1 7 eth0/2.xdp.rx_ring_full", "drop drop 1 2 udp.budget", "drop drop 1 1 udp.budget"}, list)
}

// A loss has the time in the middle of two steps; of steps that are far apart, as of a process that was stopped, that of the later one.
func TestTimeOfLosses(t *testing.T) {
	f, run, r := still(t)
	drops := f.Open(Drops, nil, 1)
	run(1)
	drops.Counters()[word(Drops, "udp.budget")] = 3
	run(1)
	at := f.sampler.ticked[0] + int64(400*time.Millisecond)
	drops.Counters()[word(Drops, "udp.budget")] = 5
	f.sampler.step(at)
	events := r.Events()
	require.Len(t, events, 2)
	require.Equal(t, f.sampler.ticked[1]-int64(tick)/2, events[0].Time.UnixNano())
	require.Equal(t, at, events[1].Time.UnixNano())
}

// A counter that moves to another place, because a new one came in front of it, has lost nothing by that.
func TestNamedCountersMayMove(t *testing.T) {
	f, run, r := still(t)
	b := f.Open(Drivers, nil, 1)
	store := func(names ...string) {
		for i, name := range names {
			b.SetNamed(i, name, uint64(len(name)))
		}
		b.SetCount(len(names))
		run(1)
	}
	const first, second = "eth0.xdp.rx_ring_full", "eth10.xdp.rx_ring_full"
	store(first)
	store("stack.delivered", first)
	store("stack.delivered", second, first)
	store(second, first)
	events := r.Events()
	require.Len(t, events, 2)
	require.Equal(t, []string{first, second}, []string{events[0].Text, events[1].Text})
}

// A baseline belongs to a counter's name: views subtract it from the same counter after that has moved to another place.
func TestBaselinesMoveWithTheirCounters(t *testing.T) {
	f, run, r := still(t)
	b := f.Open(Drivers, nil, 1)
	store := func(names []string, values ...uint64) {
		for i, name := range names {
			b.SetNamed(i, name, values[i])
		}
		b.SetCount(len(names))
	}
	value := func(name string) uint64 {
		v := r.Blocks(Drivers)[0]
		return v.Value(name)
	}
	store([]string{"stack.sent", "eth0.rx_frames"}, 100, 10)
	f.Zero(ZeroRequest{}) // before the sampler has seen the names
	run(1)
	require.EqualValues(t, 0, value("stack.sent"))
	store([]string{"eth1.rx_frames", "stack.sent", "eth0.rx_frames"}, 7, 101, 12)
	run(1)
	require.EqualValues(t, 7, value("eth1.rx_frames"), "it is new")
	require.EqualValues(t, 1, value("stack.sent"))
	require.EqualValues(t, 2, value("eth0.rx_frames"))
	store([]string{"stack.sent"}, 102) // the links are closed
	run(1)
	f.Zero(ZeroRequest{})
	require.EqualValues(t, 0, value("stack.sent"))
	store([]string{"eth0.rx_frames", "stack.sent"}, 15, 103)
	run(1)
	require.EqualValues(t, 5, value("eth0.rx_frames"), "its baseline is that of the last time that it was there")
	require.EqualValues(t, 1, value("stack.sent"))
	f.Zero(ZeroRequest{Undo: true})
	store([]string{"stack.sent", "eth0.rx_frames"}, 103, 15)
	run(1)
	require.EqualValues(t, 15, value("eth0.rx_frames"))
	require.EqualValues(t, 103, value("stack.sent"))
}

func TestJournalKeepsTheNewest(t *testing.T) {
	f, _, r := still(t)
	for i := range eventCapacity + 10 {
		f.Note(EventNote, nil, uint64(i), "n")
	}
	e := r.Events()
	require.Len(t, e, eventCapacity)
	require.EqualValues(t, 10, e[0].Count)
	require.EqualValues(t, eventCapacity+9, e[len(e)-1].Count)
	long := make([]byte, 2*EventTextMax)
	f.Note(EventNote, nil, 0, string(long))
	e = r.Events()
	require.Len(t, e[len(e)-1].Text, EventTextMax)
}

func TestSamplerAndJournalDoNotAllocate(t *testing.T) {
	f, run, _ := still(t)
	f.Open(Rings, nil, 1)
	d := f.Open(Drivers, nil, 1)
	d.SetNamed(0, "eth0.rx_lost", 1)
	d.SetCount(1)
	run(300)
	var n uint64
	require.LessOrEqual(t, testing.AllocsPerRun(500, func() {
		n++
		d.SetNamed(0, "eth0.rx_lost", n)
		run(1)
		f.Note(EventNote, nil, n, "text")
	}), 1.0, "the name that goes into the journal")
}

// Blocks are closed by their owners while the sampler's goroutine takes its turns: for the race detector.
func TestBlocksAreClosedBetweenTurns(t *testing.T) {
	f := newFile(t, Config{Sockets: 3})
	r := read(t, f.Path())
	before, end := r.load64(headTick), time.Now().Add(time.Minute)
	for turns := 0; turns < 3; {
		require.True(t, time.Now().Before(end))
		f.Open(Rings, nil, 1).Close()
		if now := r.load64(headTick); now != before {
			before, turns = now, turns+1
		}
	}
}

func TestEveryCounterIsToldInFull(t *testing.T) {
	for _, s := range Sections() {
		seen := map[string]bool{}
		for _, c := range s.Counters {
			if c.Name == "" {
				continue
			}
			require.False(t, seen[c.Name], "%s.%s is there twice", s.Name, c.Name)
			seen[c.Name] = true
			require.NotEmpty(t, c.Help, c.Name)
			require.NotEmpty(t, c.Unit, c.Name)
			require.Contains(t, []Type{Total, Gauge, Peak}, c.Type, c.Name)
		}
	}
}

// The journal tells when packets begin to come through the kernel, and, a second after the last of them, when that ended and how many came.
func TestPacketsThroughTheKernelAreInTheJournal(t *testing.T) {
	f, run, r := still(t)
	s := f.Open(Sockets, nil, 7)
	at := word(Sockets, "kernel_packets")
	run(1)
	for range 300 {
		s.Counters()[at]++
		run(1)
	}
	run(2 * ticksPerTurn)
	s.Counters()[at] += 5
	run(1)
	s.Close()
	var list []string
	events := r.Events()
	for _, e := range events {
		list = append(list, fmt.Sprint(e.Kind, " ", e.Of, " ", e.Count, " ", e.Text))
	}
	require.Equal(t, []string{"path socket 1 1 kernel_packets", "path socket 1 300 kernel_packets ended", "path socket 1 5 kernel_packets",
		"path socket 1 5 kernel_packets ended"}, list)
	require.Equal(t, 299*tick, events[1].Time.Sub(events[0].Time), "until the last one came")
	began := events[0]
	require.Equal(t, tick, began.Latest.Sub(began.Earliest), "between two looks")
	require.Equal(t, tick/2, began.Latest.Sub(began.Time))
}

// An event's name, code and times of begin and end are read as they were written, whatever the length of its text. Without them the name and the
// code are empty, and the times that of the event; so they are in a file of a version that had no such fields.
func TestFieldsOfEvents(t *testing.T) {
	f, _, r := still(t)
	x := JournalEntry{Kind: EventPollGap, Count: 7, Name: "feed: A", Code: CodeTimers, Text: "timers: they took long", Time: 40, Earliest: 10, Latest: 20, End: 30}
	f.Write(&x)
	x.Text = strings.Repeat("x", 2*EventTextMax)
	f.Write(&x)
	f.Note(EventNote, nil, 1, "plain")
	require.True(t, r.HasEventFields())
	at := func(ns ...int64) (list []time.Time) {
		for _, t := range ns {
			list = append(list, time.Unix(0, t))
		}
		return list
	}
	e := r.Events()
	require.Len(t, e, 3)
	for i, text := range []string{"timers: they took long", x.Text[:EventTextMax-len(x.Name)-len(x.Code)]} {
		require.Equal(t, []string{"feed: A", CodeTimers, text}, []string{e[i].Name, e[i].Code, e[i].Text})
		require.Equal(t, at(40, 10, 20, 30), []time.Time{e[i].Time, e[i].Earliest, e[i].Latest, e[i].End})
	}
	plain := func(e Event, text string) {
		require.Equal(t, []string{"", "", text}, []string{e.Name, e.Code, e.Text})
		require.Equal(t, []time.Time{e.Time, e.Time, e.Time}, []time.Time{e.Earliest, e.Latest, e.End})
	}
	plain(e[2], "plain")
	r.description.Fields = nil
	require.False(t, r.HasEventFields())
	plain(r.Events()[0], "timers: they took long")
}

// Of counters that an owner stores when it is asked a loss is between two of its looks; before it has said when it looks, between two steps.
func TestLossesAreBetweenLooks(t *testing.T) {
	f, run, r := still(t)
	b := f.Open(Drivers, nil, 1)
	b.SetCount(1)
	look := func(at int64, lost uint64) {
		b.BeginLook(at)
		b.SetNamed(0, "eth0/2.xdp.rx_dropped", lost)
		b.EndLook()
		run(1)
	}
	const ms = int64(time.Millisecond)
	look(100*ms, 0)
	look(110*ms, 0)
	look(120*ms, 3)
	look(220*ms, 5)
	e := r.Events()
	require.Len(t, e, 2)
	for i, want := range [][4]int64{{115, 110, 120, 120}, {220, 120, 220, 220}} {
		require.Equal(t, []string{"eth0/2", "xdp.rx_dropped"}, []string{e[i].Name, e[i].Code})
		for j, at := range []time.Time{e[i].Time, e[i].Earliest, e[i].Latest, e[i].End} {
			require.Equal(t, want[j]*ms, at.UnixNano())
		}
	}
}
