package offload_test

import (
	"sync"
	"testing"
	"time"

	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// What an application has sent and closed before it closes its poller arrives: the poller's close waits for the peer. A peer that does not
// answer is reset at last.
func TestClosedConnectionsFinishWhenTheirRingIsClosed(t *testing.T) {
	const clients, bytes = 8, 50_000 // within the peer's window
	for _, c := range []struct {
		name     string
		answers  bool // the clients acknowledge while the ring is being closed
		finished bool // and had acknowledged all before
		resets   int
	}{{"acknowledged meanwhile", true, false, 0}, {"acknowledged before", false, true, 0}, {"not acknowledged", false, false, clients}} {
		t.Run(c.name, func(t *testing.T) {
			w := newSwarm(t, clients, &streams.Options{})
			w.open(clients)
			for _, s := range w.servers() {
				n, err := s.Send(text(bytes))
				w.NoError(err)
				w.Equal(bytes, n)
				w.NoError(s.Close())
			}
			if w.holds = !c.finished; c.finished {
				w.settle()
				w.Equal(clients, w.ends)
			}
			done := make(chan struct{})
			var wg sync.WaitGroup
			if c.answers {
				w.holds = false
				wg.Go(func() {
					for {
						w.receive()
						select {
						case <-done:
							return
						default:
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			begin := time.Now()
			w.NoError(w.set.Close())
			w.Less(time.Since(begin), patience/4)
			close(done)
			wg.Wait()
			w.receive()
			w.Equal(c.resets, w.resets)
			if c.answers || c.finished {
				w.Equal(clients*bytes, w.got)
				w.Equal(clients, w.ends)
			}
		})
	}
}
