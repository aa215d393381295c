package ringtest

import (
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// errorsOfPoll: an error of Poll comes alone. Completions of the Poll in which the failure happened are delivered without it; until the
// error is returned, it is pending work, which keeps the ring from sleeping.
func errorsOfPoll(t *testing.T, b Backend) {
	w := newWorld(t, b)
	idle, err := sys.NewPollSet()
	w.NoError(err)
	defer idle.Close()
	const kept = 5
	const rounds = 24
	merged := 0 // rounds in which completions and the failure fell into one Poll
	dst := make([]ring.Completion, 64)
	for round := range rounds {
		u := w.socket(ring.KindDatagram, w.local)
		seen := 0
		w.NoError(u.SetReceiveMode(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict {
			if seen++; seen > kept {
				panic("the sixth datagram")
			}
			return ring.Keep
		}))
		w.NoError(u.Bind(w.local))
		r := u.Ring()
		peer := w.udpPeer(u.LocalAddr())
		w.poll()             // the socket receives from here on
		for range kept + 1 { // not by write: it may poll
			_, err := peer.Write([]byte("x"))
			w.NoError(err)
		}
		packets, closed, reported := 0, 0, 0
		panics := r.Stats().CallbackPanics
		for end := time.Now().Add(patience); closed == 0 || reported == 0; {
			w.True(time.Now().Before(end), "%d packets, %d errors, %d CLOSED", packets, reported, closed)
			n, err := r.Poll(dst)
			if err != nil {
				w.Zero(n, "completions beside an error: %v", err)
				var p *ring.CallbackPanic
				w.ErrorAs(err, &p)
				w.Equal(u.ID(), p.Socket)
				reported++
			}
			for i := range dst[:n] {
				c := &dst[i]
				if c.Events.Has(ring.EventPacket) {
					packets++
					w.NoError(c.Packet.Release())
				}
				if c.Events.Has(ring.EventClosed) {
					closed++
				}
			}
			if r.Stats().CallbackPanics == panics || reported > 0 {
				continue
			}
			// The failure happened in this Poll and waits. Whatever the owner does now, it does not sleep and does not miss it.
			w.NotZero(n, "without completions the error is returned at once")
			merged++
			w.False(ring.IsIdle(r))
			if round%2 == 0 {
				pending, err := r.Arm()
				w.NoError(err)
				w.True(pending, "an error waits")
			} else {
				w.NoError(r.Wait(-1)) // for ever, if the error were forgotten
			}
			n, err = r.Poll(dst)
			w.Zero(n)
			w.ErrorContains(err, "the sixth datagram")
			reported++
		}
		w.Equal(kept, packets)
		w.Equal(1, closed)
		w.Equal(1, reported)
	}
	w.NotZero(merged, "no Poll had both: nothing was shown")
}

// errorsAtClose: Close returns an error that no Poll has returned.
func errorsAtClose(t *testing.T, b Backend) {
	w := newWorld(t, b)
	dst := make([]ring.Completion, 64)
	for end := time.Now().Add(patience); ; {
		w.True(time.Now().Before(end), "no Poll had completions and the failure")
		u := w.socket(ring.KindDatagram, w.local)
		seen := 0
		w.NoError(u.SetReceiveMode(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict {
			if seen++; seen > 1 {
				panic("the second datagram")
			}
			return ring.Keep
		}))
		w.NoError(u.Bind(w.local))
		r := u.Ring()
		peer := w.udpPeer(u.LocalAddr())
		w.poll()
		panics := r.Stats().CallbackPanics
		for range 2 { // not by write: it may poll
			_, err := peer.Write([]byte("x"))
			w.NoError(err)
		}
		var n int
		var err error
		for r.Stats().CallbackPanics == panics {
			w.True(time.Now().Before(end), "the callback was not called twice")
			n, err = r.Poll(dst)
			for i := range dst[:n] {
				w.release(dst[i])
			}
		}
		if err == nil {
			w.ErrorContains(r.Close(), "the second datagram")
			return
		}
		w.Zero(n, "completions beside an error: %v", err)
	}
}
