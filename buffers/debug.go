package buffers

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
)

// SetDebug turns the recording of call sites on or off. While on, the places that took a packet (Alloc, Deliver, Retain,
// Lend) and that ended its handle are remembered, a stale release panics and names both, and a buffer that
// becomes free is overwritten, so that reading through a slice kept too long shows. It costs microseconds per packet
// and some kilobytes per buffer. Owner goroutine, before traffic.
func (p *Pool) SetDebug(on bool) {
	if !on {
		p.debug.Store(nil)
		return
	}
	p.debug.Store(&history{
		packets: make([]records, len(p.meta)),
		buffers: make([]records, len(p.meta)),
		loans:   make([]records, len(p.meta)),
	})
}

// poisonByte is what debug mode leaves in free buffers.
const poisonByte = 0xDB

// poison overwrites a buffer that becomes free, in debug mode.
func (p *Pool) poison(i uint32) {
	b := p.mem[p.base(i):p.end(i)]
	for j := range b {
		b[j] = poisonByte
	}
}

// history remembers who took and who ended the last few handles of each buffer, by kind of handle. The mutex is for
// Lent; debug mode may be slow.
type history struct {
	mu                      sync.Mutex
	packets, buffers, loans []records
}

// records of the last handles, at their generation modulo the length.
type records [4]record

type record struct {
	gen    uint32
	how    string // how the handle ended
	holder site
	ender  site
}

type site struct {
	n   int
	pcs [12]uintptr
}

// held records the caller as the holder. A handle that ended before is valid again (UndoTransmit, a further Lend): its end is deleted.
func (h *history) held(kind []records, i, gen uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &kind[i][gen%uint32(len(kind[i]))]
	if r.gen != gen || r.how != "" {
		*r = record{gen: gen}
	}
	r.holder.record()
}

// ended records how and where a handle was used up, or a reference of a loan released. It overwrites what an earlier call recorded for the same
// handle: callers must call it only while the handle is valid, so that a stale release finds the call that ended it.
func (h *history) ended(kind []records, i, gen uint32, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &kind[i][gen%uint32(len(kind[i]))]
	if r.gen != gen {
		*r = record{gen: gen}
	}
	r.how = how
	r.ender.record()
}

// report is the text of the panic for a stale handle: what was tried, and where the handle was taken and ended, if that is still recorded.
func (h *history) report(what string, kind []records, i, gen uint32) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := kind[i][gen%uint32(len(kind[i]))]
	if r.gen != gen {
		return fmt.Sprintf("buffers: %s: buffer %d, generation %d (too old to tell who held it)", what, i, gen)
	}
	how := r.how
	if how == "" {
		how = "ended"
	}
	return fmt.Sprintf("buffers: %s: buffer %d, generation %d\ntaken at:%v\n%s at:%v", what, i, gen, r.holder, how, r.ender)
}

func (s *site) record() { s.n = runtime.Callers(2, s.pcs[:]) }

// ownPackage is how this package's functions begin in a call stack.
var ownPackage = reflect.TypeFor[Pool]().PkgPath() + "."

// String lists the calls, from the one into this package.
func (s site) String() string {
	if s.n == 0 {
		return " (not recorded)"
	}
	var b strings.Builder
	frames := runtime.CallersFrames(s.pcs[:s.n])
	for {
		f, more := frames.Next()
		if b.Len() == 0 && strings.HasPrefix(f.Function, ownPackage) && more {
			continue
		}
		fmt.Fprintf(&b, "\n\t%s\n\t\t%s:%d", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}
