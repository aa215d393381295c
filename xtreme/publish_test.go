package xtreme_test

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The words of the pages are the rows of the table, in this order.
func TestPagesAreTheTable(t *testing.T) {
	snake := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	for section, page := range map[string]any{stats.Rings: ring.RingPage{}, stats.Sockets: ring.SocketPage{}, stats.Pollers: ring.LoopPage{},
		stats.Feeds: xtreme.FeedPage{}, stats.Lines: xtreme.LinePage{}} {
		var words []string
		var walk func(v reflect.Type, name string)
		walk = func(v reflect.Type, name string) {
			switch v.Kind() {
			case reflect.Struct:
				for i := range v.NumField() {
					walk(v.Field(i).Type, v.Field(i).Name)
				}
			case reflect.Array:
				if v == reflect.TypeFor[ring.Peak]() {
					words = append(words, name)
					return
				}
				for range v.Len() {
					words = append(words, name)
				}
			default:
				require.Equal(t, reflect.Uint64, v.Kind(), "%s.%s", section, name)
				words = append(words, name)
			}
		}
		walk(reflect.TypeOf(page), "")
		s := stats.SectionOf(section)
		require.EqualValues(t, reflect.TypeOf(page).Size(), 8*s.Words(), section)
		require.Len(t, words, len(s.Counters), section)
		for i, w := range words {
			name := strings.ToLower(snake.ReplaceAllString(w, "${1}_$2"))
			if name = other[section+"."+name]; name == "" {
				name = strings.ToLower(snake.ReplaceAllString(w, "${1}_$2"))
			}
			require.True(t, strings.HasPrefix(s.Counters[i].Name, name), "%s: word %d is %s, and the table says %s", section, i, w, s.Counters[i].Name)
		}
	}
}

// other are the fields whose counters are called otherwise.
var other = map[string]string{"poller.gaps": "poll_gaps", "poller.gap_time": "poll_gap_time", "poller.gaps_below": "gaps_", "poller.gap": "poll_gap"}

// published is an engine whose file is in a directory of the test's.
func published(t *testing.T, kind conf.RingKind, change ...func(*conf.Settings)) (*cabled, *stats.Reader) {
	w := &cabled{net: testnet.New(t, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
	dir := filepath.Join(t.TempDir(), "stats")
	w.engine = w.newEngine(func(s *conf.Settings) {
		s.Ring, s.StatsDirectory = kind, dir
		for _, f := range change {
			f(s)
		}
	})
	w.poller = w.newPoller("test")
	list, err := stats.List(dir)
	w.NoError(err)
	w.Len(list, 1)
	w.True(list[0].Live)
	r, err := stats.Open(list[0].Path)
	w.NoError(err)
	t.Cleanup(func() { _ = r.Close() })
	return w, r
}

// ringOf and socketOf are what the file has of a socket and its ring.
func socketOf(t *testing.T, r *stats.Reader, s *xtreme.Socket) stats.View {
	for _, v := range r.Blocks(stats.Sockets) {
		if v.ID == uint64(s.ID()) {
			return v
		}
	}
	t.Fatalf("socket %d is not published", s.ID())
	return stats.View{}
}

func ringOf(t *testing.T, r *stats.Reader, s *xtreme.Socket) stats.View {
	v := socketOf(t, r, s)
	for _, x := range r.Blocks(stats.Rings) {
		if x.Index == v.Parent {
			return x
		}
	}
	t.Fatal("the socket's ring is not published")
	return stats.View{}
}

// What is counted is in the file at once: nothing is polled between the last packet and the look.
func TestPublishedCountersAreExact(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w, r := published(t, kind)
		s := w.udp(w.at(0))
		peer := w.net.Dial(s.LocalAddr())
		const n = 200
		for range n {
			w.write(peer, "twelve bytes")
			c := w.event(s, xtreme.EventPacket)
			w.NoError(c.Packet.Release())
			_, err := s.SendTo([]byte("five!"), addr(peer.LocalAddr()))
			w.NoError(err)
		}
		v, x := socketOf(t, r, s), ringOf(t, r, s)
		for _, counts := range []stats.View{v, x} {
			w.EqualValues(n, counts.Value("packets"), counts.Section)
			w.EqualValues(12*n, counts.Value("bytes"))
			w.EqualValues(n, counts.Value("sent_messages"))
			w.EqualValues(5*n, counts.Value("sent_bytes"))
		}
		own := s.Ring().Stats()
		w.Equal(own.Polls, x.Value("polls"))
		w.Equal(own.Completions, x.Value("completions"))
		w.Equal(s.LocalAddr().String(), v.Info["local"])
		w.Equal("udp", v.Info["protocol"])
		polledUntil(w, func() bool { return socketOf(t, r, s).Info["state"] == "open" }) // stored some ten times a second
		w.Equal(s.Path().String(), v.Info["path"])
		w.Equal(s.Ring().Kind(), x.Info["kind"])
		w.EqualValues(own.Packets, s.Stats().Packets)
		if kind == conf.RingOffload {
			polledUntil(w, func() bool { // copied by the owner, once a second
				d := r.Blocks(stats.Drivers)
				return len(d) == 1 && d[0].Totals["stack.delivered"] == n && d[0].Totals["stack.sent"] == n
			})
			w.Len(r.Blocks(stats.Drops), 1)
		}
		w.close(s)
		w.Empty(r.Blocks(stats.Sockets))
		closed := r.Closed(stats.Sockets)
		w.EqualValues(n, closed.Value("packets"), "closed sockets stay in the sums")
		w.EqualValues(n, s.Ring().Stats().Packets)
	})
}

// Each counter that a ring on an interface has is in the table, with what it means: views, help and docs are made from it.
func TestEveryCounterIsInTheTable(t *testing.T) {
	w, r := published(t, conf.RingOffload, func(s *conf.Settings) { s.Offload.Capture = filepath.Join(t.TempDir(), "capture") })
	w.udp(w.at(0))
	polledUntil(w, func() bool {
		d := r.Blocks(stats.Drivers)
		return len(d) == 1 && len(d[0].Names) > 0
	})
	d := r.Blocks(stats.Drivers)[0]
	w.Zero(d.Unnamed)
	for _, name := range d.Names {
		row := stats.SectionOf(stats.Drivers).Find(name)
		w.NotNil(row, name)
		w.NotEmpty(row.Help, name)
	}
	w.Contains(d.Names, w.net.Device(0)+".xdp.rx_ring_full")
	w.Contains(d.Names, w.net.Device(0)+".steer.hit")
}

// An interface that goes down and comes back is in the journal, with the reason.
func TestLinkEventsAreInTheJournal(t *testing.T) {
	w, r := published(t, conf.RingOffload)
	s := w.udp(w.at(0))
	link := func(what string) func() bool {
		return func() bool {
			for _, e := range r.Events() {
				if e.Kind == "link" && strings.HasPrefix(e.Text, w.net.Device(0)+": "+what) {
					return true
				}
			}
			return false
		}
	}
	path := func(lost bool) func() bool {
		return func() bool {
			for _, e := range r.Events() {
				if e.Kind == "path" && strings.Contains(e.Text, s.LocalAddr().String()) && strings.Contains(e.Text, "link.down") == lost {
					return true
				}
			}
			return false
		}
	}
	set := func(do func(netlink.Link) error) {
		l, err := netlink.LinkByName(w.net.Device(0))
		w.NoError(err)
		w.NoError(do(l))
	}
	set(netlink.LinkSetDown)
	polledUntil(w, link("link.down: "))
	polledUntil(w, path(true))
	set(netlink.LinkSetUp)
	polledUntil(w, link("carries frames"))
	polledUntil(w, path(false))
}

// polledUntil polls until a condition holds.
func polledUntil(w *cabled, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		w.True(time.Now().Before(end), "it never holds")
		_, err := w.poller.Poll(make([]xtreme.Completion, 4))
		w.NoError(err)
	}
}

// A frame that is dropped is in the file when Poll has dropped it, with its reason, and in the journal some milliseconds later.
func TestPublishedDropsHaveTheirReason(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		if kind != conf.RingOffload {
			return // the kernel drops for the others
		}
		w, r := published(t, kind)
		s := w.udp(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{Budget: 1 << 14}})
		peer := w.net.Dial(s.LocalAddr())
		w.write(peer, "first")
		w.NoError(w.event(s, xtreme.EventPacket).Packet.Release())
		done := make([]xtreme.Completion, 64)
		var held []xtreme.Completion
		drops := func() uint64 { return r.Blocks(stats.Drops)[0].Totals["udp.budget"] }
		for i := 0; drops() < 10; i++ {
			w.Less(i, 100_000)
			w.write(peer, strings.Repeat("x", 1000))
			n, err := w.poller.Poll(done)
			w.NoError(err)
			held = append(held, done[:n]...)
		}
		total := drops()
		w.Equal(total, s.Stats().Drops)
		var noted uint64
		w.Eventually(func() bool {
			noted = 0
			for _, e := range r.Events() {
				if e.Kind == "drop" && e.Text == "udp.budget" {
					noted += e.Count
				}
			}
			return noted == total
		}, 20*time.Second, 5*time.Millisecond, "%d of %d", noted, total)
		for _, c := range held {
			if c.Packet.Valid() {
				w.NoError(c.Packet.Release())
			}
		}
	})
}

func TestSocketsBeyondTheFileAreCounted(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w, r := published(t, kind, func(s *conf.Settings) { s.StatsSockets = 2 })
		for range 5 {
			w.udp(w.at(0))
		}
		w.Len(r.Blocks(stats.Sockets), 2)
		w.EqualValues(3, r.Unpublished(stats.Sockets))
	})
}

// A sample's peak shows a burst that a mean over its second hides.
func TestBurstIsThePeakOfItsSecond(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	s := w.udp(w.at(0))
	peer := w.net.Dial(s.LocalAddr())
	const n = 40
	for range n {
		w.write(peer, "burst")
	}
	time.Sleep(20 * time.Millisecond) // they wait in the kernel
	done := make([]xtreme.Completion, 64)
	got, most := 0, 0
	for i := 0; got < n; i++ {
		w.Less(i, 1_000_000)
		k, err := w.poller.Poll(done)
		w.NoError(err)
		most = max(most, k)
		for _, c := range done[:k] {
			if c.Events.Has(xtreme.EventPacket) {
				got++
				w.NoError(c.Packet.Release())
			}
		}
	}
	w.Eventually(func() bool {
		for _, x := range r.Samples() {
			if x.Values["ring.batch"] == uint64(most) {
				return true
			}
		}
		return false
	}, 5*time.Second, 20*time.Millisecond, "%v", r.Blocks(stats.Rings))
}

// A goroutine that does not poll for a while has a gap; one that sleeps in Wait has none.
func TestPollGapsAreNoted(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	w.udp(w.at(0))
	done := make([]xtreme.Completion, 4)
	poll := func() {
		_, err := w.poller.Poll(done)
		w.NoError(err)
	}
	longest := func() (d time.Duration) {
		for _, e := range r.Events() {
			if e.Kind == "poll_gap" {
				d = max(d, time.Duration(e.Count))
			}
		}
		return d
	}
	poll()
	poll()
	time.Sleep(300 * time.Millisecond)
	poll()
	w.Eventually(func() bool { return longest() >= 295*time.Millisecond }, 20*time.Second, 5*time.Millisecond) // named some milliseconds later
	gap := longest()
	w.NotZero(r.Blocks(stats.Pollers)[0].Totals["gaps_longer"])
	poll()
	end := time.Now().Add(2 * gap)
	for time.Now().Before(end) {
		w.NoError(w.poller.WaitFor(time.Until(end)))
	}
	poll()
	w.Less(longest(), 2*gap, "a sleep is no gap")
}

func TestSleepIsMeasuredWhenAsked(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, asked := range []bool{true, false} {
			w, r := published(t, kind, func(s *conf.Settings) { s.CPUUsage = asked })
			w.udp(w.at(0))
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			for ctx.Err() == nil {
				_, err := w.poller.Poll(make([]xtreme.Completion, 4))
				w.NoError(err)
				_ = w.poller.Wait(ctx)
			}
			slept := time.Duration(r.Blocks(stats.Pollers)[0].Totals["sleep_time"])
			w.Zero(r.Blocks(stats.Pollers)[0].Totals["asleep_since"], "it is awake")
			if !asked {
				w.Zero(slept)
				continue
			}
			under := make(chan uint64, 1)
			woken := time.Now()
			go func() {
				// It may be awake for a moment when it is looked at.
				var since uint64
				for end := time.Now().Add(5 * time.Second); since == 0 && time.Now().Before(end); {
					time.Sleep(20 * time.Millisecond)
					since = r.Blocks(stats.Pollers)[0].Totals["asleep_since"]
				}
				under <- since
				w.poller.Wake()
			}()
			for len(under) == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = w.poller.Wait(ctx) // its end is no error here
				cancel()
				_, err := w.poller.Poll(make([]xtreme.Completion, 4))
				w.NoError(err)
			}
			since := time.Unix(0, int64(<-under))
			w.False(since.Before(woken), since)
			w.True(since.Before(time.Now()), since)
			w.Greater(slept, 10*time.Millisecond)
			w.LessOrEqual(slept, time.Since(begin))
		}
	})
}

// What the application opens is described as it is at once, and not with a later Poll: a server that nobody talks to sleeps from then on.
func TestSocketsAreDescribedBeforeTheFirstPoll(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w, r := published(t, kind)
		u, l := w.udp(w.at(0)), w.listen()
		state := func(s *xtreme.Socket) string { return socketOf(t, r, s).Info["state"] }
		w.Equal("open", state(u))
		w.Equal("listening", state(l))
		w.Equal(l.Path().String(), socketOf(t, r, l).Info["path"])
		c, err := w.poller.DialTCP(l.LocalAddr(), xtreme.DialConfig{})
		w.NoError(err)
		w.Equal("connecting", state(c))
		w.Equal(l.LocalAddr().String(), socketOf(t, r, c).Info["remote"])
		to := netip.AddrPortFrom(w.net.Peer(0), 9)
		w.NoError(u.Connect(to))
		w.Equal(to.String(), socketOf(t, r, u).Info["remote"])
	})
}

// The same for unix-domain sockets, whose names take the place of addresses.
func TestUnixSocketsAreDescribedBeforeTheFirstPoll(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w, r := published(t, kind)
		name := "@" + t.Name()
		l, err := w.poller.ListenUnix(name, xtreme.UnixListenConfig{})
		w.NoError(err)
		c, err := w.poller.DialUnix(name, xtreme.UnixDialConfig{})
		w.NoError(err)
		listener, dialled := socketOf(t, r, l).Info, socketOf(t, r, c).Info
		w.Equal("listening", listener["state"])
		w.Equal(name, listener["local"])
		w.Equal("connecting", dialled["state"])
		w.Equal(name, dialled["remote"])
		w.Equal(c.Path().String(), dialled["path"])
	})
}

// A program that waits on the poller's descriptor, in an epoll set of its own for instance, sleeps from Arm to the next Poll, however many rings
// it has armed.
func TestSleepOnTheDescriptorIsMeasured(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, asked := range []bool{true, false} {
			w, r := published(t, kind, func(s *conf.Settings) { s.CPUUsage, s.RingLogic = asked, int(ring.PerSocket) })
			for range 3 {
				w.udp(w.at(0))
			}
			begin := time.Now()
			for range 10 {
				_, err := w.poller.Poll(make([]xtreme.Completion, 4))
				w.NoError(err)
				fd, err := w.poller.FD()
				w.NoError(err)
				pending, err := w.poller.Arm()
				w.NoError(err)
				if !pending {
					_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20)
				}
			}
			_, err := w.poller.Poll(make([]xtreme.Completion, 4))
			w.NoError(err)
			slept := time.Duration(r.Blocks(stats.Pollers)[0].Totals["sleep_time"])
			if !asked {
				w.Zero(slept)
				continue
			}
			w.Greater(slept, 40*time.Millisecond)
			w.LessOrEqual(slept, time.Since(begin))
		}
	})
}

func TestNothingIsPublishedWithoutADirectory(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	before, err := stats.List(stats.DefaultDirectory())
	require.NoError(t, err)
	var log strings.Builder
	engine := func(directory string) {
		s := conf.Default()
		s.Ring, s.StatsDirectory, s.Logger = conf.RingEpoll, directory, slog.New(slog.NewTextHandler(&log, nil))
		e, err := xtreme.New(s)
		require.NoError(t, err)
		p, err := e.NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.NoError(t, e.Close())
	}
	engine("")
	after, err := stats.List(stats.DefaultDirectory())
	require.NoError(t, err)
	for _, x := range after {
		if !slices.Contains(before, x) {
			require.NotEqual(t, os.Getpid(), x.Process)
		}
	}
	require.Empty(t, log.String())

	// A directory that cannot be had is told, and keeps no program from running.
	engine(filepath.Join(t.TempDir(), "nowhere", "else"))
	require.Contains(t, log.String(), "nowhere/else")
}

// What the program notes is in the journal, and costs no memory.
func TestProgramsNoteEvents(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	w.engine.Note(xtreme.NoteFeedGap, 3, "line A 100-102")
	e := r.Events()
	last := e[len(e)-1]
	w.Equal("feed_gap", last.Kind)
	w.EqualValues(3, last.Count)
	w.Equal("line A 100-102", last.Text)
	w.WithinDuration(time.Now(), last.Time, time.Minute)
	w.Zero(testnet.LeastAllocs(100, func() { w.engine.Note(xtreme.NoteRecovery, 1, "line B") }))
}

// A gap in a feed has its feed and its times in the journal. It begins so long before its end as as many messages took in front of it, and not
// before the last packet in front of it; where that is not known, with this packet.
func TestProgramsNoteGaps(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	for _, c := range []struct{ took, latest int64 }{{30, 970}, {300, 900}, {0, 900}} {
		w.engine.NoteGap(&xtreme.FeedGap{Feed: "deep", Messages: 3, Text: "deep 1-3 missing", Before: 900, Behind: 1000, Took: c.took})
		e := r.Events()
		i := slices.IndexFunc(e, func(e stats.Event) bool { return e.Kind == "feed_gap" && e.Latest.UnixNano() == c.latest })
		w.GreaterOrEqual(i, 0, "%+v", e)
		w.Equal([]any{uint64(3), "deep", "deep 1-3 missing", int64(900), int64(1000)},
			[]any{e[i].Count, e[i].Name, e[i].Text, e[i].Earliest.UnixNano(), e[i].End.UnixNano()})
	}
}

// xtstat's -l and -D change the log of an engine. A logger that code gives is the program's: it is an error.
func TestLogLevelOfALoggerOfTheProgram(t *testing.T) {
	for name, change := range map[string]func(*conf.Settings){
		"by code":    func(s *conf.Settings) { s.Logger = slog.New(slog.DiscardHandler) },
		"by nobody":  func(*conf.Settings) {},
		"by level":   func(s *conf.Settings) { s.LogLevel = conf.LogError },
		"by file":    func(s *conf.Settings) { s.LogFile = filepath.Join(t.TempDir(), "log") },
		"by details": func(s *conf.Settings) { s.LogDetails = 1 },
	} {
		s := conf.Default()
		dir, err := os.MkdirTemp("", "sx") // with the name of this test the name of a socket there would be too long
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		s.Ring, s.StatsDirectory = conf.RingEpoll, filepath.Join(dir, "stats")
		change(&s)
		e, err := xtreme.New(s)
		require.NoError(t, err)
		list, err := stats.List(s.StatsDirectory)
		require.NoError(t, err)
		require.Len(t, list, 1)
		r, err := stats.Open(list[0].Path)
		require.NoError(t, err)
		for _, with := range []map[string]any{{"level": "panic"}, {"details": 2}} {
			in, err := r.Ask("log", with)
			if name == "by code" {
				require.ErrorContains(t, err, "its level is the program's to set", name)
				continue
			}
			require.NoError(t, err, name)
			require.NoError(t, in.Close())
		}
		require.NoError(t, r.Close())
		require.NoError(t, e.Close())
	}
}
