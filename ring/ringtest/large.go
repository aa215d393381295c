package ringtest

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// changingClass: the buffers of a connection change while data flows; nothing is lost, doubled or out of order.
func changingClass(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	wrote := make(chan error, 1)
	go func() {
		for n := 0; n < len(text); {
			k, err := peer.Write(text[n:min(n+5000, len(text))])
			if n += k; err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	var got []byte
	longest := 0
	for turn := 0; len(got) < len(text); turn++ {
		c := w.event(s, ring.EventPacket, nil)
		longest = max(longest, len(c.Packet.Bytes()))
		for piece := range c.Packet.Segments() {
			got = append(got, piece...)
		}
		w.NoError(c.Packet.Release())
		if turn%7 == 0 {
			w.NoError(s.SetLargeStream(turn%2 == 0))
		}
		if turn%31 == 0 {
			w.NoError(s.Suspend())
			w.NoError(s.SetLargeStream(true))
			w.NoError(s.Resume())
		}
	}
	w.NoError(<-wrote)
	w.Equal(text, got)
	w.Greater(longest, w.pool.Layout().Stride(buffers.Small), "large buffers were used")
	w.closed(s)
	w.ErrorIs(s.SetLargeStream(true), ring.ErrClosed)
}
