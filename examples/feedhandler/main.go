// Feedhandler turns market data into books: from capture files, from multicast lines on rings, or, without arguments,
// from a synthetic exchange of its own on loopback, whose books it must reproduce.
//
//	go run ./examples/feedhandler                                  # the exchange: ten seconds, lossy lines, recovery
//	go run ./examples/feedhandler -pcap deep.pcap.gz -summary s.json -tob t.csv -events e.jsonl
//	go run ./examples/feedhandler -proto deep -a 239.1.1.1:10378@eth1 -b 239.1.1.2:10378@eth2 -recovery 10.0.0.9:10379
//
// With -ring offload the lines come past the kernel's stack; docs/feedhandler.md has that and what is printed at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed"
)

// config is the command line.
type config struct {
	pcap                 string
	proto                handler.Proto
	channels             []live.Channel
	ring                 conf.RingKind
	summary, tob, events string
	gap                  time.Duration
	attempts             int
	start                uint64
	idle, duration       time.Duration
	offset               time.Duration
	spin                 bool
	rate, loss           int
	seed                 uint64
}

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "feedhandler:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch {
	case c.pcap != "":
		err = offline(c)
	case len(c.channels) > 0:
		err = listen(ctx, c)
	default:
		err = exchange(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "feedhandler:", err)
		os.Exit(1)
	}
}

// lineTimeout is how long a line may be silent.
const lineTimeout = 3 * time.Second

// feedConfig is the sequencer's part of the command line.
func (c *config) feedConfig(recovery bool, p handler.Proto) feed.Config {
	f := feed.Config{Start: c.start, EpochStart: 1, GapTime: int64(c.gap), LineTimeout: int64(lineTimeout)}
	if p == handler.MDP3 {
		f.EpochStart = 0
	}
	if recovery {
		f.Recovery = feed.RecoveryConfig{Attempts: c.attempts, Timeout: int64(50 * time.Millisecond), Outstanding: 4,
			Budget: 1000, OnePacket: p == handler.MoldUDP64}
	}
	return f
}

// offline reads a capture.
func offline(c config) error {
	r, err := openReports(c)
	if err != nil {
		return err
	}
	f := c.feedConfig(false, c.proto)
	f.LineTimeout = 0 // alarms are for the living
	o, err := handler.OpenOffline(c.pcap, handler.Config{Proto: c.proto, Feed: f, ClockOffset: int64(c.offset),
		OnEvent: r.onEvent()})
	if err != nil {
		return err
	}
	begin := time.Now()
	cut := o.Run()
	if cut != nil && !errors.Is(cut, io.ErrUnexpectedEOF) {
		return cut
	}
	took := time.Since(begin)
	s := o.Summary()
	tell(os.Stdout, &s)
	fmt.Printf("%d records in %v, file reading included\n", o.Records, took.Round(time.Millisecond))
	return errors.Join(r.finish(&s, o.Channels), cut) // what is there was handled; that there should be more is an error all the same
}

// listen handles live lines.
func listen(ctx context.Context, c config) error {
	r, err := openReports(c)
	if err != nil {
		return err
	}
	v := &view{out: os.Stdout, terminal: isTerminal(os.Stdout), channels: c.channels}
	for i := range c.channels {
		ch := &c.channels[i]
		ch.Handler = handler.Config{Proto: c.proto, Name: fmt.Sprintf("channel%d", i+1), ClockOffset: int64(c.offset),
			OnEvent: v.watched(r.onEvent()), Feed: c.feedConfig(ch.Recovery.IsValid(), c.proto)}
	}
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	l, err := live.Open(live.Config{Ring: c.ring, Channels: c.channels, Idle: c.idle, Spin: c.spin, Each: v.each, Moved: v.moved})
	if err != nil {
		return err
	}
	paths := l.Paths()
	fmt.Println(strings.Join(paths, "\n"))
	err = l.Run(ctx)
	v.tellNotes()
	if err != nil {
		return err
	}
	s := l.Summary()
	s.Paths = paths
	tell(os.Stdout, &s)
	return r.finish(&s, l.Channels)
}

// exchange runs our own exchange and a handler beside it, and compares their books.
func exchange(ctx context.Context, c config) error {
	r, err := openReports(c)
	if err != nil {
		return err
	}
	free, err := freePorts(2)
	if err != nil {
		return err
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	x := &replay.Exchange{Interface: "lo", Rate: c.rate, Duration: c.duration, Symbols: 60,
		Recovery: netip.AddrPortFrom(loopback, free[1]),
		Impair: replay.Impairment{Seed: c.seed, Loss: [2]uint32{uint32(c.loss), uint32(c.loss)}, Reorder: [2]uint32{20, 20},
			Duplicate: [2]uint32{10, 10}, BurstLen: 3, BurstGap: 2000, Recut: [2]bool{false, true}}}
	f := c.feedConfig(true, handler.DEEP)
	f.Start = 1
	v := &view{out: os.Stdout, terminal: isTerminal(os.Stdout)}
	ch := live.Channel{Recovery: x.Recovery,
		Handler: handler.Config{Proto: handler.DEEP, Name: "exchange", Feed: f, OnEvent: v.watched(r.onEvent())}}
	for i := range x.Lines {
		x.Lines[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{233, 252, 0, byte(1 + i)}), free[0])
		ch.Lines = append(ch.Lines, live.Line{Group: x.Lines[i], Interface: "lo"})
	}
	// The handler's first message not yet in the books; the exchange stays for requests until it has everything.
	var next atomic.Uint64
	x.Caught = func(n uint64) bool { return next.Load() >= n }
	v.channels = []live.Channel{ch}
	l, err := live.Open(live.Config{Ring: c.ring, Channels: v.channels, Spin: c.spin, Moved: v.moved, Each: func(l *live.Live) {
		next.Store(l.Channels[0].Stats().Next)
		v.each(l)
	}})
	if err != nil {
		return err
	}
	paths := l.Paths()
	fmt.Printf("A synthetic exchange sends %d packets a second on two multicast groups of loopback, A and B, for %v.\n"+
		"Each line loses %.1f %% of its packets, and bursts besides; B carries the same messages in other packets.\n"+
		"What both lost is asked for at a recovery server. At the end the handler's books must be the exchange's own.\n%s\n",
		c.rate, c.duration, float64(c.loss)/100, strings.Join(paths, "\n"))
	type result struct {
		report replay.ExchangeReport
		err    error
	}
	closed := make(chan result, 1)
	// An interrupt closes the exchange; the handler listens until that has gone.
	listening, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	go func() {
		defer over()
		report, err := x.Run(ctx)
		closed <- result{report, err}
	}()
	err = l.Run(listening)
	v.tellNotes()
	if err != nil {
		return err
	}
	end := <-closed
	if end.err != nil {
		return end.err
	}
	s := l.Summary()
	s.Paths = paths
	tell(os.Stdout, &s)
	if err := r.finish(&s, l.Channels); err != nil {
		return err
	}
	return compare(end.report, &s)
}

// compare prints the exchange's own account beside the handler's.
func compare(x replay.ExchangeReport, s *handler.Summary) error {
	c := &s.Channels[0]
	fmt.Printf("the exchange's own account: %d messages in %d packets, %d trades of %d shares\n", x.Messages, x.Packets,
		x.Trades, x.Volume)
	fmt.Printf("  line A: %d packets sent, %d lost on purpose; line B: %d sent, %d lost; %d recovery requests heard\n",
		x.Sent[0], x.Dropped[0], x.Sent[1], x.Dropped[1], x.Requests)
	fmt.Printf("  books: %d symbols; digest %s\n", x.Symbols, x.Digest)
	switch {
	case c.Messages != x.Messages || c.Trades != x.Trades || c.Volume != x.Volume:
		return fmt.Errorf("not equal: %d of %d messages, %d of %d trades, %d of %d shares",
			c.Messages, x.Messages, c.Trades, x.Trades, c.Volume, x.Volume)
	case s.Books.Digest != x.Digest || s.Books.Symbols != x.Symbols:
		return fmt.Errorf("not equal: the books differ: %s and %s", s.Books.Digest, x.Digest)
	}
	fmt.Println("equal: every message arrived once, in order; the books are the exchange's own")
	return nil
}

// freePorts finds UDP ports that nobody is bound to.
func freePorts(n int) (ports []uint16, err error) {
	for range n {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		defer c.Close() //nolint:errcheck // nothing was sent
		ports = append(ports, c.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	}
	return ports, nil
}
