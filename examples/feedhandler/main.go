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
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/report"
	"github.com/socketxtreme/socketxtreme/feed"
)

// config is the command line.
type config struct {
	pcap           string
	proto          handler.Proto
	channels       []live.Channel
	ring           conf.RingKind
	files          report.Names
	gap            time.Duration
	attempts       int
	start          uint64
	idle, duration time.Duration
	offset         time.Duration
	spin           bool
	rate, loss     int
	seed           uint64
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

// feedConfig is the sequencer's part of the command line.
func (c *config) feedConfig(recovery bool, p handler.Proto) feed.Config {
	f := feed.Config{Start: c.start, EpochStart: 1, GapTime: int64(c.gap), LineTimeout: int64(report.LineTimeout)}
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
	files, err := report.Open(c.files)
	if err != nil {
		return err
	}
	f := c.feedConfig(false, c.proto)
	f.LineTimeout = 0 // a capture may be pieces of a day
	o, err := handler.OpenOffline(c.pcap, handler.Config{Proto: c.proto, Feed: f, ClockOffset: int64(c.offset),
		OnEvent: files.OnEvent()})
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
	report.Text(os.Stdout, &s)
	fmt.Printf("%d records in %v, file reading included\n", o.Records, took.Round(time.Millisecond))
	return errors.Join(files.Finish(&s, o.Channels), cut) // what is there was handled; that there should be more is an error all the same
}

// listen handles live lines.
func listen(ctx context.Context, c config) error {
	files, err := report.Open(c.files)
	if err != nil {
		return err
	}
	v := report.NewView(os.Stdout, c.channels)
	for i := range c.channels {
		ch := &c.channels[i]
		ch.Handler = handler.Config{Proto: c.proto, Name: fmt.Sprintf("channel%d", i+1), ClockOffset: int64(c.offset),
			OnEvent: v.OnEvent(files.OnEvent()), Feed: c.feedConfig(ch.Recovery.IsValid(), c.proto)}
	}
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	l, err := live.Open(live.Config{Ring: c.ring, Channels: c.channels, Idle: c.idle, Spin: c.spin, Each: v.Each, Moved: v.Moved})
	if err != nil {
		return err
	}
	paths := l.Paths()
	fmt.Println(strings.Join(paths, "\n"))
	err = l.Run(ctx)
	v.Close()
	if err != nil {
		return err
	}
	s := l.Summary()
	s.Paths = paths
	report.Text(os.Stdout, &s)
	return files.Finish(&s, l.Channels)
}
