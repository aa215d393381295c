package stats

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tick         = 10 * time.Millisecond // how exact the times of drops are in the journal
	ticksPerTurn = 100                   // ticks between samples
	onsetPause   = time.Second           // a counter that has not grown for so long does not grow any more
)

// The words in front of a sample's columns.
const (
	sampleSequence = iota // 1 + its number: 0 while it is written
	sampleTime            // its end, wall-clock nanoseconds
	sampleInterval        // nanoseconds since the one before
	sampleHeader
)

// sampler is a goroutine of the file. Each second it takes a sample; each tick it writes the counters of losses that have grown into the
// journal.
type sampler struct {
	file    *File
	onTick  atomic.Pointer[func(second bool)]
	turn    int          // of steps
	ticked  [2]int64     // when the step before was, and the one before that; 0: there was none. With the file's lock
	steady  func() int64 // nanoseconds by a clock that nobody sets; nil: the times of steps
	last    int64        // end of the last sample, by steady
	ended   uint64       // the interval that has ended: the epoch of peaks in the next sample
	columns []column
	stop    chan struct{}
	done    sync.WaitGroup
}

// column is where a column of a sample comes from.
type column struct {
	section *section
	row     *Counter
	word    int // of the block's counters; of drivers: none
}

// startSampler makes the sampler of a file and starts its goroutine.
func startSampler(f *File) *sampler {
	begin := time.Now()
	s := newSampler(f, begin.UnixNano())
	s.steady = func() int64 { return begin.UnixNano() + int64(time.Since(begin)) }
	s.done.Go(s.run)
	return s
}

// newSampler makes a sampler without its goroutine, for tests that call step. Its columns are in the order of sampleColumns.
func newSampler(f *File, now int64) *sampler {
	s := &sampler{file: f, last: now, stop: make(chan struct{})}
	for i := range f.desc.Sections {
		l := &f.desc.Sections[i]
		if l.Name == Host {
			continue
		}
		at := 0
		for j := range l.Counters {
			if row := &l.Counters[j]; row.Name != "" {
				s.columns = append(s.columns, column{f.sections[l.Name], row, at})
			}
			at += l.Counters[j].Words()
		}
	}
	return s
}

func (s *sampler) close() {
	close(s.stop)
	s.done.Wait()
}

// run is the goroutine: it calls step each tick until close.
func (s *sampler) run() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C: // with the time of the tick, which on a busy machine is long ago
			s.step(time.Now().UnixNano())
		}
	}
}

// OnTick has f called a hundred times a second by the sampler's goroutine, once a second with true: to ask owners for what they store only
// then.
func (f *File) OnTick(do func(second bool)) { f.sampler.onTick.Store(&do) }

// step is one turn.
//
//	turn   …        99            0              1 …
//	            drops        drops           drops
//	                         next interval   sample of the last one: its peaks do not move any more
func (s *sampler) step(now int64) {
	f := s.file
	atomic.StoreUint64(&f.head[headTick], uint64(now))
	s.eachBlock(s.lookAtTime(now))
	f.mu.Lock()
	s.ticked = [2]int64{now, s.ticked[0]}
	f.mu.Unlock()
	switch s.turn % ticksPerTurn {
	case 0:
		s.ended = f.head[headEpoch]
		atomic.StoreUint64(&f.head[headEpoch], s.ended+1)
	case 1:
		s.sample(now)
	}
	if do := s.onTick.Load(); do != nil {
		(*do)(s.turn%ticksPerTurn == 0)
	}
	s.turn++
}

// eachBlock calls do for each open block, with the lock held for one at a time.
func (s *sampler) eachBlock(do func(*Block)) {
	for i := range s.file.desc.Sections {
		x := s.file.sections[s.file.desc.Sections[i].Name]
		for j := 1; j < len(x.blocks); j++ {
			s.file.mu.Lock()
			if j > x.used {
				s.file.mu.Unlock()
				break
			}
			if b := x.blocks[j]; b != nil {
				do(b)
			}
			s.file.mu.Unlock()
		}
	}
}

// lookAtTime is findLosses for eachBlock.
func (s *sampler) lookAtTime(now int64) func(*Block) {
	return func(b *Block) { s.findLosses(b, now) }
}

// lookAt is findLosses at the present time, for a block that is being closed; nothing while the file has no sampler yet. With the lock.
func (s *sampler) lookAt(b *Block) {
	if s == nil {
		return
	}
	s.findLosses(b, time.Now().UnixNano())
	if !b.growing {
		return
	}
	at := 0
	for i := range b.section.layout.Counters {
		row := &b.section.layout.Counters[i]
		if row.onset {
			s.endOnset(b, at, row)
		}
		at += row.Words()
	}
}

// findLosses compares a block's counters of losses with what they were at the last call, and writes an EventDrop for each that has grown. With
// the lock. What was lost since the step before gets the time in the middle. Counters that a block names are those of drivers, which store them
// when a step asks for it, and say when they looked (Block.BeginLook): there the loss is between two of these looks. What their totals grow by
// is added to the sums of the section.
func (s *sampler) findLosses(b *Block, now int64) {
	l := b.section.layout
	if l.Names > 0 {
		done := b.lookDone.Load() // before the counters are read: what was stored until then is seen
		for i, row := range b.namedRows() {
			v := atomic.LoadUint64(&b.counters[i])
			if b.rowsVersion&1 != 0 || atomic.LoadUint64(&b.words[blockInfo]) != b.rowsVersion {
				return // the owner writes names: the next turn looks at the counters
			}
			if v != b.last[i] {
				if row != nil && row.Type == Total && v > b.last[i] && b.section.grown != nil {
					b.section.grown[row] += v - b.last[i]
				}
				if row != nil && row.Loss && v > b.last[i] {
					since, until := b.looked, b.lookBegan.Load()
					if until == 0 { // the owner does not say
						since, until = s.ticked[1], or(s.ticked[0], now)
					}
					s.noteDrop(b, v-b.last[i], b.name(i), row, since, until)
				}
				b.last[i] = v
			}
		}
		b.looked = done
		return
	}
	if b.last == nil {
		b.last = make([]uint64, l.Width)
	}
	at := 0
	for i := range l.Counters {
		row := &l.Counters[i]
		if row.Loss {
			if v := atomic.LoadUint64(&b.counters[at]); v > b.last[at] {
				s.noteDrop(b, v-b.last[at], row.Name, row, s.ticked[0], now)
				b.last[at] = v
			}
		}
		if row.onset {
			s.lookForOnset(b, at, row, s.ticked[0], now)
		}
		at += row.Words()
	}
}

// noteDrop writes an EventDrop for a counter, by its name in the block, that grew between two times; the first one is 0 if it is not known.
// Those of sockets are stored some tenths of a second after they have grown: of them the times are not known better.
func (s *sampler) noteDrop(b *Block, n uint64, name string, row *Counter, since, until int64) {
	of, _ := strings.CutSuffix(name, row.Name)
	x := JournalEntry{Kind: EventDrop, Of: b, Count: n, Name: strings.TrimSuffix(of, "."), Code: row.Name, Text: name, Time: between(since, until)}
	if b.section.layout.Name != Sockets {
		x.Earliest, x.Latest, x.End = since, until, until
	}
	s.file.Write(&x)
}

// between is the middle of the times of two looks; without the first one it is the second. Of looks that are far apart, because the process or
// its owner did not run, it is the second one too: what was lost meanwhile is noted behind the gap that it is from.
func between(from, to int64) int64 {
	if from == 0 || to-from > 3*int64(tick) {
		return to
	}
	return from + (to-from)/2
}

// lookForOnset writes an event when a counter begins to grow between two looks, and one when it has not grown for onsetPause: its time is that
// of the last growth, its count how much the counter has grown from the onset on.
func (s *sampler) lookForOnset(b *Block, at int, row *Counter, since, until int64) {
	now := between(since, until)
	switch v := atomic.LoadUint64(&b.counters[at]); {
	case v > b.last[at]:
		if !b.growing {
			b.growing, b.onsetValue = true, b.last[at]
			s.file.Write(&JournalEntry{Kind: EventPath, Of: b, Count: v - b.last[at], Name: row.Name, Code: CodeBegan, Text: row.Name, Time: now,
				Earliest: since, Latest: until})
		}
		b.last[at], b.grown = v, now
	case b.growing && now-b.grown > int64(onsetPause):
		s.endOnset(b, at, row)
	}
}

// endOnset writes the event with which a counter's growth ends.
func (s *sampler) endOnset(b *Block, at int, row *Counter) {
	b.growing = false
	s.file.Write(&JournalEntry{Kind: EventPath, Of: b, Count: b.last[at] - b.onsetValue, Name: row.Name, Code: CodeEnded, Text: row.Name + " ended",
		Time: b.grown})
}

// name is the name of counter i, of a block that names its counters.
func (b *Block) name(i int) string {
	l := b.section.layout
	place := b.info[i*l.Names : (i+1)*l.Names]
	return string(place[1 : 1+min(int(place[0]), l.Names-1)])
}

// namedRows are the rows of the counters that the block names, nil for those that the table does not have. When names have changed, the
// values of last and the baselines move to the places of their names. With the lock.
func (b *Block) namedRows() []*Counter {
	version, n := atomic.LoadUint64(&b.words[blockInfo]), min(int(atomic.LoadUint64(&b.words[blockCount])), b.section.layout.Width)
	if b.rowsVersion != version || len(b.rows) != n {
		if b.last == nil {
			b.last, b.lastOf, b.baselineOf = make([]uint64, b.section.layout.Width), map[string]uint64{}, map[string]uint64{}
		}
		for i, name := range b.rowNames {
			b.lastOf[name], b.baselineOf[name] = b.last[i], b.baseline[i]
		}
		b.rows, b.rowNames, b.rowsVersion = b.rows[:0], b.rowNames[:0], version
		for i := range n {
			name := b.name(i)
			b.rows, b.rowNames = append(b.rows, b.section.layout.Find(name)), append(b.rowNames, name)
			b.last[i] = b.lastOf[name]
			atomic.StoreUint64(&b.baseline[i], b.baselineOf[name])
		}
		if b == b.file.host { // its names keep their places, and a place that was taken away does not come back
			clear(b.lastOf)
			clear(b.baselineOf)
		}
	}
	return b.rows
}

// sample writes the sample of the interval that has ended.
func (s *sampler) sample(now int64) {
	f := s.file
	n := f.head[headSamples]
	at := f.desc.Samples.Offset + int(n%sampleCount)*f.desc.Samples.Words
	w := f.words[at : at+f.desc.Samples.Words]
	atomic.StoreUint64(&w[sampleSequence], 0)
	clear(w[sampleHeader:])
	for i := range s.columns {
		w[sampleHeader+i] = s.sum(&s.columns[i])
	}
	s.copyLinkCounters()
	for i := range f.host.counters {
		w[sampleHeader+len(s.columns)+i] = atomic.LoadUint64(&f.host.counters[i])
	}
	end := now
	if s.steady != nil {
		end = s.steady()
	}
	w[sampleTime], w[sampleInterval] = uint64(now), uint64(end-s.last)
	s.last = end
	atomic.StoreUint64(&w[sampleSequence], n+1)
	atomic.StoreUint64(&f.head[headSamples], n+1)
}

// copyLinkCounters copies the counters of links and of steering programs, which are named with their interface and queue, from the blocks of
// drivers to the host's block: a sample has each counter of that block by itself, and of drivers sums only. The host's block keeps the last
// values of a ring that was closed. A counter that is zero takes no place there.
func (s *sampler) copyLinkCounters() {
	f := s.file
	x := f.sections[Drivers]
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range x.blocks[1 : x.used+1] {
		if b == nil {
			continue
		}
		for i, row := range b.namedRows() {
			if row == nil || !row.ofLink {
				continue
			}
			if v := atomic.LoadUint64(&b.counters[i]); v > 0 {
				f.storeHost(b.name(i), v, ofDriver)
			}
		}
	}
}

// sum is a column over all blocks, those that were closed included: of one moment, so that sums of totals never go back. Of counters that
// drivers name it is what they had grown by at the last turn of findLosses.
func (s *sampler) sum(c *column) (sum uint64) {
	f, l := s.file, c.section.layout
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case c.row.Type != Total:
	case l.Names > 0:
		return c.section.grown[c.row]
	default:
		sum = c.section.blocks[0].counters[c.word]
	}
	for _, b := range c.section.blocks[1 : c.section.used+1] {
		switch {
		case b == nil:
		case l.Names > 0:
			for i, row := range b.namedRows() {
				if row == c.row {
					sum += atomic.LoadUint64(&b.counters[i])
				}
			}
		case c.row.Type == Peak:
			sum = max(sum, peakOf(b.counters[c.word:c.word+PeakWords], s.ended))
		default:
			sum += atomic.LoadUint64(&b.counters[c.word])
		}
	}
	return sum
}

// peakOf is a peak's value in an interval.
func peakOf(words []uint64, epoch uint64) uint64 {
	pair := words[2*(epoch&1):]
	if atomic.LoadUint64(&pair[0]) != epoch {
		return 0
	}
	return atomic.LoadUint64(&pair[1])
}
