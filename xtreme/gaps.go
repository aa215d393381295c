package xtreme

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/hoststat"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/stats"
)

// A gap between two polls is noticed by the owner, which adds what the kernel counts of its thread, and named by the statistics' goroutine some
// milliseconds later, which knows more:
//
//	owner: end of the Poll                  statistics' goroutine: next tick
//	length, work, thread's counters ──────► own absence, collections, steal ──► journal: "feed: preempted for 3.1ms"

// gapRecord is a gap as the owner has noticed it.
type gapRecord struct {
	ring.Gap
	end    time.Time
	thread threadCounts // since the last baseline
}

// gapQueue has one producer and one consumer.
type gapQueue struct {
	records    [64]gapRecord
	head, tail atomic.Uint32 // how many were taken; how many were put
	discarded  [len(gapBudgets{})]atomic.Uint32
}

// put adds a gap; the poller's owner calls it. If the queue is full the gap is discarded: the journal does not have it, which the next gap of
// its class says (countDiscarded). The loop has counted it in the poller's block already.
func (q *gapQueue) put(g gapRecord) {
	t := q.tail.Load()
	if t-q.head.Load() == uint32(len(q.records)) {
		q.discarded[gapClass(g.Length)].Add(1)
		return
	}
	q.records[t%uint32(len(q.records))] = g
	q.tail.Store(t + 1)
}

// take removes the oldest gap; the statistics' goroutine calls it.
func (q *gapQueue) take() (g gapRecord, ok bool) {
	h := q.head.Load()
	if h == q.tail.Load() {
		return g, false
	}
	g = q.records[h%uint32(len(q.records))]
	q.head.Store(h + 1)
	return g, true
}

// countDiscarded adds the gaps that found no room, since the last call, to those that budgets have left out; the statistics' goroutine calls it.
func (q *gapQueue) countDiscarded(b *gapBudgets) {
	for class := range q.discarded {
		b[class].leftOut += int(q.discarded[class].Swap(0))
	}
}

// threadCounts are what the kernel counts of a thread.
type threadCounts struct {
	known   bool          // false: the goroutine was on another thread when the baseline was taken
	delayed time.Duration // it could have run, and another thread had the processor
	minor   int64         // page faults that needed no disk
	major   int64         // page faults that waited for one
}

// threadMeter measures the owner's thread. Its file is opened again when the goroutine has changed its thread.
//
// The Poll that ends a gap has taken a baseline before the gap is noticed, if one was due: so the baseline before the last one is kept too.
type threadMeter struct {
	id     int
	file   *os.File // its schedstat; nil: this kernel has none
	base   threadCounts
	at     time.Time // of base
	before threadCounts
}

// takeBaseline stores the counts of now as the baseline. It costs three system calls.
func (m *threadMeter) takeBaseline() {
	m.before = m.base
	if id := unix.Gettid(); id != m.id {
		m.close()
		m.id, m.before = id, threadCounts{}
		m.file, _ = hoststat.OpenSchedule(strconv.Itoa(id))
	}
	m.base, m.at = m.read(), time.Now()
}

// since is what was counted since the last baseline that is not younger than from. It takes a new baseline. The result is not known if the
// goroutine has changed its thread.
func (m *threadMeter) since(from time.Time) threadCounts {
	base := m.base
	if m.at.After(from) {
		base = m.before
	}
	id := m.id
	m.takeBaseline()
	if id != m.id {
		return threadCounts{}
	}
	now := m.base
	return threadCounts{known: now.known && base.known, delayed: now.delayed - base.delayed, minor: now.minor - base.minor, major: now.major - base.major}
}

// read reads what the kernel has counted for the calling thread, the owner's; not known without the file of its schedule.
func (m *threadMeter) read() (x threadCounts) {
	var usage unix.Rusage
	if m.file == nil || unix.Getrusage(unix.RUSAGE_THREAD, &usage) != nil {
		return x
	}
	s, err := hoststat.ReadSchedule(m.file)
	return threadCounts{known: err == nil, delayed: time.Duration(s.Delayed), minor: usage.Minflt, major: usage.Majflt}
}

func (m *threadMeter) close() {
	if m.file != nil {
		_ = m.file.Close()
		m.file = nil
	}
}

// gap is called by the owner for each gap of more than 100 µs between two polls.
func (m *monitor) gap(g ring.Gap) {
	end := time.Now().Add(-g.Ago)
	m.poller.record.Gap(g.Length, "") // at once: it is a comment of the frame behind the gap
	m.gaps.put(gapRecord{Gap: g, end: end, thread: m.thread.since(end.Add(-g.Length))})
}

// processTime is what the statistics' goroutine has seen of the process, tick by tick.
type processTime struct {
	ticks [512]processTick // a ring: some five seconds
	n     int
	meter hoststat.Collections
	fault time.Duration // what a page fault without a disk takes on this machine; 0: it was not measured yet
}

// faultTime is what a page fault without a disk takes. It is measured when it is asked for first, by the statistics' goroutine.
func (p *processTime) faultTime() time.Duration {
	if p.fault == 0 {
		p.fault = max(hoststat.FaultTime(), time.Nanosecond)
	}
	return p.fault
}

// processTick is what one tick has noted.
type processTick struct {
	at     time.Time
	pauses uint64 // of collections, so far: two for each
	cycles uint64 // collections that have ended
	forced uint64 // of those, asked for by the program
}

// noteTick stores the time of a tick and the counts of collections. It is called in each tick, before nameGaps writes gaps.
func (p *processTime) noteTick(now time.Time) {
	x := &p.ticks[p.n%len(p.ticks)]
	n := p.meter.Read()
	*x = processTick{at: now, pauses: n.Pauses, cycles: n.Cycles, forced: n.Forced}
	p.n++
}

// collections returns for how much of the time between two times a collection was under way, at the most: a tick says that one began or
// ended since the tick before, not when. forced: the program had asked for one that ended in these ticks (runtime.GC).
//
//	ticks              │     │     │     │     │     │
//	pauses, cycles     0     1     1     2,1   2,1   2,1
//	under way             ████████████████
func (p *processTime) collections(from, to time.Time) (underWay time.Duration, forced bool) {
	began := false // and has not ended
	for i := max(p.n-len(p.ticks), 0) + 1; i < p.n; i++ {
		a, b := &p.ticks[(i-1)%len(p.ticks)], &p.ticks[i%len(p.ticks)]
		changed := a.pauses != b.pauses || a.cycles != b.cycles
		if changed {
			began = a.cycles == b.cycles
		}
		if !changed && !began || !b.at.After(from) || a.at.After(to) {
			continue
		}
		begin, end := a.at, b.at
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		underWay += end.Sub(begin)
		forced = forced || a.forced != b.forced
	}
	return underWay, forced
}

// absent is the longest part of the time between two times in which the statistics' goroutine did not tick: the process as a whole did not
// run. It is 0 if no two ticks are as far apart as absence.
func (p *processTime) absent(from, to time.Time) (longest time.Duration) {
	for i := p.n - 1; i > 0 && i > p.n-len(p.ticks); i-- {
		a, b := p.ticks[(i-1)%len(p.ticks)].at, p.ticks[i%len(p.ticks)].at
		if b.Before(from) {
			break
		}
		if b.Sub(a) < absence {
			continue
		}
		if a.Before(from) {
			a = from
		}
		if b.After(to) {
			b = to
		}
		longest = max(longest, b.Sub(a))
	}
	return longest
}

const absence = 25 * time.Millisecond // between ticks of 10 ms: the statistics' goroutine did not run either

// gapCause is what caused a gap: a code of package stats, and more, for people.
type gapCause struct{ code, more string }

// String is the cause as the journal's text has it.
func (c gapCause) String() string {
	if c.more == "" {
		return c.code
	}
	return c.code + ": " + c.more
}

// cause returns what caused a gap. The causes that lie outside of the program come first, because work is under way in those gaps too. A
// collection runs beside the program: it is the cause of a gap that work explains only if it kept the loop from that work, by pauses or
// because the loop waited for it.
func (p *processTime) cause(g *gapRecord, steal time.Duration) gapCause {
	begin := g.end.Add(-g.Length)
	half := g.Length / 2
	because := func(code, format string, args ...any) gapCause { return gapCause{code, fmt.Sprintf(format, args...)} }
	collecting, forced := p.collections(begin, g.end)
	besides := ""
	if collecting > 0 {
		besides = "; garbage was collected meanwhile"
	}
	switch {
	case steal >= half && steal > 0:
		return because(stats.CodeSteal, "the host took the processors for %v", steal)
	case g.thread.known && g.thread.delayed >= half:
		return because(stats.CodePreempted, "another thread had the processor for %v", g.thread.delayed.Round(time.Microsecond))
	case p.absent(begin, g.end) >= half:
		return because(stats.CodeStopped, "no thread of the process ran (SIGSTOP, a debugger, or the machine paused)")
	case g.thread.known && g.thread.major > 0 && g.thread.delayed < half:
		return because(stats.CodePageFault, "%d waited for a disk", g.thread.major)
	case g.thread.known && g.thread.minor > 0 && time.Duration(g.thread.minor)*p.faultTime() >= half:
		return because(stats.CodePageFault, "%d new pages of memory", g.thread.minor)
	case forced && collecting >= half:
		return because(stats.CodeCollection, "one that the program asked for was under way")
	case p.meter.Stopped(begin, g.end) >= half:
		return because(stats.CodeCollection, "all goroutines were stopped")
	case g.Spent >= half && g.Work == ring.WorkHandler && g.Several:
		return because(stats.CodeHandler, "%d completions of several sockets, the last of fd=%d%s", g.Delivered, g.Socket, besides)
	case g.Spent >= half && g.Work == ring.WorkHandler:
		return because(stats.CodeHandler, "%d completions of fd=%d%s", g.Delivered, g.Socket, besides)
	case g.Spent >= half && g.Work == ring.WorkTimers:
		return because(stats.CodeTimers, "they took %v%s", g.Spent.Round(time.Microsecond), besides)
	case g.Spent >= half && g.Work == ring.WorkPosted:
		return because(stats.CodePostedWork, "it took %v%s", g.Spent.Round(time.Microsecond), besides)
	case collecting >= half && collecting > 0:
		return because(stats.CodeCollection, "one was under way")
	}
	return unknownCause
}

// unknownCause is the cause of a gap for which nothing was found.
var unknownCause = gapCause{code: stats.CodeUnknown}

// nameGaps writes the gaps that owners have noticed into the journal, with their causes.
func (p *publication) nameGaps() {
	p.process.noteTick(time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.monitors {
		m.gaps.countDiscarded(&p.gapBudgets)
		for {
			g, ok := m.gaps.take()
			if !ok {
				break
			}
			var steal time.Duration
			if p.host != nil && g.Length >= stealLeast {
				steal = p.host.StealSince()
			}
			leftOut, ok := p.gapBudgets[gapClass(g.Length)].allows(g.end)
			if !ok {
				continue
			}
			p.noteGap(m, &g, p.process.cause(&g, steal), leftOut)
		}
	}
}

// noteGap writes a gap into the journal, with its cause. leftOut is how many like it were not written since the last one.
func (p *publication) noteGap(m *monitor, g *gapRecord, cause gapCause, leftOut int) {
	text := cause.String()
	if leftOut > 0 {
		text += fmt.Sprintf("; %d more like it were left out", leftOut)
	}
	p.file.Write(&stats.JournalEntry{Kind: stats.EventPollGap, Of: m.block, Count: uint64(g.Length), Name: m.poller.name, Code: cause.code, Text: text,
		Time: g.end.UnixNano(), Earliest: g.end.Add(-g.Length).UnixNano()})
}

// stealLeast is the shortest gap for which the host's steal is asked: the kernel counts it in hundredths of a second.
const stealLeast = 10 * time.Millisecond

// addMonitor adds a poller to those whose gaps nameGaps writes.
func (p *publication) addMonitor(m *monitor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.monitors == nil {
		p.monitors = map[*monitor]struct{}{}
	}
	p.monitors[m] = struct{}{}
}

// removeMonitor removes a poller that is closed; the poller's owner calls it. Gaps of it that nameGaps has not written yet are written with an
// unknown cause: only the statistics' goroutine knows causes, with its next tick, and the poller's block is closed before.
func (p *publication) removeMonitor(m *monitor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.monitors, m)
	m.gaps.countDiscarded(&p.gapBudgets)
	for {
		g, ok := m.gaps.take()
		if !ok {
			break
		}
		if leftOut, ok := p.gapBudgets[gapClass(g.Length)].allows(g.end); ok {
			p.noteGap(m, &g, unknownCause, leftOut)
		}
	}
	m.thread.close()
}
