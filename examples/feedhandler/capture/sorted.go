package capture

import (
	"errors"
	"io"
)

// Sorted reads records in the order of their times, stable, through a look-ahead: captures merged from two ports are
// out of order by microseconds. A record that is late by more than the look-ahead comes when it comes.
type Sorted struct {
	r    *Reader
	ring []Record // sorted by time; payloads are copies
	n    int
	free [][]byte
	err  error
}

// NewSorted looks n records ahead.
func NewSorted(r *Reader, n int) *Sorted {
	s := &Sorted{r: r, ring: make([]Record, n+1), free: make([][]byte, 0, n+2)}
	for range n + 2 {
		s.free = append(s.free, make([]byte, 0, 2048))
	}
	return s
}

// Next gives the earliest record. Its payload is valid until the next call.
func (s *Sorted) Next(rec *Record) error {
	if rec.Payload != nil {
		s.free = append(s.free, rec.Payload[:0])
	}
	for s.err == nil && s.n < len(s.ring) {
		var next Record
		if s.err = s.r.Next(&next); s.err != nil {
			break
		}
		k := len(s.free) - 1
		next.Payload = append(s.free[k], next.Payload...)
		s.free = s.free[:k]
		i := s.n
		for ; i > 0 && s.ring[i-1].Time > next.Time; i-- {
			s.ring[i] = s.ring[i-1]
		}
		s.ring[i] = next
		s.n++
	}
	if s.n == 0 {
		if errors.Is(s.err, io.EOF) {
			return io.EOF
		}
		return s.err
	}
	*rec = s.ring[0]
	copy(s.ring, s.ring[1:s.n])
	s.n--
	return nil
}
