package live

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/capture"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
)

// spoiled is a feed that is impaired in these tests, and what it is when whole.
type spoiled struct {
	name     string
	file     string
	proto    handler.Proto
	count    uint64 // records
	messages uint64
	digest   string
	packets  []feed.Range // the messages of each packet
}

func spoiledFeeds(t *testing.T) []*spoiled {
	deep := &spoiled{name: "DEEP", file: deepFile, proto: handler.DEEP, count: deepRecords, messages: deepMessages, digest: deepDigest}
	mold := &spoiled{name: "MoldUDP64", file: moldFile, proto: handler.MoldUDP64, messages: moldMessages, digest: moldDigest(t)}

	r, err := capture.Open(captureFile(t, deep.file))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	in := capture.NewSorted(r, 32)
	var rec capture.Record
	for len(deep.packets) < deepRecords {
		require.NoError(t, in.Next(&rec))
		h, _, err := iextp.Parse(rec.Payload)
		require.NoError(t, err)
		deep.packets = append(deep.packets, feed.Range{From: h.Seq(), To: h.Seq() + uint64(h.Count())})
	}
	f, err := os.Open(captureFile(t, mold.file))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	n := uint64(0)
	err = capture.BinaryFile(f, func([]byte) error {
		if n%4 == 0 { // mdreplay puts four messages into a packet
			mold.packets = append(mold.packets, feed.Range{From: n + 1})
		}
		n++
		mold.packets[len(mold.packets)-1].To = n + 1
		return nil
	})
	require.True(t, err == nil || errors.Is(err, io.EOF), "%v", err)
	return []*spoiled{deep, mold}
}

// each runs a test for each feed.
func each(t *testing.T, f func(t *testing.T, x *spoiled)) {
	for _, x := range spoiledFeeds(t) {
		t.Run(x.name, func(t *testing.T) { f(t, x) })
	}
}

func (x *spoiled) wired(gap time.Duration, impair ...string) wired {
	return wired{file: x.file, count: x.count, channels: everything(x.proto, 2), impair: impair,
		feed: feed.Config{Start: 1, EpochStart: 1, GapTime: int64(gap)}}
}

// whole is what every run comes to from which nothing is missing.
func (x *spoiled) whole(t *testing.T, r result) {
	t.Helper()
	c := r.Channels[0]
	require.Empty(t, c.Gaps.Unrecovered)
	require.Equal(t, x.messages, c.Messages)
	require.Equal(t, x.digest, r.Books.Digest)
	require.Equal(t, "SYNC", c.State)
	require.Zero(t, r.Books.Stale)
	require.Len(t, c.Epochs, 1)
	require.Equal(t, [2]uint64{1, x.messages}, [2]uint64{c.Epochs[0].First, c.Epochs[0].Last})
}

// lost is which messages no line brings, and how many each does not.
func (x *spoiled) lost(m replay.Impairment) (ranges [][2]uint64, line [2]uint64) {
	for i, p := range x.packets {
		a, b := m.Dropped(0, uint64(i+1)), m.Dropped(1, uint64(i+1))
		if a {
			line[0] += p.Len()
		}
		if b {
			line[1] += p.Len()
		}
		if a && b && p.Len() > 0 {
			ranges = join(ranges, [2]uint64{p.From, p.To - 1})
		}
	}
	return ranges, line
}

// join appends an inclusive range, to the last one if it continues that.
func join(all [][2]uint64, r [2]uint64) [][2]uint64 {
	if n := len(all); n > 0 && all[n-1][1]+1 == r[0] {
		all[n-1][1] = r[1]
		return all
	}
	return append(all, r)
}

// What A loses B brings, over the other interface; and A's packets that come twice, late, cut, or between foreign ones
// change nothing.
func TestOffloadedLossOnOneLineIsHealed(t *testing.T) {
	each(t, func(t *testing.T, x *spoiled) {
		_, lost := x.lost(replay.Impairment{Seed: 3, Loss: [2]uint32{500, 0}})
		r := x.wired(10*time.Second, "-seed", "3", "-loss", "500,0").play(t)
		x.whole(t, r)
		require.NotZero(t, lost[0])
		require.Equal(t, lost, [2]uint64{r.Channels[0].Lines[0].Lost, r.Channels[0].Lines[1].Lost})
		require.Zero(t, r.Channels[0].Gaps.Requests)

		r = x.wired(10*time.Second, "-seed", "4", "-loss", "300,0", "-reorder", "100", "-duplicate", "50", "-foreign", "20,0", "-truncate",
			"20,0").play(t)
		x.whole(t, r)
		a := r.Channels[0].Lines[0]
		require.NotZero(t, a.Foreign+a.Malformed)
		require.NotZero(t, a.Reordered)
		require.Zero(t, r.Channels[0].Lines[1].Lost)
	})
}

// What both lines lose is asked for, over the offloaded ring too, and the books are the same.
func TestOffloadedLossOnBothLinesIsRecovered(t *testing.T) {
	each(t, func(t *testing.T, x *spoiled) {
		for _, loss := range []uint32{100, 500} {
			m := replay.Impairment{Seed: 7, Loss: [2]uint32{loss, loss}, Both: []replay.Span{{From: 1, To: 3}, {From: 700, To: 720},
				{From: uint64(len(x.packets)) - 3}}} // the tail: heartbeats tell
			missing, _ := x.lost(m)
			w := x.wired(5*time.Millisecond, "-seed", "7", "-loss", strconv.Itoa(int(loss)), "-lose-both", "1-3", "-lose-both", "700-720",
				"-lose-both", fmt.Sprintf("%d-", len(x.packets)-3))
			w.mode = replay.Normal
			r := w.play(t)
			x.whole(t, r)
			least := uint64(0)
			for _, s := range missing {
				least += s[1] - s[0] + 1
			}
			c := r.Channels[0]
			require.NotZero(t, least)
			require.GreaterOrEqual(t, c.Delivery.Recovered, least, "what no line brings; more where a line was late")
			require.GreaterOrEqual(t, c.Gaps.Requests, r.requests)
			require.NotZero(t, r.requests)
		}
	})
}

// Without recovery exactly what both lines lost is missing, and the books say that they are not to be trusted.
func TestOffloadedLossWithoutRecovery(t *testing.T) {
	each(t, func(t *testing.T, x *spoiled) {
		late := uint64(len(x.packets)) * 14 / 15 // when there are books
		for _, loss := range []uint32{100, 500} {
			m := replay.Impairment{Seed: 11, Loss: [2]uint32{loss, loss}, Both: []replay.Span{{From: 500, To: 501}, {From: late, To: late}}}
			missing, lost := x.lost(m)
			r := x.wired(100*time.Millisecond, "-seed", "11", "-loss", strconv.Itoa(int(loss)), "-lose-both", "500-501", "-lose-both",
				fmt.Sprintf("%d-%d", late, late)).play(t)
			c := r.Channels[0]
			var got [][2]uint64
			for _, g := range slices.SortedFunc(slices.Values(c.Gaps.Unrecovered), func(a, b [2]uint64) int { return int(a[0]) - int(b[0]) }) {
				got = join(got, g)
			}
			require.GreaterOrEqual(t, len(missing), 2)
			require.Equal(t, missing, got)
			require.Equal(t, lost, [2]uint64{c.Lines[0].Lost, c.Lines[1].Lost})
			require.Equal(t, x.messages, c.Delivery.Delivered+c.Delivery.Unrecovered)
			require.Equal(t, "STALE", c.State)
			require.NotZero(t, r.Books.Stale)
		}
	})
}

// B cuts the same messages into other packets, and both lose some.
func TestOffloadedRecutLine(t *testing.T) {
	each(t, func(t *testing.T, x *spoiled) {
		w := x.wired(20*time.Millisecond, "-seed", "9", "-loss", "200", "-recut-b", "-lose-both", "1-20")
		w.mode = replay.Normal
		r := w.play(t)
		x.whole(t, r)
		b := r.Channels[0].Lines[1]
		require.NotZero(t, b.FirstWins)
		require.NotEqual(t, r.Channels[0].Lines[0].Packets, b.Packets)
	})
}

// The sender begins again in the same session (IEX-TP alone can tell, by its send times), and in another one. What one
// line still brings of the old numbers when the other has begun again is old; nothing is missing, for the other brought it.
func TestOffloadedRestart(t *testing.T) {
	each(t, func(t *testing.T, x *spoiled) {
		at, impair := []int{500, 1000}, []string{"-session-at", "500"}
		if x.proto == handler.DEEP {
			impair = []string{"-restart-at", "500", "-session-at", "1000"}
		} else {
			at = at[:1]
		}
		w := x.wired(10*time.Second, impair...)
		w.count = 1400
		r := w.play(t)
		c := r.Channels[0]
		require.Empty(t, c.Gaps.Unrecovered)
		require.Len(t, c.Epochs, len(at)+1)
		begin := uint64(1)
		for i, e := range c.Epochs {
			end := x.packets[1399].To
			if i < len(at) {
				end = x.packets[at[i]-1].From
			}
			require.Equal(t, [3]uint64{1, end - begin, end - begin}, [3]uint64{e.First, e.Last, e.Messages}, "epoch %d", i)
			begin = end
		}
		if x.proto == handler.DEEP {
			require.Equal(t, c.Epochs[0].Session, c.Epochs[1].Session)
		}
		require.NotEqual(t, c.Epochs[0].Session, c.Epochs[len(at)].Session)
	})
}

// Line B ends half-way; A goes on alone.
func TestOffloadedDeadLine(t *testing.T) {
	each(t, func(t *testing.T, x *spoiled) {
		r := x.wired(10*time.Second, "-dead-b", "600-").play(t)
		x.whole(t, r)
		_, lost := x.lost(replay.Impairment{Dead: [2]replay.Span{{}, {From: 600}}})
		require.Equal(t, lost, [2]uint64{r.Channels[0].Lines[0].Lost, r.Channels[0].Lines[1].Lost})
	})
}
