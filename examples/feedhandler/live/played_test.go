package live

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed"
)

// everything is the lines of a capture that has one, sent on n lines.
func everything(p handler.Proto, n int) []wiredChannel {
	return []wiredChannel{{proto: p, from: make([]netip.AddrPort, n)}}
}

func expected(t *testing.T, name string, into any) {
	b, err := os.ReadFile(captureFile(t, "expected/"+name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

// wiredGap is how long a hole may be filled by the other line's packet, which was sent before the one that showed the hole.
const wiredGap = int64(250 * time.Millisecond)

// bothWays runs a test on an offloaded ring over cables, and on a kernel ring over loopback.
func bothWays(t *testing.T, f func(t *testing.T, loopback bool)) {
	t.Run("offloaded", func(t *testing.T) { f(t, false) })
	t.Run("loopback", func(t *testing.T) { f(t, true) })
}

// The IEX captures on two lines: counts, epochs, the books at each checkpoint and at the end.
func TestPlayedIEX(t *testing.T) { bothWays(t, playIEX) }

func playIEX(t *testing.T, loopback bool) {
	for _, c := range []struct {
		name, file string
		proto      handler.Proto
	}{
		{"iex-deep10-20260713", "iex/iex-deep10-20260713.pcap.gz", handler.DEEP},
		{"iex-tops16-20260713", "iex/iex-tops16-20260713.pcap.gz", handler.TOPS},
		{"iex-deep10-20170425-restart", "iex/iex-deep10-20170425-restart.pcap", handler.DEEP},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want struct {
				Records     uint64
				Messages    uint64            `json:"messages_total"`
				Types       map[string]uint64 `json:"types_total"`
				TradeVolume uint64            `json:"trade_volume"`
				Epochs      []struct {
					Session, Messages uint64
					First             uint64 `json:"first_seq"`
					Last              uint64 `json:"last_seq"`
				}
				FinalTOB struct {
					Symbols, Crossed int
					TwoSided         int    `json:"two_sided"`
					Digest           string `json:"digest_sha256"`
				} `json:"final_tob"`
				Checkpoints []struct {
					After    uint64 `json:"after_record"`
					Messages uint64
					Symbols  int
					Digest   string `json:"digest_sha256"`
				} `json:"tob_checkpoints"`
			}
			expected(t, c.name, &want)
			w := wired{loopback: loopback, file: c.file, channels: everything(c.proto, 2), feed: feed.Config{EpochStart: 1, GapTime: wiredGap}}
			// The kernel's rings, and short runs, get a quarter of the long ones: as far as there is a checkpoint.
			part := want.Records > 100_000 && (loopback || testing.Short())
			for _, p := range want.Checkpoints {
				if !part || p.After <= want.Records/4 {
					w.stops = append(w.stops, 2*p.After)
				}
			}
			if part {
				last := want.Checkpoints[len(w.stops)-1]
				w.count, want.Records, want.Messages, want.FinalTOB.Digest = last.After, last.After, last.Messages, last.Digest
			}
			w.at = func(stop int, l *Live) {
				p, ch := want.Checkpoints[stop], l.Channels[0]
				require.Equal(t, p.Messages, ch.Messages(), "after record %d", p.After)
				require.Len(t, handler.Tops(ch), p.Symbols, "after record %d", p.After)
				require.Equal(t, p.Digest, handler.Digest(ch), "after record %d", p.After)
			}
			r := w.play(t)
			ch := r.Channels[0]
			require.Equal(t, want.Messages, ch.Messages)
			require.Equal(t, want.FinalTOB.Digest, r.Books.Digest)
			require.Equal(t, "SYNC", ch.State)
			for i, line := range ch.Lines {
				require.Equal(t, want.Records+3, line.Packets, "line %d: the capture and three heartbeats", i)
				require.Zero(t, line.Lost)
			}
			require.Equal(t, want.Messages, ch.Lines[0].Duplicates+ch.Lines[1].Duplicates)
			if part {
				return
			}
			require.Equal(t, want.Types, ch.Types)
			require.Equal(t, want.TradeVolume, ch.Volume)
			require.Len(t, ch.Epochs, len(want.Epochs))
			for i, e := range want.Epochs {
				got := ch.Epochs[i]
				got.Packets = 0 // both lines' and the heartbeats at the end
				require.Equal(t, handler.EpochSummary{Session: fmt.Sprint(e.Session), First: e.First, Last: e.Last, Messages: e.Messages}, got)
			}
			require.Equal(t, []int{want.FinalTOB.Symbols, want.FinalTOB.TwoSided, want.FinalTOB.Crossed, 0},
				[]int{r.Books.Symbols, r.Books.TwoSided, r.Books.Crossed, r.Books.Stale})
			if c.proto == handler.DEEP { // the file for TOPS has no counts of levels
				file, err := os.ReadFile(captureFile(t, "expected/"+c.name+".tob.csv"))
				require.NoError(t, err)
				require.Equal(t, string(file), r.tops)
			}
		})
	}
}

// offline is what the same capture gives when it is read as a file, which the tests of package handler compare with what
// is expected, and its lines by channel.
func offline(t *testing.T, file string, f feed.Config) (handler.Summary, string, []wiredChannel) {
	o, err := handler.OpenOffline(captureFile(t, file), handler.Config{Feed: f})
	require.NoError(t, err)
	require.NoError(t, o.Run())
	s := o.Summary()
	var channels []wiredChannel
	for i := range s.Channels {
		w := wiredChannel{proto: o.Channels[i].Proto()}
		if e := s.Channels[i].Epochs; len(e) > 0 {
			w.start = e[0].First // not what happens to be read first: line B of two channels begins later than A
		}
		for _, line := range s.Channels[i].Lines {
			w.from = append(w.from, netip.MustParseAddrPort(line.Group))
		}
		channels = append(channels, w)
	}
	var b strings.Builder
	require.NoError(t, handler.WriteTops(&b, o.Channels...))
	return s, b.String(), channels
}

// same compares what does not depend on when packets came.
func same(t *testing.T, want, got handler.Summary) {
	require.Len(t, got.Channels, len(want.Channels))
	for i := range want.Channels {
		x, y := want.Channels[i], got.Channels[i]
		require.Equal(t, x.Messages, y.Messages)
		require.Equal(t, x.Types, y.Types)
		require.Equal(t, x.Entries, y.Entries)
		require.Equal(t, []uint64{x.Trades, x.Volume, x.Skipped}, []uint64{y.Trades, y.Volume, y.Skipped})
		require.Equal(t, x.RptSeq, y.RptSeq)
		require.Equal(t, x.Unknown, y.Unknown)
		require.Equal(t, x.Orders, y.Orders)
		require.Equal(t, x.Gaps.Unrecovered, y.Gaps.Unrecovered)
		require.Equal(t, x.State, y.State)
		require.Len(t, y.Epochs, len(x.Epochs))
		for k := range x.Epochs {
			y.Epochs[k].Packets = x.Epochs[k].Packets // heartbeats at the end
			require.Equal(t, x.Epochs[k], y.Epochs[k])
		}
		for k := range x.Lines {
			require.Equal(t, x.Lines[k].Lost, y.Lines[k].Lost, "channel %d line %d", i, k)
			require.Equal(t, x.Lines[k].Unsequenced, y.Lines[k].Unsequenced, "channel %d line %d", i, k)
		}
	}
	want.Books.Published = got.Books.Published
	require.Equal(t, want.Books, got.Books)
}

// Captures with their own lines: CME's pairs each on two interfaces, nine channels at once with losses on one line, a gap
// that was never sent, isolated packets, packets without a sequence.
func TestPlayedLinesOfCaptures(t *testing.T) { bothWays(t, playLines) }

func playLines(t *testing.T, loopback bool) {
	for _, c := range []struct {
		name, file string
		feed       feed.Config
	}{
		{"cme-mdp3-v6-20161112-ab", "cme/cme-mdp3-v6-20161112-ab.pcap", feed.Config{GapTime: wiredGap}},
		{"cme-mdp3-v9-20180912-9ch-ab", "cme/cme-mdp3-v9-20180912-9ch-ab.pcap", feed.Config{GapTime: wiredGap}},
		{"bats-pitch-realtime", "cboe/bats-pitch-realtime.pcap", feed.Config{GapTime: 1e6, MaxJump: 1 << 63}},
		{"nasdaq-moldudp64-wire-samples", "nasdaq/nasdaq-moldudp64-wire-samples.pcap",
			feed.Config{GapTime: 1e6, MaxJump: 1 << 63}},
		{"nasdaq-itch50-by-type", "nasdaq/nasdaq-itch50-by-type.pcap", feed.Config{GapTime: 1e6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, tops, channels := offline(t, c.file, feed.Config{MaxJump: c.feed.MaxJump})
			if c.name == "nasdaq-itch50-by-type" { // its addresses are blank
				channels = everything(handler.MoldUDP64, 1)
			}
			r := wired{loopback: loopback, file: c.file, channels: channels, feed: c.feed}.play(t)
			same(t, want, r.Summary)
			require.Equal(t, tops, r.tops)
			if strings.HasPrefix(c.name, "cme") {
				cmeExpected(t, c.name, r)
			}
			if strings.HasPrefix(c.name, "nasdaq") {
				var x struct{ Types map[string]uint64 }
				expected(t, c.name, &x)
				types := map[string]uint64{}
				for _, ch := range r.Channels {
					for k, n := range ch.Types {
						types[k] += n
					}
				}
				require.Equal(t, x.Types, types)
			}
		})
	}
}

// cmeExpected compares with the numbers of expected/ themselves.
func cmeExpected(t *testing.T, name string, r result) {
	var x struct {
		Channels []struct {
			First     uint64   `json:"first_seq"`
			Last      uint64   `json:"last_seq"`
			PacketsA  uint64   `json:"packets_a"`
			PacketsB  uint64   `json:"packets_b"`
			MissingA  []uint64 `json:"missing_on_a"`
			MissingB  []uint64 `json:"missing_on_b"`
			SBE       uint64   `json:"sbe_messages"`
			Templates map[string]uint64
			TradeQty  uint64 `json:"trade_qty"`
		}
	}
	expected(t, name, &x)
	row := func(first, last, a, b, lostA, lostB, sbe, qty uint64, templates map[string]uint64) string {
		return fmt.Sprint(first, last, a, b, lostA, lostB, sbe, qty, templates)
	}
	var want, got []string
	for _, k := range x.Channels {
		want = append(want, row(k.First, k.Last, k.PacketsA, k.PacketsB, uint64(len(k.MissingA)), uint64(len(k.MissingB)), k.SBE,
			k.TradeQty, k.Templates))
	}
	for _, k := range r.Channels {
		e := k.Epochs[0]
		got = append(got, row(e.First, e.Last, k.Lines[0].Packets, k.Lines[1].Packets, k.Lines[0].Lost, k.Lines[1].Lost, k.Messages,
			k.Volume, k.Types))
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)

	for _, k := range r.Channels {
		require.Zero(t, *k.RptSeq, "updates of securities missed")
	}
}

// Orders out of a BinaryFILE, put into packets again and sent on two lines: the book is that of the file.
func TestPlayedMoldUDP64(t *testing.T) { bothWays(t, playMold) }

func playMold(t *testing.T, loopback bool) {
	r := wired{loopback: loopback, file: moldFile, channels: everything(handler.MoldUDP64, 2), feed: feed.Config{Start: 1, EpochStart: 1,
		GapTime: wiredGap}}.play(t)
	moldBook(t, r)
	require.Equal(t, uint64(moldMessages), r.Channels[0].Lines[0].Duplicates+r.Channels[0].Lines[1].Duplicates)
	require.Zero(t, r.Channels[0].Lines[0].Lost+r.Channels[0].Lines[1].Lost)
}

const (
	moldFile     = "nasdaq/nasdaq-itch50-aapl-20200130-first6000.bin"
	moldMessages = 6000
)

// moldBook compares with what is expected of the whole file.
func moldBook(t *testing.T, r result) {
	var want struct {
		Messages       uint64
		Types          map[string]uint64
		Executions     uint64
		ExecutedShares uint64 `json:"executed_shares"`
		Live           int    `json:"live_orders"`
		Bids           int    `json:"bid_levels"`
		Asks           int    `json:"ask_levels"`
	}
	expected(t, "nasdaq-itch50-aapl-20200130-first6000", &want)
	c := r.Channels[0]
	require.Equal(t, want.Messages, c.Messages)
	require.Equal(t, want.Types, c.Types)
	require.Equal(t, []uint64{want.Executions, want.ExecutedShares, 0}, []uint64{c.Trades, c.Volume, *c.Unknown})
	require.Equal(t, []int{want.Live, want.Bids, want.Asks}, []int{*c.Orders, r.Books.BidLevels, r.Books.AskLevels})
	require.Equal(t, []handler.EpochSummary{{Session: "BINARYFILE", First: 1, Last: moldMessages, Packets: c.Epochs[0].Packets,
		Messages: moldMessages}}, c.Epochs)
	require.Equal(t, moldDigest(t), r.Books.Digest)
}

// moldDigest is the digest of the best levels when the file is read as one.
func moldDigest(t *testing.T) string {
	o, err := handler.OpenOffline(captureFile(t, moldFile), handler.Config{})
	require.NoError(t, err)
	require.NoError(t, o.Run())
	return o.Summary().Books.Digest
}
