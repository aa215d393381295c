package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// wiredWindow is how many packets may be on their way over the cables: a quarter of what the kernel's queue of a
// processor takes (net.core.netdev_max_backlog, 1,000), an eighth of an AF_XDP receive ring.
const wiredWindow = 256

// built is the folder of what buildSender made.
var built string

// buildSender makes the mdreplay command, once for all tests. Where there is no go command it takes the one that is installed: scripts/vm.sh
// brings it along.
var buildSender = sync.OnceValues(func() (path string, err error) {
	if _, err := exec.LookPath("go"); err != nil {
		return exec.LookPath("mdreplay")
	}
	if built, err = os.MkdirTemp("", "mdreplay"); err != nil {
		return "", err
	}
	path = filepath.Join(built, "mdreplay")
	if out, err := exec.Command("go", "build", "-o", path, "../mdreplay").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // a folder of temporary files
	}
	os.Exit(code)
}

// wired is a capture sent by mdreplay, another process, to a handler: over two cables from another network namespace to
// an offloaded ring, where line A comes in on v0 and line B on v1; or over loopback to a kernel ring.
type wired struct {
	loopback bool
	file     string
	channels []wiredChannel
	feed     feed.Config
	count    uint64 // records; 0 is all
	impair   []string
	mode     replay.Mode // "": no recovery server
	// At each of these numbers of packets sent the sender waits until everything is in the books, and at is called.
	stops []uint64
	at    func(stop int, l *Live)
}

// place is where a capture is played.
type place struct {
	ring           conf.RingKind
	tier           string // that sockets must have
	from           string // the sender's interfaces, as mdreplay takes them
	to             [2]string
	source         [2]netip.Addr
	port, recovery uint16
	window         uint64
	start          func(func()) // where the sender's process begins
}

// cables are two, to another namespace.
func cables(t *testing.T) place {
	n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
	return place{ring: conf.RingOffload, tier: "bypass", from: "p0,p1", to: [2]string{n.Device(0), n.Device(1)},
		source: [2]netip.Addr{n.Peer(0), n.Peer(1)}, port: 10_000, recovery: 10_001, window: wiredWindow, start: n.InPeer}
}

// loopback is the machine's own: its ports are chosen.
func loopback(t *testing.T) place {
	self := netip.MustParseAddr("127.0.0.1")
	return place{ring: conf.RingAuto, tier: "kernel", from: "lo", to: [2]string{"lo", "lo"}, source: [2]netip.Addr{self, self},
		port: freePort(t), recovery: freePort(t), window: window, start: func(f func()) { f() }}
}

// wiredChannel is one channel: where its lines are in the capture. A line that is not Valid is everything there is.
type wiredChannel struct {
	proto handler.Proto
	start uint64 // feed.Config.Start, if not 0
	from  []netip.AddrPort
}

// result is what came of it.
type result struct {
	handler.Summary
	live     *Live
	tops     string
	requests uint64 // that the recovery server received
}

// play runs it to its end, and checks what is true of every run: no packet was lost on the way or came by the kernel, no
// buffer was kept, and the sums are right.
func (w wired) play(t *testing.T) (r result) {
	t.Helper()
	pcap, err := filepath.Abs(captureFile(t, w.file))
	require.NoError(t, err)
	path, err := buildSender()
	if errors.Is(err, exec.ErrNotFound) {
		testnet.Missing(t, "mdreplay", "and the go command, which builds it")
	}
	require.NoError(t, err)
	place := loopback(t)
	if !w.loopback {
		place = cables(t)
	}
	args := []string{"-pcap", pcap, "-iface", place.from, "-speed", "max", "-credit", "-count", strconv.FormatUint(w.count, 10)}
	args = append(args, w.impair...)
	c := Config{Ring: place.ring}
	places := 0
	for _, k := range w.channels {
		ch := Channel{Handler: handler.Config{Proto: k.proto, Name: "test", Feed: w.feed}}
		if k.start > 0 {
			ch.Handler.Feed.Start = k.start
		}
		if len(w.channels) > 2 {
			ch.Handler.Symbols, ch.Handler.Levels, ch.Handler.Orders = 1<<10, 1<<14, 1<<16
		}
		var all []string
		for _, from := range k.from {
			side := places % 2 // as mdreplay has it: A, B, A, B …
			places++
			to := group(byte(places), place.port)
			ch.Lines = append(ch.Lines, Line{Group: to, Interface: place.to[side], Source: place.source[side]})
			all = append(all, to.String())
			if from.IsValid() {
				args = append(args, "-map", from.String()+"="+to.String())
			}
		}
		if !k.from[0].IsValid() {
			args = append(args, "-ab", strings.Join(all, ","))
		}
		if w.mode != "" {
			ch.Recovery = netip.AddrPortFrom(place.source[0], place.recovery)
			args = append(args, "-recovery", ch.Recovery.String(), "-recovery-mode", string(w.mode))
			ch.Handler.Feed.Recovery = feed.RecoveryConfig{Attempts: 20, Timeout: int64(50 * time.Millisecond), Outstanding: 8,
				Budget: 2000, OnePacket: k.proto == handler.MoldUDP64}
		}
		c.Channels = append(c.Channels, ch)
	}
	l, err := Open(c)
	require.NoError(t, err)
	for i, route := range l.routes {
		require.Equal(t, place.tier, route.socket.Path().Tier, "%s", l.Paths()[i])
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	s := startSender(t, ctx, place.start, path, args)
	p := &wiredPacer{pacer: pacer{l: l, cancel: cancel}, window: place.window, stops: w.stops, at: w.at, sender: s}
	p.next()
	l.polled = p.polled
	go p.credit(ctx)
	require.NoError(t, l.Run(ctx))
	require.NotErrorIs(t, ctx.Err(), context.DeadlineExceeded, "%d of %d packets read, %d parked; %s", p.read.Load(), p.sent.Load(),
		p.parked.Load(), s.said())
	said := s.stop(t)
	require.NotZero(t, p.sent.Load(), "%d packets read; mdreplay: %s", p.read.Load(), said)
	require.Equal(t, len(w.stops), p.passed, "all stops were reached")

	r = result{Summary: l.Summary(), live: l}
	heard := regexp.MustCompile(`(\d+) recovery requests`).FindStringSubmatch(said)
	require.NotNil(t, heard, said)
	r.requests, err = strconv.ParseUint(heard[1], 10, 64)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, handler.WriteTops(&b, l.Channels...))
	r.tops = b.String()
	r.check(t, p.sent.Load()-1)
	return r
}

// check is what is true of every run.
func (r *result) check(t *testing.T, sent uint64) {
	t.Helper()
	ring := r.Ring
	require.Zero(t, ring.LinkDrops, "%v", ring.Counters)
	require.Zero(t, ring.Counters["offload.os_packets"], "%v", ring.Counters)
	require.Zero(t, ring.Buffers.Held+ring.Buffers.Received+ring.Buffers.Lent, "%+v", ring.Buffers)
	lines := uint64(0)
	for i := range r.Channels {
		c := &r.Channels[i]
		wins, all := uint64(0), uint64(0)
		for _, line := range c.Lines {
			require.Zero(t, line.KernelDrops, line.Group)
			require.Zero(t, line.KernelPackets, line.Group)
			wins += line.FirstWins
			lines += line.Packets + line.Malformed + line.Foreign + line.Unsequenced
		}
		if c.Recovery != nil {
			require.Zero(t, c.Recovery.KernelPackets)
			require.Zero(t, c.Recovery.KernelDrops)
			wins += c.Recovery.FirstWins
		}
		require.Equal(t, c.Delivery.Delivered, wins)
		for _, e := range c.Epochs {
			all += e.Last - e.First + 1
		}
		require.Equal(t, all, c.Delivery.Delivered+c.Delivery.Unrecovered)
	}
	require.Equal(t, sent, lines, "every packet that was sent came over the links")
}

// sender is a running mdreplay.
type sender struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan struct{} // closed when its output ended

	mu   sync.Mutex
	text strings.Builder
	sent uint64 // what it says it has sent in the end, and one; 0 before
}

func startSender(t *testing.T, ctx context.Context, start func(func()), path string, args []string) *sender {
	t.Helper()
	s := &sender{cmd: exec.CommandContext(ctx, path, args...), out: make(chan struct{})}
	var err error
	s.in, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.cmd.Stderr = s.cmd.Stdout
	s.cmd.Cancel = s.in.Close // the end of its input ends it
	s.cmd.WaitDelay = patient
	start(func() { require.NoError(t, s.cmd.Start()) }) // in this thread's namespace
	go func() {
		defer close(s.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.mu.Lock()
			s.text.WriteString(lines.Text() + "\n")
			if n, ok := strings.CutSuffix(lines.Text(), " packets sent in all"); ok {
				if v, err := strconv.ParseUint(n, 10, 64); err == nil {
					s.sent = v + 1
				}
			}
			s.mu.Unlock()
		}
	}()
	return s
}

// said is what it printed.
func (s *sender) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *sender) total() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// stop ends it and returns what it printed.
func (s *sender) stop(t *testing.T) string {
	t.Helper()
	_ = s.in.Close() // closed already when the context has ended
	<-s.out
	err := s.cmd.Wait()
	if err != nil {
		require.ErrorIs(t, err, context.Canceled, "%s", s.said())
	}
	return s.said()
}

// wiredPacer is a pacer of another process, with stops.
type wiredPacer struct {
	pacer
	window uint64
	sender *sender
	stops  []uint64
	at     func(stop int, l *Live)
	passed int           // of the stops; the polling goroutine's
	limit  atomic.Uint64 // the next stop
}

// next is called when a stop was passed, and at the begin.
func (p *wiredPacer) next() {
	if p.passed < len(p.stops) {
		p.limit.Store(p.stops[p.passed])
	} else {
		p.limit.Store(math.MaxUint64)
	}
}

// polled is Live.polled: at a stop everything that was sent is read and nothing waits behind a hole.
func (p *wiredPacer) polled() {
	if p.sent.Load() == 0 {
		p.sent.Store(p.sender.total())
	}
	p.pacer.polled()
	if p.passed < len(p.stops) && p.read.Load() == p.stops[p.passed] && p.parked.Load() == 0 {
		p.at(p.passed, p.l)
		p.passed++
		p.next()
	}
}

// credit tells the sender how far it may go, until it has sent everything.
func (p *wiredPacer) credit(ctx context.Context) {
	given, read := uint64(0), uint64(0)
	moved := time.Now()
	for ctx.Err() == nil {
		now := p.read.Load()
		may := min(now+p.window, p.limit.Load())
		if p.parked.Load() >= mostParked {
			may = given
		}
		if now != read {
			read, moved = now, time.Now()
		}
		switch {
		case time.Since(moved) > patient: // nothing comes any more: the run ends, and says so
			p.cancel()
		case may >= given+p.window/4 || may > given && now+p.window/4 > given:
			if _, err := fmt.Fprintln(p.sender.in, may); err != nil {
				p.cancel() // it has ended: what it said reports why
				return
			}
			given = may
		}
		time.Sleep(50 * time.Microsecond)
	}
}
