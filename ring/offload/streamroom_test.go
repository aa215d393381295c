package offload_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
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
			servers := w.servers()
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

// fullSwarm has connections whose server sends until each send is refused for want of a buffer. The rest of the pool lies ready, as in the fill
// ring of a card.
func fullSwarm(t *testing.T) *readySwarm {
	const clients = 40
	w := &readySwarm{swarm: newSwarm(t, clients, &streams.Options{})}
	w.open(clients)
	servers := w.servers()
	w.Len(servers, clients)
	for class, free := range []int{buffers.Small: 512, buffers.Large: 0} {
		for w.pool.Free(buffers.Class(class)) > free {
			i, ok := w.pool.Take(buffers.Class(class))
			w.True(ok)
			w.ready = append(w.ready, i)
		}
	}
	t.Cleanup(func() {
		for _, i := range w.ready {
			w.pool.Return(i)
		}
	})
	w.holds = true // nothing is acknowledged
	piece := text(1 << 16)
	for range 4 {
		for _, s := range servers {
			_, _ = s.Send(piece)
		}
		w.poll()
		w.receive()
	}
	for _, s := range servers {
		_, err := s.Send(piece[:1])
		w.ErrorIs(err, ring.ErrWouldBlock)
	}
	return w
}

type readySwarm struct {
	*swarm
	ready  []uint32 // buffers
	silent bool     // the application sends nothing
}

// take takes the first small buffer that lies ready.
func (w *readySwarm) take() (i uint32) {
	i, w.ready = w.ready[0], w.ready[1:]
	return i
}

// turn is a Poll of an application that reads, and sends 1,000 bytes where it is told that there is room. What receiving may have lies ready
// afterwards.
func (w *readySwarm) turn() (read, room int) {
	n, err := w.ring.Poll(w.dst)
	w.NoError(err)
	for i := range w.dst[:n] {
		c := &w.dst[i]
		if c.Events.Has(ring.EventPacket) {
			read += c.Packet.Len()
			w.NoError(c.Packet.Release())
		}
		if c.Events.Has(ring.EventOut) && !w.silent {
			room++
			sent, err := c.Socket.Send(text(1000))
			w.NoError(err)
			w.Equal(1000, sent)
		}
	}
	for i, ok := w.pool.Take(buffers.Small); ok; i, ok = w.pool.Take(buffers.Small) {
		w.ready = append(w.ready, i)
	}
	return read, room
}

// What is queued leaves buffers for segments that leave at once: a peer that waits for an acknowledgement, or for a window, acknowledges
// nothing.
func TestQueuedDataLeavesBuffersForAcknowledgements(t *testing.T) {
	w := fullSwarm(t)
	w.silent = true
	w.pool.Return(w.take()) // for what the client sends
	s := w.segment(7, wire.TCPAck|wire.TCPPsh)
	s.Window = 0 // it takes no data, with which the acknowledgement could come
	w.send(&s, text(100))
	w.flush()
	want, got := s.Seq.Add(100), 0
	for end := time.Now().Add(patience); w.acked != want; w.receive() {
		w.True(time.Now().Before(end), "no acknowledgement: %v", w.ring.Stats().Driver)
		read, _ := w.turn()
		got += read
	}
	w.Equal(100, got)
	w.Zero(w.counter("tcp.no_buffer"))
}

// A segment that another ring has received is copied, which wants a free buffer: what lies ready for a card, and what is queued, leave some.
// What was copied beyond gaps gives way to what fills them.
func TestSegmentsOfOtherRingsFindBuffers(t *testing.T) {
	w := fullSwarm(t)
	w.silent = true
	w.turn()
	frame := make([]byte, 2048)
	hand := func(i, distance int) {
		s := w.segment(i, wire.TCPAck|wire.TCPPsh)
		s.Seq, s.Window = s.Seq.Add(distance), 0
		n := wire.EthernetLen + wire.IPv4Len + s.HeaderLen() + 100
		putSegment(frame[:n], &s, text(100))
		offload.TakeSegment(w.driver, frame[wire.EthernetLen:n])
	}
	got := 0
	for k := 20; k > 0; k-- {
		for i := range w.clients {
			hand(i, 100*k)
		}
		read, _ := w.turn()
		got += read
	}
	w.Zero(got, "all was beyond gaps")
	for end := time.Now().Add(patience); got < 100*len(w.clients); { // each fills the gap, again if there was no buffer
		w.True(time.Now().Before(end), "%d bytes of %d: %v", got, 100*len(w.clients), w.ring.Stats().Driver)
		for i := range w.clients {
			hand(i, 0)
		}
		read, _ := w.turn()
		got += read
	}
}

// Data beyond a gap stays while enough buffers lie ready to fill the gap, though none is free.
func TestDataBeyondGapsStaysWhileBuffersLieReady(t *testing.T) {
	w := fullSwarm(t)
	w.silent = true
	w.pool.Return(w.take()) // for what the client sends
	w.beyond(7, 10, 100)
	w.flush()
	for range 10 {
		w.turn()
		w.receive()
	}
	w.EqualValues(1, w.counter("tcp.out_of_order"))
	w.Zero(w.counter("tcp.reneged"))
}

// Room is not reported while a send would find no buffer, and it is as soon as there is one, to as many connections as there are buffers: by a
// ring that polls, and by one that would sleep.
func TestRoomIsABuffer(t *testing.T) {
	w := fullSwarm(t)
	turns := func() (all int) {
		for range 100 {
			_, room := w.turn()
			all += room
		}
		return all
	}
	w.Zero(turns(), "room without a buffer")
	held := make([]buffers.Packet, 5)
	for i := range held {
		held[i] = w.pool.Fill(w.take(), w.pool.Layout().Headroom, 1, 0)
	}
	for _, p := range held[:4] {
		w.NoError(p.Release())
	}
	w.Equal(4, turns(), "of four buffers")
	w.NoError(held[4].Release())
	start := time.Now()
	w.NoError(w.ring.Wait(patience))
	w.Less(time.Since(start), patience/2, "the ring sleeps though a connection that waits for a buffer can have one")
	w.Equal(1, turns())
}
