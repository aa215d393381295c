package offload_test

import (
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// beyond sends n bytes of a client that lie so far behind what it has sent in order.
func (w *swarm) beyond(i, distance, n int) {
	s := w.segment(i, wire.TCPAck)
	s.Seq = s.Seq.Add(distance)
	w.send(&s, text(n))
}

// Data beyond gaps that takes all buffers of the pool is discarded, so that other connections go on.
func TestDataBeyondGapsLeavesBuffers(t *testing.T) {
	w := newSwarm(t, 5, &streams.Options{})
	w.open(5)
	for k := range 1000 {
		for i := 1; i < 5; i++ {
			w.beyond(i, 1+2*k, 1)
		}
		if k%16 == 15 {
			w.flush()
			w.poll()
			w.receive()
		}
	}
	w.flush()
	for range 200 {
		w.poll()
		w.receive()
	}
	for range 10 {
		w.echo(0, text(64))
	}
	w.Positive(w.counter("tcp.reneged"))
}

// A frame of several buffers is copied into a large one. When data beyond a gap has all large buffers, what fills the gap still gets in.
func TestGapIsFilledWithoutLargeBuffers(t *testing.T) {
	const size, segments = 3000, 16 // there are 8 large buffers
	w := newSwarmMTU(t, 1, &streams.Options{}, 4000)
	w.open(1)
	for k := segments - 1; k >= 0; k-- { // the first of them last
		w.beyond(0, k*size, size)
	}
	w.flush()
	w.settle()
	for end := time.Now().Add(patience); w.got < size*segments; w.settle() {
		if time.Now().After(end) {
			w.FailNow("the gap was not filled", "%d bytes of %d came back: %v", w.got, size*segments, w.ring.Stats().Driver)
		}
		w.beyond(0, w.got, size) // as after a time-out: the first that did not come back
		w.flush()
	}
}
