// Resp is a key-value server that speaks the redis protocol: redis-cli and redis-benchmark are content with it.
//
//	go run ./examples/resp                        # serve on 127.0.0.1:6379
//	go run ./examples/resp -probe 3s              # serve, measure with a second process, print, exit
//	go run ./examples/resp -ring epoll -rest wait
//	redis-cli -p 6379 set greeting hello ex 60
//
// It is a gnet server with one import swapped: package server is written against gnet.Conn and runs on gnet as well; what belongs to
// the ring is in this file, the three options of gnet.Run below and app. There are strings only, with expiry, in 16 databases; nothing
// is written to disk, and nobody is asked for a password. One event loop owns all keys.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
)

// config is the command line.
type config struct {
	listen netip.AddrPort
	ring   conf.RingKind
	rest   reactor.Rest
	probe  time.Duration
	client bool
	most   int // bytes waiting for a client that close it
}

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "resp:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch {
	case c.client:
		err = client(ctx, c)
	case c.probe > 0:
		err = probe(ctx, c)
	default:
		err = run(ctx, c, func(addr netip.AddrPort) { fmt.Printf("listening on %v, rest %v\n", addr, c.rest) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "resp:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (config, error) {
	f := flag.NewFlagSet("resp", flag.ContinueOnError)
	c := config{most: mostEver}
	listen := f.String("listen", "127.0.0.1:6379", "address and port to serve on; port 0 takes a free one")
	ring := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring or epoll")
	f.TextVar(&c.rest, "rest", reactor.Adaptive, "what the loop does when nothing comes: spin, adaptive (spin a while, then sleep) or wait (sleep)")
	f.DurationVar(&c.probe, "probe", 0, "serve on a free port, measure for this long from another process, print it and exit")
	f.BoolVar(&c.client, "client", false, "be the measuring process of -probe")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	var err error
	if c.listen, err = netip.ParseAddrPort(*listen); err != nil {
		return c, fmt.Errorf("-listen %q: want an IP address and a port, such as 127.0.0.1:6379", *listen)
	}
	if c.ring, err = conf.ParseRingKind(*ring); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	switch {
	case c.probe < 0 || c.probe > 0 && c.probe < 10*time.Millisecond:
		return c, fmt.Errorf("-probe %v: want at least 10ms", c.probe)
	case c.client && c.probe == 0:
		return c, errors.New("-client: wants -probe, the time to measure")
	}
	return c, nil
}
