package offload_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
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
		w.beyond(0, size*segments, 0) // acknowledges what came back: behind all data, because what lies in front of the window is not looked at
		w.beyond(0, w.got, size)      // as after a time-out: the first that did not come back
		w.flush()
	}
}

// What is queued to be sent leaves buffers for what comes: without one no acknowledgement arrives, which alone would free those of the queues.
func TestQueuedDataLeavesBuffers(t *testing.T) {
	for _, reserve := range []int{0, 256} {
		t.Run(fmt.Sprintf("%d of 2048 for sending", reserve), func(t *testing.T) {
			const clients = 40
			w := newSwarm(t, clients, &streams.Options{})
			w.NoError(w.pool.SetReserve(buffers.Small, reserve))
			w.open(clients)
			var servers []*ring.Socket
			w.NoError(w.ring.EachSocket(func(s *ring.Socket) {
				if s.Kind() == ring.KindStream {
					servers = append(servers, s)
				}
			}))
			w.Len(servers, clients)
			w.holds = true // nothing is acknowledged
			queued, piece := 0, text(1<<16)
			for range 20 {
				for _, s := range servers {
					n, err := s.Send(piece)
					if queued += n; err != nil {
						w.ErrorIs(err, ring.ErrWouldBlock)
					}
				}
				w.poll()
				w.receive()
			}
			w.Greater(queued, 1<<21)
			w.holds = false
			for end := time.Now().Add(patience); w.got < queued; w.settle() {
				if time.Now().After(end) {
					w.FailNow("the acknowledgements do not arrive", "%d bytes of %d have come: %v\n%v", w.got, queued, w.pool.Ledger(),
						w.ring.Stats().Driver)
				}
				for i := range clients {
					w.acknowledge(i)
				}
				w.flush()
			}
		})
	}
}
