package xtreme_test

import (
	"errors"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The states of a poller's buffers are in the file, counted while the loop does not poll, and their sum is all buffers.
func TestPublishedStatesOfBuffers(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w, r := published(t, kind)
		s := w.udp(w.at(0))
		peer := w.net.Dial(s.LocalAddr())
		var held []xtreme.Packet
		for range 5 {
			w.write(peer, "held")
			held = append(held, w.event(s, xtreme.EventPacket).Packet)
		}
		states := func() map[string]uint64 { return r.Blocks(stats.Pollers)[0].Totals }
		for end := time.Now().Add(time.Minute); states()["buffers_held"] != 5; time.Sleep(10 * time.Millisecond) {
			w.True(time.Now().Before(end), "%v", states())
		}
		n := states()
		w.Equal(n["buffers"], n["buffers_free"]+n["buffers_filling"]+n["buffers_received"]+n["buffers_held"]+n["buffers_lent"]+n["buffers_transmitting"]+
			n["buffers_unacknowledged"]+n["buffers_completing"])
		for _, p := range held {
			w.NoError(p.Release())
		}
		w.close(s)
	})
}

// The most buffers in use are in a sample, also when nothing comes any more because the program holds all of them.
func TestPeakOfHeldBuffers(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	s := w.udp(w.at(0))
	var held []xtreme.Packet
	for {
		p, err := w.poller.Pool().Alloc(1500)
		if errors.Is(err, buffers.ErrExhausted) {
			break
		}
		w.NoError(err)
		held = append(held, p)
	}
	seen := func() bool {
		for _, x := range r.Samples() {
			if x.Values["poller.buffers_used_peak"] >= uint64(len(held)) {
				return true
			}
		}
		return false
	}
	done := make([]xtreme.Completion, 16)
	for end := time.Now().Add(time.Minute); !seen(); time.Sleep(time.Millisecond) {
		w.True(time.Now().Before(end), "no sample has the %d buffers that are held", len(held))
		n, err := w.poller.Poll(done)
		w.NoError(err)
		w.Zero(n)
	}
	for _, p := range held {
		w.NoError(p.Release())
	}
	w.close(s)
}
