package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/report"
)

// exchange runs our own exchange and a handler beside it, and compares their books.
func exchange(ctx context.Context, c config) error {
	files, err := report.Open(c.files)
	if err != nil {
		return err
	}
	x, channels, err := c.loopback()
	if err != nil {
		return err
	}
	v := report.NewView(os.Stdout, channels)
	channels[0].Handler.OnEvent = v.OnEvent(files.OnEvent())
	// The handler's first message not yet in the books; the exchange stays for requests until it has everything.
	var next atomic.Uint64
	x.Caught = func(n uint64) bool { return next.Load() >= n }
	l, err := live.Open(live.Config{Ring: c.ring, Channels: channels, Spin: c.spin, Moved: v.Moved, Each: func(l *live.Live) {
		next.Store(l.Channels[0].Stats().Next)
		v.Each(l)
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
	// An interrupt closes the exchange; the handler receives until the exchange has ended.
	receiving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		defer stop()
		r, err := x.Run(ctx)
		closed <- result{r, err}
	}()
	err = l.Run(receiving)
	v.Close()
	if err != nil {
		return err
	}
	end := <-closed
	if end.err != nil {
		return end.err
	}
	s := l.Summary()
	s.Paths = paths
	report.Text(os.Stdout, &s)
	if err := files.Finish(&s, l.Channels); err != nil {
		return err
	}
	return compare(end.report, &s)
}

// loopback is the exchange on two groups of loopback, and the handler's channel that receives them.
func (c *config) loopback() (*replay.Exchange, []live.Channel, error) {
	free, err := freePorts(2)
	if err != nil {
		return nil, nil, err
	}
	x := &replay.Exchange{Interface: "lo", Rate: c.rate, Duration: c.duration, Symbols: 60,
		Recovery: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), free[1]),
		Impair: replay.Impairment{Seed: c.seed, Loss: [2]uint32{uint32(c.loss), uint32(c.loss)}, Reorder: [2]uint32{20, 20},
			Duplicate: [2]uint32{10, 10}, BurstLen: 3, BurstGap: 2000, Recut: [2]bool{false, true}}}
	f := c.feedConfig(true, handler.DEEP)
	f.Start = 1
	ch := live.Channel{Recovery: x.Recovery, Handler: handler.Config{Proto: handler.DEEP, Name: "exchange", Feed: f}}
	for i := range x.Lines {
		x.Lines[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{233, 252, 0, byte(1 + i)}), free[0])
		ch.Lines = append(ch.Lines, live.Line{Group: x.Lines[i], Interface: "lo"})
	}
	return x, []live.Channel{ch}, nil
}

// compare prints the exchange's own account beside the handler's.
func compare(x replay.ExchangeReport, s *handler.Summary) error {
	c := &s.Channels[0]
	fmt.Printf("the exchange's own account: %d messages in %d packets, %d trades of %d shares\n", x.Messages, x.Packets,
		x.Trades, x.Volume)
	fmt.Printf("  line A: %d packets sent, %d lost on purpose; line B: %d sent, %d lost; %d recovery requests received\n",
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
