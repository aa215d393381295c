package simnet

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/socketxtreme/socketxtreme/ring"
)

// The trace is a hash over everything that happens, in order: each frame that is sent, lost and arrives, with its time and its bytes, and
// each completion. Two runs with the same hash were the same.

const (
	traceSent uint64 = iota + 1
	traceLost
	traceArrived
	traceCompletion
	traceCall
)

// Hash is the trace so far. It is the same on every machine.
func (w *World) Hash() uint64 { return w.trace }

// SetLog makes the world write a line for each frame and completion to out; nil ends it. It does not change the trace.
func (w *World) SetLog(out io.Writer) { w.log = out }

func (w *World) logf(format string, args ...any) {
	if w.log != nil {
		_, _ = fmt.Fprintf(w.log, "%12.6f "+format+"\n", append([]any{w.Now().Seconds()}, args...)...) // a log that fails is no log
	}
}

func (w *World) note(what, x uint64) { w.trace = mix(mix(w.trace, what), x) }

// noteFrame adds an event of a frame to the trace's hash, and to the log; what is the kind of event.
func (w *World) noteFrame(what uint64, l *Line, f *frame) {
	h := mix(mix(w.trace, what<<32|uint64(len(f.b))), uint64(w.now))
	w.trace = hashBytes(mix(h, l.salt), f.b)
	if w.log != nil && what == traceArrived {
		w.logf("%s: %d bytes of %v", l.name, len(f.b), f.kind)
	}
}

// hashBytes adds bytes to a hash.
func hashBytes(h uint64, b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		h = mix(h, binary.LittleEndian.Uint64(b))
	}
	var rest [8]byte
	copy(rest[:], b)
	return mix(h, binary.LittleEndian.Uint64(rest[:])^uint64(len(b))<<56)
}

// noteCompletion adds a completion to the trace's hash, and to the log: its socket, events, token, user data, time, source, error and bytes.
func (w *World) noteCompletion(h *Host, c *ring.Completion) {
	t := mix(mix(w.trace, traceCompletion<<32|uint64(h.number)), uint64(w.now))
	t = mix(mix(t, uint64(c.Events)), uint64(c.Socket.ID()))
	t = mix(mix(t, c.Token), c.UserData)
	t = mix(t, uint64(c.Time.Nanos))
	if c.Source.IsValid() {
		a := c.Source.Addr().As16()
		t = mix(hashBytes(t, a[:]), uint64(c.Source.Port()))
	}
	if c.Err != nil {
		t = hashBytes(t, []byte(c.Err.Error()))
	}
	for b := range c.Packet.Segments() {
		t = hashBytes(t, b)
	}
	w.trace = t
	if w.log != nil {
		w.logf("%s: socket %d: %v, %d bytes from %v, err %v", h.name, c.Socket.ID(), c.Events, c.Packet.Len(), c.Source, c.Err)
	}
}
