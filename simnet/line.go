package simnet

import (
	"fmt"
	"time"
)

// Line is one direction of a cable. It belongs to its world's goroutine.
type Line struct {
	world *World
	name  string
	salt  uint64 // of its decisions
	to    socketPlace
	m     Impairment
	bad   bool   // in a time of losses
	since uint64 // frames that had been sent when the impairment was set

	free  int64 // when the line has sent what waits for it
	last  int64 // when the last frame that keeps its order arrives
	seen  uint64
	stats LineStats

	schedule func(event) // World.push
	taps     [2]int      // interfaces of the capture
}

// socketPlace is where a line ends: a network card, a raw end, an interface of a machine with a kernel, or a port of a switch.
type socketPlace struct {
	nic    *NIC
	raw    *RawEnd
	kernel *KernelNIC
	sw     *Switch
	port   int
}

// LineStats are totals of a line. Sent + Duplicated = Arrived + all of Lost + InFlight, which the world checks.
type LineStats struct {
	Sent, Bytes, Duplicated         uint64
	Arrived, InFlight               uint64
	Reordered, Corrupted, Shortened uint64
	Lost                            [NumCauses]uint64
}

// Losses returns the number of frames lost, for all causes.
func (s *LineStats) Losses() (n uint64) {
	for _, x := range s.Lost {
		n += x
	}
	return n
}

// Name is the line's, such as "a.eth0>lan".
func (l *Line) Name() string { return l.name }

// Stats are the totals so far.
func (l *Line) Stats() LineStats { return l.stats }

// Impairment is what the line does now.
func (l *Line) Impairment() Impairment { return l.m }

// Set changes what the line does to the frames that are sent from now on; those on their way are not touched.
func (l *Line) Set(m Impairment) error {
	if err := m.check(); err != nil {
		return err
	}
	if m.ReorderBy == 0 {
		m.ReorderBy = time.Millisecond
	}
	l.m, l.bad, l.since = m, false, l.stats.Sent
	if m.Rate == 0 {
		l.free = 0
	}
	return nil
}

// The salts keep the decisions about one frame independent.
const (
	saltLoss = iota + 1
	saltBurst
	saltBurstLoss
	saltDuplicate
	saltReorder
	saltCorrupt
	saltTruncate
	saltJitter
	saltPlace
)

// random returns a number for one decision about the frame that was sent last; salt says which decision. It depends on the seed, the line and
// the frame's number alone.
func (l *Line) random(salt uint64) uint64 { return splitmix(l.salt ^ l.stats.Sent<<8 ^ salt) }

func (l *Line) chance(p float64, salt uint64) bool {
	return p > 0 && float64(l.random(salt)>>11)*(1.0/(1<<53)) < p
}

// send sends a frame on the line, which owns the reference: it may lose, delay, duplicate, reorder or corrupt it, and schedules its arrival.
func (l *Line) send(f *frame) {
	w, m := l.world, &l.m
	l.stats.Sent++
	l.stats.Bytes += uint64(len(f.b))
	w.noteFrame(traceSent, l, f)
	w.writeTap(l.taps[0], f.b)
	if why, lost := l.loses(f); lost {
		l.stats.Lost[why]++
		w.note(traceLost, uint64(why))
		if w.log != nil {
			w.logf("%s: %d bytes of %v lost [%v]", l.name, len(f.b), f.kind, why)
		}
		w.releaseFrame(f)
		return
	}
	at := max(w.now, l.free)
	if m.Rate > 0 {
		at += int64(len(f.b)) * 8 * int64(time.Second) / m.Rate
		l.free = at
	}
	f = l.corrupt(f)
	at += int64(m.Delay)
	if m.Jitter > 0 {
		at += int64(l.random(saltJitter) % uint64(m.Jitter))
	}
	e := event{at: max(at, l.last), kind: evArrival, order: l.stats.Sent, line: l, frame: f}
	if l.chance(m.Reorder, saltReorder) {
		l.stats.Reordered++
		e.at, e.late = e.at+int64(m.ReorderBy), true
	} else {
		l.last = e.at
	}
	l.stats.InFlight++
	if l.chance(m.Duplicate, saltDuplicate) {
		l.stats.Duplicated++
		l.stats.InFlight++
		f.refs++
		l.schedule(e)
		e.twin = true
	}
	l.schedule(e)
}

// loses decides whether the frame is lost, and why.
func (l *Line) loses(f *frame) (why Cause, lost bool) {
	m := &l.m
	hit := m.Kinds == 0 || m.Kinds&f.kind != 0
	switch {
	case m.Down:
		return LostDown, true
	case m.MTU > 0 && len(f.b) > m.MTU+14:
		return LostMTU, true
	case m.Lose&f.kind != 0:
		return LostKind, true
	case m.Nth > 0 && hit && (l.stats.Sent-l.since)%m.Nth == 0:
		return LostNth, true
	}
	if l.bad {
		l.bad = !l.chance(m.BurstEnd, saltBurst)
	} else {
		l.bad = l.chance(m.BurstBegin, saltBurst)
	}
	switch {
	case l.bad && hit && l.chance(m.BurstLoss, saltBurstLoss):
		return LostBurst, true
	case hit && l.chance(m.Loss, saltLoss):
		return LostRandom, true
	case m.Rate > 0 && m.Queue > 0 && l.queuedBytes()+len(f.b) > m.Queue:
		return LostQueue, true
	}
	return 0, false
}

// queuedBytes returns how many bytes wait because the line's rate does not let them leave yet.
func (l *Line) queuedBytes() int {
	if l.free <= l.world.now {
		return 0
	}
	return int(float64(l.free-l.world.now) * float64(l.m.Rate) / (8 * float64(time.Second)))
}

// corrupt flips a bit of the frame or cuts it. A frame is corrupted once on its way at most: the checksums of IP, UDP, ICMP and IGMP always
// detect one flipped bit, while two may cancel each other out.
func (l *Line) corrupt(f *frame) *frame {
	m := &l.m
	switch {
	case f.spoiled != whole:
	case l.chance(m.Corrupt, saltCorrupt):
		l.stats.Corrupted++
		f = l.world.unshared(f)
		bit := l.random(saltPlace) % uint64(len(f.b)*8)
		f.b[bit/8] ^= 1 << (bit % 8)
		f.spoiled = int32(bit / 8)
	case len(f.b) > 15 && l.chance(m.Truncate, saltTruncate):
		l.stats.Shortened++
		f = l.world.unshared(f)
		f.b = f.b[:14+l.random(saltPlace)%uint64(len(f.b)-14)]
		f.spoiled = cut
	}
	return f
}

// arrive gives a frame to the station at the line's end.
func (l *Line) arrive(e *event) {
	w := l.world
	l.stats.Arrived++
	l.stats.InFlight--
	switch {
	case e.late:
	case e.order < l.seen:
		w.fail(fmt.Errorf("simnet: order: %s: frame %d arrives behind frame %d and was not reordered", l.name, e.order, l.seen))
	case e.order == l.seen && !e.twin:
		w.fail(fmt.Errorf("simnet: duplicate: %s: frame %d arrives twice and was not duplicated", l.name, e.order))
	default:
		l.seen = e.order
	}
	w.noteFrame(traceArrived, l, e.frame)
	w.writeTap(l.taps[1], e.frame.b)
	switch {
	case l.to.nic != nil:
		l.to.nic.arrive(e.frame)
	case l.to.raw != nil:
		l.to.raw.arrive(e.frame)
	case l.to.kernel != nil:
		l.to.kernel.arrive(e.frame)
	default:
		l.to.sw.forward(l.to.port, e.frame)
	}
}
