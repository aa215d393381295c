package xtreme_test

import (
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A gap behind the Poll that follows a sleep is counted as any other: the time runs from that Poll on, also if it returns completions.
func TestGapAfterASleepIsCounted(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	s := w.udp(w.at(0))
	peer := w.net.Dial(s.LocalAddr())
	done := make([]xtreme.Completion, 4)
	gaps := func() uint64 { return r.Blocks(stats.Pollers)[0].Value("poll_gaps") }
	for range 16 {
		_, err := w.poller.Poll(done)
		w.NoError(err)
		w.write(peer, "work")
		w.NoError(w.poller.Wait(t.Context()))
		before := gaps()
		for n := 0; n == 0; {
			n, err = w.poller.Poll(done)
			w.NoError(err)
		}
		w.NoError(done[0].Packet.Release())
		compute(2 * time.Millisecond)
		_, err = w.poller.Poll(done)
		w.NoError(err)
		w.Greater(gaps(), before)
	}
}
