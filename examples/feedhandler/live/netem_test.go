package live

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// impairing puts netem on the peer's end of pair 0: of all frames 5 % are lost, each is delayed by 1 to 5 ms, so that many overtake others, 1 %
// come twice and 1 % have a wrong bit. The result is how many it has dropped.
func impairing(t *testing.T, n *testnet.Net) (dropped func() uint32) {
	t.Helper()
	var p netlink.Link
	n.InPeer(func() {
		var err error
		p, err = netlink.LinkByName("p0")
		require.NoError(t, err)
		err = netlink.QdiscAdd(netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: p.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT}, netlink.NetemQdiscAttrs{Latency: 3000, Jitter: 2000, Loss: 5, Duplicate: 1, CorruptProb: 1, Limit: 10_000}))
		if errors.Is(err, unix.ENOENT) {
			testnet.Missing(t, "netem", err)
		}
		require.NoError(t, err)
	})
	return func() (count uint32) {
		n.InPeer(func() {
			list, err := netlink.QdiscList(p)
			require.NoError(t, err)
			for _, q := range list {
				if q.Type() == "netem" {
					count = q.Attrs().Statistics.Queue.Drops
				}
			}
		})
		return count
	}
}

// An exchange behind a bad cable: the books are the exchange's own at the end, message by message, on an offloaded ring and on a kernel ring.
// Requests and answers of the recovery take the same cable.
func TestRecoveryOverABadCable(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingOffload, conf.RingAuto} {
		t.Run(string(kind), func(t *testing.T) {
			n := testnet.New(t, testnet.Pair{})
			dropped := impairing(t, n)
			x := &replay.Exchange{Interface: "p0", Rate: 2000, Duration: 2 * time.Second, Symbols: 60, Recovery: netip.AddrPortFrom(n.Peer(0), 10_001),
				Lines:  [2]netip.AddrPort{group(1, 10_000), group(2, 10_000)},
				Impair: replay.Impairment{Seed: 5, Recut: [2]bool{false, true}}}
			ch := Channel{Recovery: x.Recovery, Handler: handler.Config{Proto: handler.DEEP, Name: "netem",
				Feed: feed.Config{Start: 1, EpochStart: 1, GapTime: int64(10 * time.Millisecond),
					Recovery: feed.RecoveryConfig{Attempts: 50, Timeout: int64(50 * time.Millisecond), Outstanding: 4, Budget: 2000}}}}
			for _, to := range x.Lines {
				ch.Lines = append(ch.Lines, Line{Group: to, Interface: n.Device(0)})
			}
			var next atomic.Uint64
			x.Caught = func(all uint64) bool { return next.Load() >= all }
			l, err := Open(Config{Ring: kind, Channels: []Channel{ch}, Each: func(l *Live) { next.Store(l.Channels[0].Stats().Next) }})
			require.NoError(t, err)
			if kind == conf.RingOffload {
				require.Equal(t, "bypass", l.routes[0].socket.Path().Tier, "%s", l.Paths()[0])
			}
			ctx, stop := context.WithTimeout(t.Context(), 2*patient)
			defer stop()
			type result struct {
				report replay.ExchangeReport
				err    error
			}
			closed := make(chan result, 1)
			go func() {
				defer stop()
				runtime.LockOSThread() // and never unlocked: the thread stays in the peer's namespace
				if err := n.EnterPeer(); err != nil {
					closed <- result{err: err}
					return
				}
				r, err := x.Run(ctx)
				closed <- result{r, err}
			}()
			require.NoError(t, l.Run(ctx))
			own := <-closed
			require.NoError(t, own.err)
			s := l.Summary()
			c := s.Channels[0]
			t.Logf("%d messages in %d packets; netem dropped %d frames; lost %d and %d messages; %d requests, %d arrived; %d recovered",
				own.report.Messages, own.report.Packets, dropped(), c.Lines[0].Lost, c.Lines[1].Lost, c.Gaps.Requests, own.report.Requests, c.Delivery.Recovered)
			require.Equal(t, own.report.Messages, c.Messages)
			require.Equal(t, own.report.Trades, c.Trades)
			require.Equal(t, own.report.Volume, c.Volume)
			require.Equal(t, own.report.Digest, s.Books.Digest)
			require.Equal(t, own.report.Symbols, s.Books.Symbols)
			require.Empty(t, c.Gaps.Unrecovered)
			require.NotZero(t, dropped())
			require.NotZero(t, c.Lines[0].Lost)
			require.NotZero(t, c.Lines[1].Lost)
			require.NotZero(t, c.Lines[0].Reordered)
			require.NotZero(t, c.Delivery.Recovered)
			require.Zero(t, s.Ring.Buffers.Held+s.Ring.Buffers.Received+s.Ring.Buffers.Lent, "%+v", s.Ring.Buffers)
		})
	}
}
