package ring

import (
	"sync/atomic"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Loop is what the rings that one goroutine polls have together: when it polled last, and what is counted of that. Owner only.
//
// A gap is a long time between two polls without a sleep. The processor's counter tells it. The counter is read at the end of each Poll, but for
// polls that return some completions and follow each other quickly: of those every eighth reads it (readings.go).
type Loop struct {
	page *LoopPage
	pool *buffers.Pool
	gap  func(g Gap) // is called for each gap
	readings

	// Since the counter was read last: what was delivered, and marks where other work began and ended.
	delivered uint64
	socket    int32 // the id of the last completion's; not the socket, which may be closed when the gap is noticed
	several   bool  // completions were of different sockets
	marks     int
	mark      [marksMax]struct {
		work Work
		at   uint64 // ticks
	}

	total         uint64 // buffers
	measuresSleep bool
	armed         clock.Time // when the first ring was armed that has not been polled since; 0: none, or nothing is measured
}

// Work is what a polling goroutine does between two polls, as far as it is told (Loop.Mark).
type Work uint8

// The kinds of work.
const (
	WorkUnknown Work = iota // what else the program does; also what follows work that has ended
	WorkHandler             // it handles completions
	WorkTimers              // it runs timers
	WorkPosted              // it runs functions that other goroutines have posted
)

// marksMax is how many marks are kept between two readings; more are left out.
const marksMax = 8

// Gap is a long time between two polls without a sleep.
type Gap struct {
	Length    time.Duration
	Ago       time.Duration // since its end: some polls may follow before it is sure
	Work      Work          // on which most of it was spent
	Spent     time.Duration // on that
	Delivered uint64        // completions before it
	Socket    int           // the id of the last one's socket
	Several   bool          // they were of more than one socket
}

// LoopPage is what is counted of a loop, in memory that other processes may read: 64-bit words alone.
type LoopPage struct {
	Gaps, GapTime uint64
	GapsBelow     [8]uint64 // by length: see gapLimits
	SleepTime     uint64
	NoBuffer      uint64 // these three are copied by the owner of the loop, some times a second
	Buffers       uint64
	BuffersUsed   uint64
	MeasuresSleep uint64
	AsleepSince   uint64 // when the sleep under way began, in nanoseconds since 1970; 0: it is awake, or sleeps are not measured

	Gap             Peak
	BuffersUsedPeak Peak

	States BufferStates // by SampleBuffers, which the owner does not call
}

// BufferStates is how many buffers of a pool are in each state: buffers.Ledger without its sum.
type BufferStates struct {
	BuffersFree, BuffersFilling, BuffersReceived, BuffersHeld, BuffersLent uint64
	BuffersTransmitting, BuffersUnacknowledged, BuffersCompleting          uint64
}

// gapLeast is the shortest time between two polls that is a gap.
const gapLeast = 100 * time.Microsecond

// gapLimits are the upper limits of LoopPage.GapsBelow, but for the last one, which has none.
var gapLimits = [...]time.Duration{200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}

// NewLoop makes a loop that counts in page, and calls gap for each gap. With measuresSleep it counts how long Wait sleeps, and the time from Arm
// to the next Poll (VMA_CPU_USAGE_STATS).
func NewLoop(page *LoopPage, pool *buffers.Pool, measuresSleep bool, gap func(g Gap)) *Loop {
	layout := pool.Layout()
	l := &Loop{page: page, pool: pool, total: uint64(layout.SmallCount + layout.LargeCount), gap: gap, measuresSleep: measuresSleep}
	l.calibrate(clock.TicksIn(gapLeast))
	page.Buffers = l.total
	if measuresSleep {
		page.MeasuresSleep = 1
	}
	return l
}

// Refresh copies what is counted of the pool, and measures the speed of the processor's counter once more. epoch is the interval of peaks: polls
// note the most buffers in use only when they return completions, and without a free buffer none come. Owner only.
func (l *Loop) Refresh(epoch uint64) {
	l.page.BuffersUsed, l.page.NoBuffer = l.usedBuffers(), l.pool.Stats().Exhausted
	l.page.BuffersUsedPeak.note(epoch, l.page.BuffersUsed)
	l.calibrate(clock.TicksIn(gapLeast))
}

// SampleBuffers stores how many buffers are in each state. It is called by one goroutine of the statistics, once a second, also while the owner
// hangs: no Poll pays for it.
func (l *Loop) SampleBuffers() {
	n, to := l.pool.SampleLedger(), &l.page.States
	for _, x := range []struct {
		to *uint64
		n  int
	}{{&to.BuffersFree, n.Free}, {&to.BuffersFilling, n.Filling}, {&to.BuffersReceived, n.Received}, {&to.BuffersHeld, n.Held}, {&to.BuffersLent, n.Lent},
		{&to.BuffersTransmitting, n.Transmitting}, {&to.BuffersUnacknowledged, n.Unacknowledged}, {&to.BuffersCompleting, n.Completing}} {
		atomic.StoreUint64(x.to, uint64(x.n))
	}
}

// usedBuffers are the buffers that are neither free nor with a driver to be filled.
func (l *Loop) usedBuffers() uint64 {
	return l.total - uint64(l.pool.Available(buffers.Small)+l.pool.Available(buffers.Large))
}

// Mark says what the goroutine does from now on, until the next mark or the end of the next Poll. Owner only; nothing for a nil Loop.
func (l *Loop) Mark(w Work) {
	if l != nil && l.marks < marksMax && (l.marks == 0 || l.mark[l.marks-1].work != w) {
		l.mark[l.marks].work, l.mark[l.marks].at = w, clock.Ticks()
		l.marks++
		l.readNext() // then the marks are those of the last time between two polls
	}
}

// polled reads the counter at the end of a Poll, before its completions, n, are counted.
func (l *Loop) polled(epoch *uint64, n int) {
	now := clock.Ticks()
	past := now - l.last
	if past >= l.rare {
		l.longPast(now, *epoch, n)
		now = clock.Ticks() // the time that this takes is no part of the next gap
	} else if l.delivered > 0 {
		l.adapt(past)
	}
	l.last, l.delivered, l.marks, l.unread = now, 0, 0, 0
}

// longPast is polled where much time has passed, or a gap is suspected.
//
//	last == 0    the loop begins, or has slept
//	past < 0     the goroutine is on another processor, whose counter is behind
func (l *Loop) longPast(now, epoch uint64, n int) {
	past := now - l.last
	if l.last == 0 || int64(past) < 0 {
		l.settle(now, epoch)
		return
	}
	if l.isSuspecting() && (l.suspected.add(past, l.delivered) || past >= l.threshold) {
		l.settle(now, epoch)
	}
	switch {
	case past < l.threshold || l.unread == 0:
		l.adapt(past)
		if past >= l.threshold {
			l.countGap(l.foundGap(now), epoch)
		}
	default:
		l.suspect(l.foundGap(now), now)
		if n == 0 { // no handler is next
			l.settle(now, epoch)
		}
	}
}

// settle ends a suspicion, if there is one, with what is known now.
func (l *Loop) settle(now, epoch uint64) {
	if !l.isSuspecting() {
		return
	}
	g := l.suspected.judge(l.duration(l.suspected.ticks))
	g.Ago = l.duration(now - l.suspected.end)
	l.endSuspicion()
	if g.Length >= gapLeast {
		l.countGap(g, epoch)
	}
}

// begin begins anew: the time until the next Poll is no gap, and that Poll reads the counter.
func (l *Loop) begin(epoch uint64) {
	if l.isSuspecting() {
		l.settle(clock.Ticks(), epoch)
	}
	l.last, l.delivered, l.marks, l.unread = 0, 0, 0, 0
	l.readNext()
}

// noteDelivered is the end of a Poll that has returned completions, after polled.
func (l *Loop) noteDelivered(dst []Completion) {
	id := dst[len(dst)-1].Socket.id
	if l.delivered == 0 {
		l.several = dst[0].Socket.id != id
	} else if l.socket != id {
		l.several = true
	}
	l.delivered += uint64(len(dst))
	l.socket = id
}

// duration is a number of ticks as time.
func (l *Loop) duration(ticks uint64) time.Duration {
	return time.Duration(float64(ticks) / float64(l.threshold) * float64(gapLeast))
}

// foundGap is the time since the counter was read last as a gap that ends now, with the work on which most of it was spent.
//
//	last                 mark: timers      mark: unknown     now
//	├────── handler ─────┼───── timers ────┼──── unknown ────┤
func (l *Loop) foundGap(now uint64) Gap {
	g := Gap{Length: l.duration(now - l.last), Delivered: l.delivered}
	if l.delivered > 0 {
		g.Work, g.Socket, g.Several = WorkHandler, int(l.socket), l.several
	}
	at, work := l.last, g.Work
	var most uint64
	for i := range l.marks + 1 {
		until, next := now, WorkUnknown
		if i < l.marks {
			until, next = l.mark[i].at, l.mark[i].work
		}
		if spent := until - at; spent >= most && int64(spent) >= 0 {
			most, g.Work = spent, work
		}
		at, work = until, next
	}
	g.Spent = l.duration(most)
	return g
}

// countGap counts a gap, and reports it.
func (l *Loop) countGap(g Gap, epoch uint64) {
	l.page.Gaps++
	l.page.GapTime += uint64(g.Length)
	i := 0
	for i < len(gapLimits) && g.Length >= gapLimits[i] {
		i++
	}
	l.page.GapsBelow[i]++
	l.page.Gap.note(epoch, uint64(g.Length))
	if l.gap != nil {
		l.gap(g)
	}
}
