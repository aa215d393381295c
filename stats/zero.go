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
		fixed := s.layout.rows()
		for _, b := range s.blocks[:s.used+1] {
			if b == nil || s.layout.Name == Sockets && len(q.Sockets) > 0 && b.index > 0 && !slices.Contains(q.Sockets, b.words[blockID]) {
				continue
			}
			rows := fixed
			if s.layout.Names > 0 {
				rows = b.namedRows() // the baselines that are there move to the places of their names first
				if q.Undo {
					clear(b.baselineOf) // also of names that the block does not have now
				}
			}
			for i := range b.counters {
				var v uint64
				if !q.Undo && i < len(rows) && isTotal(s.layout, rows[i]) {
					v = atomic.LoadUint64(&b.counters[i])
				}
				atomic.StoreUint64(&b.baseline[i], v)
			}
			if s.layout.Name == Pollers && !q.Undo {
				b.zeroSleep(rows)
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

// isTotal reports that a counter has a baseline. One that a driver named and no table has is taken for a total; a word without a row that the
// section's table does not name belongs to the row before it.
func isTotal(l *SectionLayout, row *Counter) bool {
	return row == nil && l.Names > 0 || row != nil && row.Type == Total
}

// zeroSleep puts what has passed of the sleep under way into the baseline: the poller adds the whole of it when it ends. A sleep that
// begins or ends meanwhile is looked at again.
func (b *Block) zeroSleep(rows []*Counter) {
	place := func(name string) int {
		return slices.IndexFunc(rows, func(row *Counter) bool { return row != nil && row.Name == name })
	}
	slept, since := place("sleep_time"), &b.counters[place("asleep_since")]
	for {
		begin := atomic.LoadUint64(since)
		v := atomic.LoadUint64(&b.counters[slept])
		if now := uint64(time.Now().UnixNano()); begin != 0 && now > begin {
			v += now - begin
		}
		if atomic.LoadUint64(since) == begin {
			atomic.StoreUint64(&b.baseline[slept], v)
			return
		}
	}
}
