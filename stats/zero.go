package stats

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"
)

// ZeroRequest says what "zero" is about. Sources never go back: a baseline is stored beside the counters, and every view subtracts it.
type ZeroRequest struct {
	Sockets []uint64 `json:"sockets,omitempty"` // ids of sockets; empty: all of them
	Undo    bool     `json:"undo,omitempty"`    // the baseline becomes zero again
}

// zero is the handler of the request.
func (f *File) zero(with json.RawMessage, _ io.Writer) error {
	var q ZeroRequest
	if len(with) > 0 {
		if err := json.Unmarshal(with, &q); err != nil {
			return fmt.Errorf("zero: %w", err)
		}
	}
	f.Zero(q)
	return nil
}

// Zero stores the totals as they are now as the baseline that views subtract. Any goroutine.
func (f *File) Zero(q ZeroRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sections {
		rows := s.layout.rows()
		for _, b := range s.blocks[:s.used+1] {
			if b == nil || s.layout.Name == Sockets && len(q.Sockets) > 0 && b.index > 0 && !slices.Contains(q.Sockets, b.words[blockID]) {
				continue
			}
			if s.layout.Names > 0 {
				b.namedRows() // the baselines that are there move to the places of their names first
				if q.Undo {
					clear(b.baselineOf) // also of names that the block does not have now
				}
			}
			for i := range b.counters {
				var v uint64
				if !q.Undo && (s.layout.Names > 0 || rows[i] != nil && rows[i].Type == Total) {
					v = atomic.LoadUint64(&b.counters[i])
				}
				atomic.StoreUint64(&b.baseline[i], v)
			}
		}
	}
	now := uint64(time.Now().UnixNano())
	if q.Undo {
		now = 0
	}
	atomic.StoreUint64(&f.head[headZeroed], now)
	f.Note(EventZero, nil, uint64(len(q.Sockets)), "a baseline was stored: views subtract it")
}
