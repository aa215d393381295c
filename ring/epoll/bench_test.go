package epoll

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// BenchmarkIdlePoll is one turn that finds nothing: with epoll asked, and with one hot socket read instead (and epoll on every 8th).
func BenchmarkIdlePoll(b *testing.B) {
	for _, hot := range []bool{false, true} {
		name := "epoll"
		if hot {
			name = "hot"
		}
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			s := w.udp(ring.Config{})
			if hot {
				w.heat(s, dialUDP(b, s.LocalAddr()))
			}
			r := w.ring()
			var batch [64]ring.Completion
			for b.Loop() {
				if hot {
					w.drv.hot[0].idle = 0 // it must not cool
				}
				if n, err := r.Poll(batch[:]); n > 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkDatagram is a datagram that the socket sends to itself, received and released. The kernel's share is most of it.
func BenchmarkDatagram(b *testing.B) {
	w := newWorld(b)
	u := w.udp(ring.Config{})
	message := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = u.SendTo(message, u.LocalAddr())
		w.one(u)
	}
}

// BenchmarkStream is a message of a connection there and back, both ends on one ring.
func BenchmarkStream(b *testing.B) {
	w := newWorld(b)
	l := w.listen(ring.Config{})
	s := w.socket(ring.KindStream, ring.Config{})
	require.NoError(b, s.Connect(l.LocalAddr()))
	w.next(s, ring.EventOut)
	child := w.next(nil, ring.EventNewConnection).Socket
	message := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Send(message)
		w.one(child)
		_, _ = child.Send(message)
		w.one(s)
	}
}

// one takes the next packet, which must be of s, and releases it.
func (w *world) one(s *ring.Socket) {
	r := s.Ring()
	for {
		n, err := r.Poll(w.batch[:])
		if err != nil || n > 1 || n == 1 && w.batch[0].Socket != s {
			w.t.Fatal(n, err, w.batch[0])
		}
		if n == 1 {
			_ = w.batch[0].Packet.Release()
			return
		}
	}
}
