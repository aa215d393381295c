package live

import (
	"errors"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// close gives up what is missing, so that held packets come back, reads the counters, and closes sockets and rings.
func (l *Live) close() error {
	now := time.Now().UnixNano()
	for _, c := range l.Channels {
		c.Finish(now)
	}
	l.publish()
	for _, r := range l.routes {
		c := l.Channels[r.channel]
		c.KernelPackets(r.line, r.kernel)
		c.KernelDrops(r.line, r.socket.Stats().Drops)
	}
	l.account()
	return errors.Join(l.poller.Close(), l.engine.Close())
}

// account reads what the rings counted. Counters of several rings with one name are one number.
func (l *Live) account() {
	sum := &l.ring
	*sum = handler.RingSummary{Counters: map[string]uint64{}, Buffers: l.poller.Ledger()}
	for _, r := range l.poller.Rings() {
		stats := r.Stats()
		sum.Packets += stats.Packets
		for _, c := range stats.Driver {
			if c.Value > 0 {
				sum.Counters[c.Name] += c.Value
			}
			if strings.HasSuffix(c.Name, ".rx_lost") {
				sum.LinkDrops += c.Value
			}
		}
	}
}

// clock names the clocks that receive times were taken from.
func (l *Live) clock() handler.Clock {
	var from []string
	for source, seen := range l.stamps {
		if !seen {
			continue
		}
		switch s := xtreme.StampSource(source); s {
		case xtreme.StampSoftware:
			from = append(from, "kernel receive stamps")
		case xtreme.StampPoll:
			from = append(from, "the ring's clock when it took the frame")
		default:
			from = append(from, s.String()+" stamps")
		}
	}
	if len(from) == 0 {
		from = append(from, "the loop's clock")
	}
	return handler.Clock{Source: strings.Join(from, ", ")}
}

// Summary is the result; after Run.
func (l *Live) Summary() handler.Summary {
	s := handler.Summarize(l.Channels, l.clock())
	s.Latency["wire_to_user"] = handler.Quantiles(l.WireToUser)
	s.Latency["user_to_book"] = handler.Quantiles(l.UserToBook)
	s.Ring = &l.ring
	for i := range s.Channels {
		s.Channels[i].Gaps.Rejects += l.askers[i].refused
	}
	return s
}
