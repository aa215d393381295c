package live

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed"
)

const (
	// window is how many packets may be sent and not yet read. A full-size datagram is charged with 2,304 bytes: 64 of
	// them fit into the receive buffer that anybody gets (net.core.rmem_max is 212,992 where nobody changed it), even if
	// all are for one socket.
	window = 64
	// mostParked is how many read packets may wait behind holes before the sender waits too: a quarter of what a channel
	// has room for. Time fills holes or gives them up, so it never waits for ever.
	mostParked = slots / 4
	// patient is when a test ends that makes no progress. Nothing is measured by it.
	patient = 60 * time.Second
)

// pacer lets a sender go as fast as the handler really reads, and ends both when the handler has dealt with everything:
// neither a rate nor a silence says how fast a machine is.
type pacer struct {
	l      *Live
	until  func() bool // what else must have happened; called on the polling goroutine
	cancel context.CancelFunc

	read, parked, lost atomic.Uint64 // by the polling goroutine
	sent               atomic.Uint64 // by the sender: one more than everything; 0 before the end
}

// attach is before Live.Run.
func (p *pacer) attach() { p.l.polled = p.polled }

func (p *pacer) polled() {
	var read uint64
	for i := range p.l.routes {
		if r := &p.l.routes[i]; r.line != feed.Recovery {
			read += r.packets
		}
	}
	parked, lost, waiting := 0, uint64(0), false
	for _, c := range p.l.Channels {
		s := c.Stats()
		parked, lost = max(parked, s.Parked), lost+s.Unrecovered
		waiting = waiting || s.Parked+s.Holes > 0
	}
	p.read.Store(read)
	p.parked.Store(uint64(parked))
	p.lost.Store(lost)
	if p.sent.Load() == read+1 && !waiting && (p.until == nil || p.until()) {
		p.cancel()
	}
}

// pace is replay.Config.Pace.
func (p *pacer) pace(sent uint64) error {
	var begin time.Time
	for sent >= p.read.Load()+window || p.parked.Load() >= mostParked {
		if begin.IsZero() {
			begin = time.Now()
		}
		if time.Since(begin) > patient {
			return fmt.Errorf("%d packets sent, %d read, %d parked: no progress for %v", sent, p.read.Load(), p.parked.Load(),
				patient)
		}
		time.Sleep(20 * time.Microsecond)
	}
	return nil
}

// gaveUp is replay.Config.Slow: the server answers when the handler has stopped waiting, however long that takes it.
func (p *pacer) gaveUp(ctx context.Context) {
	for p.lost.Load() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

// ended is replay.Config.Ended.
func (p *pacer) ended(sent uint64) { p.sent.Store(sent + 1) }

// run plays a capture to a handler until everything that was sent is dealt with.
func run(t *testing.T, l *Live, r replay.Config, until func() bool) replay.Report {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	p := &pacer{l: l, until: until, cancel: cancel}
	p.attach()
	r.Pace, r.Ended, r.Linger = p.pace, p.ended, 2*patient
	r.Slow = func() { p.gaveUp(ctx) }
	type result struct {
		rep replay.Report
		err error
	}
	played := make(chan result, 1)
	go func() {
		rep, err := replay.Run(ctx, r)
		if err != nil {
			cancel()
		}
		played <- result{rep, err}
	}()
	require.NoError(t, l.Run(ctx))
	res := <-played
	require.NoError(t, res.err)
	require.NotErrorIs(t, ctx.Err(), context.DeadlineExceeded, "%d of %d packets read, %d parked", p.read.Load(),
		p.sent.Load(), p.parked.Load())
	return res.rep
}
