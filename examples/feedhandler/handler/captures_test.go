package handler

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// captureFile finds a capture: in the folder SOCKETXTREME_CAPTURES names, or in shared/captures beside the checkout.
func captureFile(t testing.TB, name string) string {
	dir := os.Getenv("SOCKETXTREME_CAPTURES")
	if dir == "" {
		dir = "../../../../shared/captures"
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		testnet.Missing(t, "capture "+name, fmt.Sprintf("%v; set SOCKETXTREME_CAPTURES to the folder that has it", err))
	}
	return path
}

// expectation is what expected/*.json says, as far as it is compared.
type expectation struct {
	Records     uint64            `json:"records"`
	NonUDP      uint64            `json:"non_udp_records"`
	Truncated   uint64            `json:"truncated_records"`
	Epochs      []expectedEpoch   `json:"epochs"`
	Messages    uint64            `json:"messages_total"`
	Types       map[string]uint64 `json:"types_total"`
	TradeVolume uint64            `json:"trade_volume"`
	FinalTOB    struct {
		Symbols, Crossed int
		TwoSided         int    `json:"two_sided"`
		Digest           string `json:"digest_sha256"`
		BidLevels        int    `json:"bid_levels_total"`
		AskLevels        int    `json:"ask_levels_total"`
	} `json:"final_tob"`
	Checkpoints []struct {
		After    uint64 `json:"after_record"`
		Messages uint64
		Symbols  int
		Digest   string `json:"digest_sha256"`
	} `json:"tob_checkpoints"`
	Channels []struct {
		LineA      string                           `json:"line_a"`
		LineB      string                           `json:"line_b"`
		PacketsA   uint64                           `json:"packets_a"`
		PacketsB   uint64                           `json:"packets_b"`
		First      uint64                           `json:"first_seq"`
		Last       uint64                           `json:"last_seq"`
		Unique     uint64                           `json:"unique_packets"`
		MissingA   []uint64                         `json:"missing_on_a"`
		MissingB   []uint64                         `json:"missing_on_b"`
		AFirst     uint64                           `json:"a_first"`
		BFirst     uint64                           `json:"b_first"`
		Skew       struct{ Min, Median, Max int64 } `json:"b_minus_a_ns"`
		SBE        uint64                           `json:"sbe_messages"`
		Templates  map[string]uint64                `json:"templates"`
		Entries    map[string]uint64                `json:"entries"`
		Securities int                              `json:"securities"`
		Trades     uint64                           `json:"trades"`
		TradeQty   uint64                           `json:"trade_qty"`
	} `json:"channels"`
}

type expectedEpoch struct {
	Session    uint64
	Packets    uint64
	First      uint64 `json:"first_seq"`
	Last       uint64 `json:"last_seq"`
	Messages   uint64
	Heartbeats uint64
}

func expected(t testing.TB, name string, into any) {
	b, err := os.ReadFile(captureFile(t, "expected/"+name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

// invariants are what a tester can check of any summary.
func invariants(t testing.TB, s Summary) {
	for _, c := range s.Channels {
		wins := uint64(0)
		for _, l := range c.Lines {
			wins += l.FirstWins
		}
		if c.Recovery != nil {
			wins += c.Recovery.FirstWins
		}
		require.Equal(t, c.Delivery.Delivered, wins, "first wins and recovered are what was delivered")
		all := uint64(0)
		for _, e := range c.Epochs {
			all += e.Last - e.First + 1
		}
		require.Equal(t, all, c.Delivery.Delivered+c.Delivery.Unrecovered, "delivered and unrecovered are all there was")
	}
}

func TestIEXCaptures(t *testing.T) {
	for _, c := range []struct{ name, file string }{
		{"iex-deep10-20260713", "iex/iex-deep10-20260713.pcap.gz"},
		{"iex-deep10-20170425-restart", "iex/iex-deep10-20170425-restart.pcap"},
		{"iex-tops16-20260713", "iex/iex-tops16-20260713.pcap.gz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want expectation
			expected(t, c.name, &want)
			o, err := OpenOffline(captureFile(t, c.file), Config{})
			require.NoError(t, err)
			require.Len(t, o.Channels, 1)
			ch := o.Channels[0]
			passed := 0
			o.OnRecord = func(n uint64) {
				if passed < len(want.Checkpoints) && want.Checkpoints[passed].After == n {
					p := want.Checkpoints[passed]
					require.Equal(t, p.Messages, ch.messages, "after record %d", n)
					require.Len(t, Tops(ch), p.Symbols, "after record %d", n)
					require.Equal(t, p.Digest, Digest(ch), "after record %d", n)
					passed++
				}
			}
			require.NoError(t, o.Run())
			require.Equal(t, len(want.Checkpoints), passed)
			s := o.Summary()
			invariants(t, s)
			require.Equal(t, want.Records, s.Capture.Records)
			require.Equal(t, want.Messages, s.Channels[0].Messages)
			require.Equal(t, want.Types, s.Channels[0].Types)
			require.Equal(t, want.TradeVolume, s.Channels[0].Volume)
			require.Zero(t, s.Channels[0].Skipped)
			require.Len(t, s.Channels[0].Epochs, len(want.Epochs))
			heartbeats := uint64(0)
			for i, e := range want.Epochs {
				require.Equal(t, EpochSummary{fmt.Sprint(e.Session), e.First, e.Last, e.Packets, e.Messages},
					s.Channels[0].Epochs[i])
				heartbeats += e.Heartbeats
			}
			require.Equal(t, heartbeats, s.Channels[0].Lines[0].Heartbeats)
			require.Equal(t, want.FinalTOB.Digest, s.Books.Digest)
			require.Equal(t, want.FinalTOB.Symbols, s.Books.Symbols)
			require.Equal(t, want.FinalTOB.TwoSided, s.Books.TwoSided)
			require.Equal(t, want.FinalTOB.Crossed, s.Books.Crossed)
			if want.FinalTOB.BidLevels > 0 {
				require.Equal(t, want.FinalTOB.BidLevels, s.Books.BidLevels)
				require.Equal(t, want.FinalTOB.AskLevels, s.Books.AskLevels)
			}
			require.Zero(t, s.Books.Stale)
			var csv bytes.Buffer
			require.NoError(t, WriteTops(&csv, o.Channels...))
			file, err := os.ReadFile(captureFile(t, "expected/"+c.name+".tob.csv"))
			require.NoError(t, err)
			if c.name[4:8] == "tops" { // the file has no level counts there
				require.Equal(t, strings.Count(string(file), "\n"), strings.Count(csv.String(), "\n"))
			} else {
				require.Equal(t, string(file), csv.String())
			}
		})
	}
}

func TestCMECaptures(t *testing.T) {
	for _, name := range []string{"cme-mdp3-v6-20161112-ab", "cme-mdp3-v9-20180912-9ch-ab"} {
		t.Run(name, func(t *testing.T) {
			var want expectation
			expected(t, name, &want)
			o, err := OpenOffline(captureFile(t, "cme/"+name+".pcap"), Config{})
			require.NoError(t, err)
			require.Len(t, o.Channels, len(want.Channels))
			require.NoError(t, o.Run())
			s := o.Summary()
			invariants(t, s)
			require.Equal(t, want.Records, s.Capture.Records)
			require.Equal(t, want.NonUDP, s.Capture.NonUDP)
			got := map[string]ChannelSummary{}
			byLine := map[string]*Channel{}
			for i, ch := range s.Channels {
				got[ch.Lines[0].Group] = ch
				byLine[ch.Lines[0].Group] = o.Channels[i]
			}
			for _, w := range want.Channels {
				ch := got[w.LineA]
				a, b := ch.Lines[0], ch.Lines[1]
				require.Equal(t, w.LineB, b.Group)
				require.Equal(t, []uint64{w.PacketsA, w.PacketsB}, []uint64{a.Packets, b.Packets})
				require.Equal(t, []uint64{uint64(len(w.MissingA)), uint64(len(w.MissingB))}, []uint64{a.Lost, b.Lost}, "%s",
					w.LineA)
				require.Equal(t, []EpochSummary{{"0", w.First, w.Last, w.PacketsA + w.PacketsB, w.Unique}}, ch.Epochs)
				require.Equal(t, w.Unique, ch.Delivery.Delivered)
				require.Equal(t, []uint64{w.AFirst, w.BFirst}, []uint64{ch.Skew.AFirst, ch.Skew.BFirst})
				require.Equal(t, w.Skew.Min, ch.Skew.Min)
				require.Equal(t, w.Skew.Max, ch.Skew.Max)
				require.Equal(t, w.Skew.Median, ch.Skew.P50)
				require.Equal(t, w.SBE, ch.Messages)
				require.Equal(t, w.Templates, ch.Types)
				for k, n := range w.Entries {
					require.Equal(t, n, ch.Entries[k], "entries of template %s", k)
				}
				require.Equal(t, w.Trades, ch.Trades)
				require.Equal(t, w.TradeQty, ch.Volume)
				require.Zero(t, *ch.RptSeq)
				require.Equal(t, "SYNC", ch.State)
			}
			file, err := os.ReadFile(captureFile(t, "expected/"+name+".rptseq.csv"))
			require.NoError(t, err)
			rows, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
			require.NoError(t, err)
			for _, r := range rows[1:] {
				var id int32
				_, err := fmt.Sscan(r[1], &id)
				require.NoError(t, err)
				require.Equal(t, r[2], fmt.Sprint(byLine[r[0]].levels.Security(id).RptSeq), "%v", r)
			}
			level1(t, captureFile(t, "cme/"+name+".pcap"), captureFile(t, "expected/"+name+".level1.csv"))
		})
	}
}

// level1 compares with what is known of the best levels: sides on which every depth that the book may have agrees, from
// the deepest level that was told of on.
func level1(t *testing.T, path, file string) {
	agreed, least := map[string]int{}, map[string]int{}
	for depth := book.MaxDepth; depth >= 1; depth-- {
		o, err := OpenOffline(path, Config{Depth: depth})
		require.NoError(t, err)
		require.NoError(t, o.Run())
		for _, c := range o.Channels {
			for _, s := range c.levels.Securities() {
				for side, kind := range []byte("01EF") {
					least[fmt.Sprintf("%d,%c", s.ID, kind)] = int(s.Deepest[side])
				}
			}
		}
		for _, p := range Positions(o.Channels...) {
			if depth >= least[fmt.Sprintf("%d,%c", p.Security, p.Type)] {
				agreed[p.row()]++
			}
		}
	}
	var got []string
	for r, n := range agreed {
		f := strings.Split(r, ",")
		if n == book.MaxDepth-max(1, least[f[0]+","+f[1]])+1 {
			got = append(got, r)
		}
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	want := strings.Split(strings.TrimSpace(string(b)), "\n")[1:]
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}

func TestNasdaqCaptures(t *testing.T) {
	t.Run("aapl", func(t *testing.T) {
		var want struct {
			Messages       uint64
			Types          map[string]uint64
			Unknown        uint64 `json:"unknown_order_references"`
			Executions     uint64
			ExecutedShares uint64 `json:"executed_shares"`
			HiddenTrades   uint64 `json:"non_displayed_trades"`
			HiddenShares   uint64 `json:"non_displayed_shares"`
			Live           int    `json:"live_orders"`
			Bids           int    `json:"bid_levels"`
			Asks           int    `json:"ask_levels"`
			Digest         string `json:"levels_digest_sha256"`
		}
		expected(t, "nasdaq-itch50-aapl-20200130-first6000", &want)
		o, err := OpenOffline(captureFile(t, "nasdaq/nasdaq-itch50-aapl-20200130-first6000.bin"), Config{})
		require.NoError(t, err)
		require.NoError(t, o.Run())
		s := o.Summary()
		c := o.Channels[0]
		require.Equal(t, want.Messages, s.Channels[0].Messages)
		require.Equal(t, want.Types, s.Channels[0].Types)
		require.Zero(t, c.orders.Unknown())
		require.Equal(t, want.Executions, c.trades)
		require.Equal(t, want.ExecutedShares, c.volume)
		require.Equal(t, want.HiddenTrades, c.hidden)
		require.Equal(t, want.HiddenShares, c.hiddenVolume)
		require.Equal(t, want.Live, c.orders.Len())
		require.Equal(t, want.Bids, s.Books.BidLevels)
		require.Equal(t, want.Asks, s.Books.AskLevels)
		file, err := os.ReadFile(captureFile(t, "expected/nasdaq-itch50-aapl-20200130-first6000.levels.csv"))
		require.NoError(t, err)
		var rows []string
		sym := c.books.Find(feed.SymbolOf("AAPL"))
		for _, l := range sym.Bid.Levels() {
			rows = append(rows, fmt.Sprintf("B,%d,%d,%d\n", l.Price, l.Size, l.Orders))
		}
		asks := slices.Clone(sym.Ask.Levels())
		slices.Reverse(asks)
		for _, l := range asks {
			rows = append(rows, fmt.Sprintf("S,%d,%d,%d\n", l.Price, l.Size, l.Orders))
		}
		require.Equal(t, string(file), "side,price_1e4,shares,orders\n"+strings.Join(rows, ""))
		h := sha256.Sum256([]byte(strings.Join(rows, "")))
		require.Equal(t, want.Digest, hex.EncodeToString(h[:]))
	})
	t.Run("by type", func(t *testing.T) {
		var want struct {
			Records uint64
			Types   map[string]uint64
		}
		expected(t, "nasdaq-itch50-by-type", &want)
		o, err := OpenOffline(captureFile(t, "nasdaq/nasdaq-itch50-by-type.pcap"), Config{})
		require.NoError(t, err)
		require.NoError(t, o.Run())
		s := o.Summary()
		require.Equal(t, want.Records, s.Capture.Records)
		require.Equal(t, want.Types, s.Channels[0].Types)
		require.Equal(t, want.Records, s.Channels[0].Lines[0].Unsequenced)
		require.Zero(t, s.Channels[0].Skipped)
	})
	t.Run("wire", func(t *testing.T) {
		var want struct {
			Types   map[string]uint64
			Packets []struct {
				Group, Session, Types string
				Seq, Count            uint64
			}
		}
		expected(t, "nasdaq-moldudp64-wire-samples", &want)
		o, err := OpenOffline(captureFile(t, "nasdaq/nasdaq-moldudp64-wire-samples.pcap"), Config{})
		require.NoError(t, err)
		require.NoError(t, o.Run())
		s := o.Summary()
		invariants(t, s)
		types := map[string]uint64{}
		for _, c := range s.Channels {
			for k, n := range c.Types {
				types[k] += n
			}
		}
		require.Equal(t, want.Types, types)
		require.Len(t, s.Channels, 2)
	})
}

func TestPITCHCapture(t *testing.T) {
	var want struct {
		Records uint64
		Units   []struct {
			Destination         string
			Packets, Heartbeats uint64
			Unsequenced         uint64  `json:"unsequenced_packets"`
			First               *uint64 `json:"first_seq"`
			Next                *uint64 `json:"next_seq"`
			Gaps                [][2]uint64
			Types               map[string]uint64
		}
	}
	expected(t, "bats-pitch-realtime", &want)
	o, err := OpenOffline(captureFile(t, "cboe/bats-pitch-realtime.pcap"), Config{})
	require.NoError(t, err)
	require.NoError(t, o.Run())
	s := o.Summary()
	invariants(t, s)
	require.Equal(t, want.Records, s.Capture.Records)
	require.Len(t, s.Channels, len(want.Units))
	for i, u := range want.Units {
		c := s.Channels[i]
		l := c.Lines[0]
		require.Equal(t, u.Destination, l.Group)
		require.Equal(t, u.Packets, l.Packets+l.Unsequenced)
		require.Equal(t, u.Types, c.Types)
		if u.First == nil {
			require.Equal(t, u.Unsequenced, l.Unsequenced)
			require.Empty(t, c.Epochs)
			continue
		}
		require.Equal(t, u.Heartbeats, l.Heartbeats)
		require.Equal(t, *u.First, c.Epochs[0].First)
		require.Equal(t, *u.Next, c.Epochs[0].Last+1)
		require.Equal(t, u.Gaps, c.Gaps.Unrecovered)
		require.Equal(t, "STALE", c.State)
	}
}
