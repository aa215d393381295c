package live

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/stats"
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

// onEach runs a test on each kind of ring.
func onEach(t *testing.T, f func(t *testing.T, kind conf.RingKind)) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) { f(t, kind) })
	}
}

func freePort(t testing.TB) uint16 {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// group is one of the groups set aside for documentation and tests (RFC 6676).
func group(n byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{233, 252, 0, n}), port)
}

// scene is a capture replayed to a handler on loopback.
type scene struct {
	file     string
	proto    handler.Proto
	lines    int
	count    uint64
	pps      float64
	impair   replay.Impairment
	mode     replay.Mode // "": no recovery server
	attempts int
	gapTime  time.Duration
	start    uint64
	until    func(*Live) bool // what must have happened before it ends, besides that everything sent is dealt with
}

// missingInJournal is how many messages the journal of the one process in a directory has as missing and not as come later.
func missingInJournal(t *testing.T, dir string) (n uint64) {
	list, err := stats.List(dir)
	require.NoError(t, err)
	require.Len(t, list, 1)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	for _, e := range r.Events() {
		switch e.Kind {
		case stats.EventFeedGap.String():
			require.Contains(t, e.Text, "test ")
			require.Contains(t, e.Text, "@lo")
			n += e.Count
		case stats.EventRecovery.String():
			n -= e.Count
		}
	}
	return n
}

// closedFeeds are the counters of the feeds of the one process in a directory and of their lines, which are closed.
func closedFeeds(t *testing.T, dir string) map[string]uint64 {
	list, err := stats.List(dir)
	require.NoError(t, err)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	n := r.Closed(stats.Lines).Totals
	maps.Copy(n, r.Closed(stats.Feeds).Totals)
	return n
}

// play runs a scene to its end.
func (s scene) play(t *testing.T, kind conf.RingKind) (handler.Summary, replay.Report, []feed.Event) {
	port := freePort(t)
	ch := Channel{Handler: handler.Config{Proto: s.proto, Name: "test", Feed: feed.Config{Start: s.start, EpochStart: 1,
		GapTime: int64(max(s.gapTime, 2*time.Millisecond)), LineTimeout: int64(300 * time.Millisecond)}}}
	r := replay.Config{Pcap: captureFile(t, s.file), Interface: "lo", Count: s.count, Impair: s.impair, Mode: s.mode,
		PPS: s.pps}
	for i := range s.lines {
		g := group(byte(1+i), port)
		ch.Lines = append(ch.Lines, Line{Group: g, Interface: "lo"})
		r.Lines = append(r.Lines, replay.Line{To: g, Index: i})
	}
	if s.mode != "" {
		r.Recovery = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), freePort(t))
		ch.Recovery = r.Recovery
		ch.Handler.Feed.Recovery = feed.RecoveryConfig{Attempts: s.attempts, Timeout: int64(20 * time.Millisecond),
			Outstanding: 8, Budget: 2000, OnePacket: s.proto == handler.MoldUDP64}
	}
	var events []feed.Event
	ch.Handler.OnEvent = func(_ *handler.Channel, e *feed.Event) { events = append(events, *e) }
	dir := filepath.Join(t.TempDir(), "stats")
	t.Setenv("VMA_STATS_SHMEM_DIR", dir)
	l, err := Open(Config{Ring: kind, Channels: []Channel{ch}})
	require.NoError(t, err)
	var until func() bool
	if s.until != nil {
		until = func() bool { return s.until(l) }
	}
	rep := run(t, l, r, until)
	sum := l.Summary()
	k := sum.Channels[0]
	wins := uint64(0)
	for _, line := range k.Lines {
		wins += line.FirstWins
		require.Zero(t, line.KernelDrops, "no more was sent than fits into any buffer")
	}
	if k.Recovery != nil {
		wins += k.Recovery.FirstWins
	}
	require.Equal(t, k.Delivery.Delivered, wins)
	all := uint64(0)
	for _, e := range k.Epochs {
		all += e.Last - e.First + 1
	}
	require.Equal(t, all, k.Delivery.Delivered+k.Delivery.Unrecovered)
	require.Equal(t, k.Delivery.Unrecovered, missingInJournal(t, dir), "the journal that xtstat shows")
	published := closedFeeds(t, dir)
	require.Equal(t, k.Delivery.Delivered, published["delivered_messages"])
	require.Equal(t, k.Delivery.Unrecovered, published["unrecovered_messages"])
	require.Equal(t, k.Delivery.Delivered, published["first_messages"], "of all lines, the recovery server's too")
	return sum, rep, events
}

// The first 7,500 records of the DEEP capture, by expected/iex-deep10-20260713.json.
const (
	deepFile     = "iex/iex-deep10-20260713.pcap.gz"
	deepRecords  = 7500
	deepMessages = 56_203
	deepDigest   = "acfbc0442bf1d0fa92990172c726883760d09be80d71819543d8039504af17a4"
)

func deepScene() scene {
	return scene{file: deepFile, proto: handler.DEEP, lines: 2, count: deepRecords, start: 1}
}

func TestLiveWithoutLoss(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		s, _, _ := deepScene().play(t, kind)
		c := s.Channels[0]
		require.Equal(t, uint64(deepMessages), c.Messages)
		require.Equal(t, deepDigest, s.Books.Digest)
		require.Equal(t, uint64(deepMessages), c.Lines[0].Duplicates+c.Lines[1].Duplicates, "one line's worth")
		require.Equal(t, "SYNC", c.State)
		require.Empty(t, c.Gaps.Unrecovered)
	})
}

func TestLiveLossOnOneLineIsHealedByTheOther(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		sc := deepScene()
		sc.gapTime = patient // the other line brings everything, however long the sender is kept from it
		sc.impair = replay.Impairment{Seed: 3, Loss: [2]uint32{500, 0}, Reorder: [2]uint32{100, 100},
			Duplicate: [2]uint32{50, 50}, Foreign: [2]uint32{20, 0}, Truncate: [2]uint32{20, 0}}
		s, rep, _ := sc.play(t, kind)
		require.Equal(t, deepDigest, s.Books.Digest)
		require.NotZero(t, rep.Dropped[0])
		require.NotZero(t, s.Channels[0].Lines[0].Foreign+s.Channels[0].Lines[0].Malformed)
		require.Empty(t, s.Channels[0].Gaps.Unrecovered)
		require.NotZero(t, s.Channels[0].Lines[0].Lost)
		require.Zero(t, s.Channels[0].Lines[1].Lost)
	})
}

func TestLiveLossOnBothLinesIsRecovered(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, loss := range []uint32{100, 500} {
			sc := deepScene()
			sc.impair = replay.Impairment{Seed: 7, Loss: [2]uint32{loss, loss},
				Both: []replay.Span{{From: 5000, To: 5020}, {From: 7490, To: 7500}}}
			sc.mode, sc.attempts = replay.Normal, 20
			s, rep, _ := sc.play(t, kind)
			require.Equal(t, deepDigest, s.Books.Digest, "%d of 10,000", loss)
			require.Empty(t, s.Channels[0].Gaps.Unrecovered)
			require.NotZero(t, s.Channels[0].Delivery.Recovered)
			require.GreaterOrEqual(t, s.Channels[0].Gaps.Requests, rep.Requests)
			require.Equal(t, "SYNC", s.Channels[0].State)
		}
	})
}

func TestLiveRecutLineAndLateJoin(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		sc := deepScene()
		sc.impair = replay.Impairment{Seed: 9, Loss: [2]uint32{200, 200}, Recut: [2]bool{false, true},
			Both: []replay.Span{{From: 1, To: 50}}}
		sc.mode, sc.attempts = replay.Normal, 20
		s, _, _ := sc.play(t, kind)
		require.Equal(t, deepDigest, s.Books.Digest)
		require.Equal(t, uint64(deepMessages), s.Channels[0].Messages)
		require.Len(t, s.Channels[0].Epochs, 1, "lines that are cut differently are no restart")
	})
}

func TestLiveDeadLine(t *testing.T) {
	sc := deepScene()
	sc.pps = 5000 // the rest takes 0.9 s: three times as long as the alarm
	sc.impair.Dead[1] = replay.Span{From: 3000}
	s, _, events := sc.play(t, conf.RingAuto)
	require.Equal(t, deepDigest, s.Books.Digest)
	// Long before the end, while A goes on, B was reported dead and sent nothing more; the heartbeats at the end bring it
	// back.
	last := feed.Event{}
	for _, e := range events {
		if e.Line == 1 && (e.Kind == feed.LineDead || e.Kind == feed.LineAlive) && e.Seq < deepMessages-1000 {
			last = e
		}
	}
	require.Equal(t, feed.LineDead, last.Kind)
}

func TestLiveLossWithoutRecoveryLeavesThePredictedRanges(t *testing.T) {
	sc := deepScene()
	sc.lines = 1
	sc.impair.Both = []replay.Span{{From: 6000, To: 6000}, {From: 7000, To: 7001}}
	s, _, _ := sc.play(t, conf.RingAuto)
	c := s.Channels[0]
	require.Equal(t, "STALE", c.State)
	require.NotZero(t, s.Books.Stale)
	require.Equal(t, uint64(deepMessages), c.Messages+c.Delivery.Unrecovered)
	require.NotEmpty(t, c.Gaps.Unrecovered)
	require.LessOrEqual(t, len(c.Gaps.Unrecovered), 2, "a heartbeat may be among the lost packets")
}

func TestLiveRecoveryServerThatDoesNotHelp(t *testing.T) {
	for _, mode := range []replay.Mode{replay.Silent, replay.Refuse, replay.Partial, replay.Slow, replay.Limited} {
		t.Run(string(mode), func(t *testing.T) {
			sc := deepScene()
			sc.impair.Both = []replay.Span{{From: 6000, To: 6010}}
			sc.mode, sc.attempts = mode, 3
			switch mode {
			case replay.Partial, replay.Limited: // they help if one keeps asking, on a busy machine too
				sc.attempts = 20
			case replay.Slow: // the server still owes the answers
				sc.until = func(l *Live) bool { return l.Channels[0].Line(feed.Recovery).Late > 0 }
			case replay.Refuse: // the kernel's word for the last request may be on its way
				sc.until = func(l *Live) bool { return l.askers[0].refused > 0 }
			}
			s, _, _ := sc.play(t, conf.RingAuto)
			c := s.Channels[0]
			switch mode {
			case replay.Silent, replay.Refuse:
				require.Equal(t, uint64(3), c.Gaps.Requests, "bounded")
				require.Equal(t, "STALE", c.State)
				require.Len(t, c.Gaps.Unrecovered, 1)
			case replay.Partial, replay.Limited:
				require.Equal(t, deepDigest, s.Books.Digest)
			case replay.Slow: // the answer comes after everything was given up, and is counted as late
				require.Equal(t, uint64(3), c.Gaps.Requests)
				require.NotNil(t, c.Recovery)
				require.NotZero(t, c.Recovery.Late)
			}
			if mode == replay.Refuse {
				require.NotZero(t, c.Gaps.Rejects, "the refusal is heard")
			}
		})
	}
}

func TestLiveRestartAndSessionChange(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		sc := deepScene()
		sc.count, sc.gapTime = 6000, patient
		// With this seed A loses nothing just before either boundary: what B still has unread then would be lost.
		sc.impair = replay.Impairment{Seed: 4, Loss: [2]uint32{100, 0}, RestartAt: 2000, SessionAt: 4000}
		s, _, _ := sc.play(t, kind)
		e := s.Channels[0].Epochs
		require.Len(t, e, 3)
		for i := range e {
			require.Equal(t, uint64(1), e[i].First)
		}
		require.Equal(t, e[0].Session, e[1].Session)
		require.NotEqual(t, e[1].Session, e[2].Session)
		require.Empty(t, s.Channels[0].Gaps.Unrecovered)
	})
}

func TestParseLine(t *testing.T) {
	l, err := ParseLine("239.1.1.1:14340@eth0/10.0.0.1")
	require.NoError(t, err)
	require.Equal(t, "239.1.1.1:14340@eth0/10.0.0.1", l.String())
	for _, bad := range []string{"", "239.1.1.1:1", "10.0.0.1:1@lo", "239.1.1.1:0@lo", "239.1.1.1:1@",
		"239.1.1.1:1@lo/x"} {
		_, err := ParseLine(bad)
		require.ErrorContains(t, err, bad)
	}
}

// MoldUDP64 and ITCH: a BinaryFILE put into packets again; its server answers a request with one packet.
func TestLiveMoldUDP64(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		sc := scene{file: "nasdaq/nasdaq-itch50-aapl-20200130-first6000.bin", proto: handler.MoldUDP64, lines: 2, start: 1,
			mode: replay.Normal, attempts: 20,
			impair: replay.Impairment{Seed: 2, Loss: [2]uint32{500, 500}, Recut: [2]bool{false, true},
				Both: []replay.Span{{From: 1, To: 3}, {From: 700, To: 720}}}}
		s, _, _ := sc.play(t, kind)
		c := s.Channels[0]
		require.Equal(t, uint64(6000), c.Messages)
		require.Zero(t, *c.Unknown)
		require.Equal(t, 150, *c.Orders)
		require.Equal(t, []int{52, 45}, []int{s.Books.BidLevels, s.Books.AskLevels})
		require.Empty(t, c.Gaps.Unrecovered)
		require.NotZero(t, c.Delivery.Recovered)
		require.Equal(t, "BINARYFILE", c.Epochs[0].Session)
	})
}

// Nine channels on two lines each at once; the capture lost four packets on one line.
func TestLiveNineChannels(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		port := freePort(t)
		c := Config{Ring: kind}
		r := replay.Config{Pcap: captureFile(t, "cme/cme-mdp3-v9-20180912-9ch-ab.pcap"), Interface: "lo", Speed: 1}
		for i, ch := range []byte{3, 4, 5, 6, 7, 8, 19, 20, 29} {
			low := map[byte]uint16{19: 360, 20: 361, 29: 348}[ch]
			if low == 0 {
				low = 309 + uint16(ch)
			}
			k := Channel{Handler: handler.Config{Proto: handler.MDP3, Symbols: 1 << 10,
				Feed: feed.Config{GapTime: int64(patient)}}}
			for line := range 2 {
				from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{224, 0, 28, ch + byte(127*line)}), 14_000+uint16(1000*line)+low)
				to := group(byte(10+2*i+line), port)
				k.Lines = append(k.Lines, Line{Group: to, Interface: "lo"})
				r.Lines = append(r.Lines, replay.Line{From: from, To: to, Index: line})
			}
			c.Channels = append(c.Channels, k)
		}
		l, err := Open(c)
		require.NoError(t, err)
		run(t, l, r, nil)
		var packets, delivered, unrecovered, lost uint64
		for _, c := range l.Summary().Channels {
			require.Len(t, c.Lines, 2)
			for _, line := range c.Lines {
				packets += line.Packets
				lost += line.Lost
			}
			delivered += c.Delivery.Delivered
			unrecovered += c.Delivery.Unrecovered
			require.Equal(t, "SYNC", c.State)
			require.Zero(t, *c.RptSeq)
		}
		require.Equal(t, uint64(99), packets)
		require.Equal(t, uint64(5+5+8+9+3+2+9+8+3), delivered)
		require.Zero(t, unrecovered)
		require.Equal(t, uint64(5), lost, "three on A, two on B")
	})
}
