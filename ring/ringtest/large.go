package ringtest

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	w.closeAndWait(s)
	w.ErrorIs(s.SetLargeStream(true), ring.ErrClosed)
}

// endingLarge: a connection into large buffers ends as any other does: FIN after the data before it, reset after FIN, reset.
func endingLarge(t *testing.T, b Backend) {
	w := newWorld(t, b)
	large := ring.Config{LargeStream: true}
	s, peer := w.pair(large)
	text := make([]byte, 300_000)
	for i := range text {
		text[i] = byte(i) ^ byte(i>>8)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := peer.Write(text)
		wrote <- errors.Join(err, peer.CloseWrite())
	}()
	w.Equal(text, w.read(s, len(text)))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.silent(10 * time.Millisecond) // once
	w.NoError(<-wrote)
	w.reset(peer)
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.closeAndWait(s)

	s, peer = w.pair(large)
	w.write(peer, []byte("x"))
	w.Equal("x", string(w.read(s, 1)))
	w.reset(peer)
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.closeAndWait(s)
}
