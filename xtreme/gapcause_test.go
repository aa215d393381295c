package xtreme

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Causes outside of the program are named before what it did meanwhile, steal first of all. What took less than half of the gap is not its
// cause.
func TestCausesOfAGap(t *testing.T) {
	const ms = time.Millisecond
	begin := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	busy := ring.Gap{Length: 40 * ms, Work: ring.WorkHandler, Spent: 40 * ms, Delivered: 3, Socket: 7}
	idle := ring.Gap{Length: 40 * ms}
	for _, c := range []struct {
		name   string
		gap    ring.Gap
		thread threadCounts
		steal  time.Duration
		want   string
	}{
		{"steal", busy, threadCounts{known: true, delayed: 30 * ms}, 20 * ms, "steal: the host took the processors for 20ms"},
		{"a little steal", busy, threadCounts{known: true}, 19 * ms, "handler: 3 completions of fd=7"},
		{"a little steal while nothing was done", idle, threadCounts{known: true}, 19 * ms, "unknown"},
		{"preempted", busy, threadCounts{known: true, delayed: 20 * ms}, 0, "preempted: another thread had the processor for 20ms"},
		{"preempted, on another thread than before", idle, threadCounts{delayed: 20 * ms}, 0, "unknown"},
		{"a page from a disk", busy, threadCounts{known: true, major: 2}, 0, "page fault: 2 waited for a disk"},
		{"new pages", busy, threadCounts{known: true, minor: 20_000}, 0, "page fault: 20000 new pages of memory"},
	} {
		p := processTime{fault: time.Microsecond}
		for at := begin.Add(-time.Second); at.Before(begin.Add(time.Second)); at = at.Add(10 * ms) { // the statistics' goroutine ticked
			p.ticks[p.n%len(p.ticks)].at = at
			p.n++
		}
		require.Equal(t, c.want, p.cause(&gapRecord{Gap: c.gap, end: begin.Add(c.gap.Length), thread: c.thread}, c.steal).String(), c.name)
	}
}

// collecting is what ticks each 10 ms have seen of a process that collects garbage from one time to another, a collection in each tick.
func collecting(from, to time.Time) *processTime {
	p := &processTime{fault: time.Microsecond}
	var pauses, cycles uint64
	for at := from.Add(-time.Second); at.Before(to.Add(time.Second)); at = at.Add(10 * time.Millisecond) {
		if at.After(from) && !at.After(to) {
			pauses, cycles = pauses+2, cycles+1
		}
		p.ticks[p.n%len(p.ticks)] = processTick{at: at, pauses: pauses, cycles: cycles}
		p.n++
	}
	return p
}

// Garbage is collected beside a handler that allocates: that is the handler's time.
func TestHandlerThatAllocatesIsNamed(t *testing.T) {
	begin := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	end := begin.Add(400 * time.Millisecond)
	g := gapRecord{Gap: ring.Gap{Length: 400 * time.Millisecond, Work: ring.WorkHandler, Spent: 399 * time.Millisecond, Delivered: 3, Socket: 7}, end: end}
	p := collecting(begin, end)
	require.Equal(t, "handler: 3 completions of fd=7; garbage was collected meanwhile", p.cause(&g, 0).String())
	for i := range p.ticks { // the handler calls runtime.GC, and waits for it
		p.ticks[i].forced = p.ticks[i].cycles
	}
	require.Equal(t, "garbage collection: one that the program asked for was under way", p.cause(&g, 0).String())
}

// A collection within a long gap for which nothing is known is not its cause, as long as it was not under way for half of it.
func TestShortCollectionExplainsNoLongGap(t *testing.T) {
	begin := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	end := begin.Add(400 * time.Millisecond)
	g := gapRecord{Gap: ring.Gap{Length: 400 * time.Millisecond}, end: end}
	require.Equal(t, "unknown", collecting(begin.Add(100*time.Millisecond), begin.Add(140*time.Millisecond)).cause(&g, 0).code)
	require.Equal(t, "garbage collection", collecting(begin, end).cause(&g, 0).code)
}

// A collection is under way from the tick in which it began to the one in which it ended, also where ticks between have seen nothing of it.
func TestCollectionOverManyTicks(t *testing.T) {
	begin := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	p := &processTime{}
	for i, x := range []processTick{{}, {}, {pauses: 1}, {pauses: 1}, {pauses: 1}, {pauses: 2, cycles: 1, forced: 1}, {pauses: 2, cycles: 1, forced: 1}} {
		x.at = at(10 * i)
		p.ticks[i], p.n = x, i+1
	}
	for _, c := range []struct {
		from, to int
		underWay int
		forced   bool
	}{{0, 10, 0, false}, {12, 18, 6, false}, {22, 38, 16, false}, {0, 60, 40, true}, {45, 47, 2, true}, {51, 60, 0, false}} {
		underWay, forced := p.collections(at(c.from), at(c.to))
		require.Equal(t, time.Duration(c.underWay)*time.Millisecond, underWay, "%+v", c)
		require.Equal(t, c.forced, forced, "%+v", c)
	}
}
