package offload_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// peerReceives polls the peer's ring alone, a few times, and returns the bytes that its socket has received and whether the stream has ended.
func (w *twoHosts) peerReceives() (got []byte, ended bool) {
	for range 4 {
		n, err := w.rings[1].Poll(w.dst)
		w.NoError(err)
		for i := range w.dst[:n] {
			c := &w.dst[i]
			if c.Events.Has(ring.EventPacket) {
				for b := range c.Packet.Segments() {
					got = append(got, b...)
				}
				w.NoError(c.Packet.Release())
			}
			ended = ended || c.Events.Has(ring.EventRdHup)
		}
	}
	return got, ended
}

// What a callback of our own TCP answers leaves in the turn that called it: the peer has it before the ring is polled again.
func TestStreamAnswerOfACallbackLeavesInItsTurn(t *testing.T) {
	answers := map[string]func(w *twoHosts, s *ring.Socket, c *ring.Completion) error{
		"Send": func(_ *twoHosts, s *ring.Socket, _ *ring.Completion) error {
			_, err := s.Send([]byte("pong"))
			return err
		},
		"SendVector": func(_ *twoHosts, s *ring.Socket, _ *ring.Completion) error {
			_, err := s.SendVector([][]byte{[]byte("po"), []byte("ng")}, netip.AddrPort{})
			return err
		},
		"SendPacket": func(w *twoHosts, s *ring.Socket, _ *ring.Completion) error {
			p, err := w.pools[0].Alloc(4)
			if err != nil {
				return err
			}
			copy(p.Room(), "pong")
			return errors.Join(p.SetLen(4), s.SendPacket(p, netip.AddrPort{}, 7))
		},
		"CloseWrite": func(_ *twoHosts, s *ring.Socket, _ *ring.Completion) error { return s.CloseWrite() },
		"Close":      func(_ *twoHosts, s *ring.Socket, _ *ring.Completion) error { return s.Close() },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			w := newTwoHosts(t, [2]memory.Fault{}, &streams.Options{})
			called := 0
			w.NoError(w.s[0].SetReceiveMode(ring.Callback, func(s *ring.Socket, c *ring.Completion) ring.Verdict {
				called++
				if err := answer(w, s, c); err != nil {
					t.Error(err)
				}
				return ring.Drop
			}))
			_, err := w.s[1].Send([]byte("ping"))
			w.NoError(err)
			w.NoError(w.rings[1].Flush())
			_, err = w.rings[0].Poll(w.dst)
			w.NoError(err)
			w.Equal(1, called, "calls of the callback in one Poll")
			got, ended := w.peerReceives()
			if name == "CloseWrite" || name == "Close" {
				w.True(ended, "the peer has the end of the stream before the ring is polled again")
			} else {
				w.Equal("pong", string(got), "what the peer has before the ring is polled again")
			}
		})
	}
}

// The acknowledgement of data that a Poll has delivered waits for the answer that the program gives after that Poll: one segment carries both.
func TestStreamAcknowledgementWaitsForTheAnswer(t *testing.T) {
	w := newTwoHosts(t, [2]memory.Fault{}, &streams.Options{})
	delivered := 0
	w.seen = func(_ int, c *ring.Completion) {
		if c.Events.Has(ring.EventPacket) {
			delivered++
			w.NoError(c.Packet.Release())
		}
	}
	for range 8 {
		w.turn() // what the handshake has left
	}
	out, before := w.counter(0, "tcp.segments_out"), delivered
	_, err := w.s[1].Send([]byte("ping"))
	w.NoError(err)
	w.NoError(w.rings[1].Flush())
	n, err := w.rings[0].Poll(w.dst)
	w.NoError(err)
	for i := range w.dst[:n] {
		w.seen(0, &w.dst[i])
	}
	w.Equal(before+1, delivered)
	w.Equal(out, w.counter(0, "tcp.segments_out"), "segments that left in the Poll")
	_, err = w.s[0].Send([]byte("pong"))
	w.NoError(err)
	w.NoError(w.rings[0].Flush())
	w.Equal(out+1, w.counter(0, "tcp.segments_out"))
	got, _ := w.peerReceives()
	w.Equal("pong", string(got))
}
