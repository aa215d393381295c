package replay

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is the packets From to To of a line, counted from 1, both included. To 0 is without end.
type Span struct{ From, To uint64 }

// Has reports whether i is in the span; the zero Span is empty.
func (s Span) Has(i uint64) bool { return s.From != 0 && i >= s.From && (s.To == 0 || i <= s.To) }

// ParseSpan reads "from-to" or "from-".
func ParseSpan(text string) (s Span, err error) {
	from, to, ok := strings.Cut(text, "-")
	bad := fmt.Errorf("span %q: want FROM-TO or FROM-, counted from 1", text)
	if s.From, err = strconv.ParseUint(from, 10, 64); err != nil || !ok || s.From == 0 {
		return s, bad
	}
	if to != "" {
		if s.To, err = strconv.ParseUint(to, 10, 64); err != nil || s.To < s.From {
			return s, bad
		}
	}
	return s, nil
}

// Impairment is how lines are spoiled. Line A is 0, B is 1. Rates are in packets of 10,000. Everything is a pure
// function of the seed, the line and the packet's number on the line, counted from 1, so that a checker can compute it
// again.
type Impairment struct {
	Seed      uint64
	Loss      [2]uint32
	Duplicate [2]uint32
	Reorder   [2]uint32 // the packet comes after its successor
	Truncate  [2]uint32 // half of the packet comes
	Foreign   [2]uint32 // a packet of somebody else comes before it
	Both      []Span    // lost on both lines
	BurstLen  uint64    // of every BurstGap packets so many in a row are lost; on B half a period later
	BurstGap  uint64
	Dead      [2]Span          // the line is silent
	Delay     [2]time.Duration // later than the capture says; without effect at full speed
	Jitter    [2]time.Duration // up to so much more
	Recut     [2]bool          // the line cuts the same messages into other packets (IEX-TP, MoldUDP64)
	SessionAt uint64           // from this packet on the session is another one, and sequence numbers begin with 1
	RestartAt uint64           // from this packet on sequence numbers begin with 1 in the same session
}

// The salts that keep the decisions about one packet independent; loss has none, as documented for checkers.
const (
	saltDuplicate = 0x1000 + iota
	saltReorder
	saltTruncate
	saltForeign
	saltJitter
)

// SplitMix64 is Steele, Lea and Flood's generator as a function of its state; SplitMix64(0) is 0xe220a8397b1dcdaf.
func SplitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Random is the number that decides about packet i of a line.
func Random(seed uint64, line int, i uint64) uint64 {
	return SplitMix64(seed*0x9e3779b97f4a7c15 + uint64(line)*0xd1b54a32d192ed03 + i)
}

func (m *Impairment) roll(salt uint64, line int, i uint64, rate [2]uint32) bool {
	return rate[line] > 0 && Random(m.Seed+salt, line, i)%10_000 < uint64(rate[line])
}

// Dropped reports whether packet i of a line is lost.
func (m *Impairment) Dropped(line int, i uint64) bool {
	if m.roll(0, line, i, m.Loss) || m.Dead[line].Has(i) {
		return true
	}
	for _, s := range m.Both {
		if s.Has(i) {
			return true
		}
	}
	return m.BurstGap > 0 && (i+uint64(line)*m.BurstGap/2)%m.BurstGap < m.BurstLen
}

// late is how much later than it should packet i of a line comes.
func (m *Impairment) late(line int, i uint64) time.Duration {
	d := m.Delay[line]
	if j := m.Jitter[line]; j > 0 {
		d += time.Duration(Random(m.Seed+saltJitter, line, i) % uint64(j))
	}
	return d
}

// out is a packet to send.
type out struct {
	at   time.Duration // since the beginning
	n    uint64        // order among equals
	line int
	i    uint64
	b    []byte
}

// spoiler turns the packets of one line into what is sent of them.
type spoiler struct {
	m       *Impairment
	line    int
	i       uint64
	held    []out // reordered: waits for the next one
	cut     *recutter
	Dropped uint64
}

// take gives the packets to send for one of the capture.
func (s *spoiler) take(at time.Duration, b []byte, emit func(out)) {
	if s.cut != nil {
		s.cut.take(b, func(b []byte) { s.one(at, b, emit) })
		return
	}
	s.one(at, b, emit)
}

// one applies the impairments to one packet and calls emit for what is left of it.
func (s *spoiler) one(at time.Duration, b []byte, emit func(out)) {
	s.i++
	i := s.i
	if s.m.Dropped(s.line, i) {
		s.Dropped++
		return
	}
	at += s.m.late(s.line, i)
	if s.m.roll(saltForeign, s.line, i, s.m.Foreign) {
		emit(out{at: at, line: s.line, i: i, b: []byte("not of this feed")})
	}
	if s.m.roll(saltTruncate, s.line, i, s.m.Truncate) {
		emit(out{at: at, line: s.line, i: i, b: append([]byte(nil), b[:len(b)/2]...)})
		s.Dropped++
		return
	}
	o := out{at: at, line: s.line, i: i, b: append([]byte(nil), b...)}
	if s.m.roll(saltReorder, s.line, i, s.m.Reorder) {
		s.held = append(s.held, o)
		return
	}
	emit(o)
	for _, h := range s.held {
		h.at = max(h.at, at)
		emit(h)
	}
	s.held = s.held[:0]
	if s.m.roll(saltDuplicate, s.line, i, s.m.Duplicate) {
		emit(o)
	}
}

// flush gives what is still held.
func (s *spoiler) flush(at time.Duration, emit func(out)) {
	if s.cut != nil {
		s.cut.flush(func(b []byte) { s.one(at, b, emit) })
	}
	for _, h := range s.held {
		emit(h)
	}
	s.held = s.held[:0]
}

// ParsePair reads "A,B" or one number for both.
func ParsePair(text string) (p [2]uint32, err error) {
	a, b, two := strings.Cut(text, ",")
	if !two {
		b = a
	}
	for i, t := range []string{a, b} {
		v, err := strconv.ParseUint(t, 10, 32)
		if err != nil || v > 10_000 {
			return p, fmt.Errorf("rate %q: want packets of 10,000, as A,B or one number for both", text)
		}
		p[i] = uint32(v)
	}
	return p, nil
}

// put64 and get64 are for the packets' little-endian headers.
func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }
func get64(b []byte) uint64    { return binary.LittleEndian.Uint64(b) }
