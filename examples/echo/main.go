// Echo is a TCP and UDP echo server that pulls completions from a ring: serve.go is the whole of it, in two screens.
//
//	go run ./examples/echo                                 # serve on 127.0.0.1:5001
//	go run ./examples/echo -probe 3s                       # serve, measure with a second process, print, exit
//	go run ./examples/echo -ring epoll -reactors 2 -rest wait
//	go run ./examples/echo -reply sockperf -proto udp      # for sockperf pp -i 127.0.0.1 -p 5001
//	go run ./examples/echo -ring offload -listen 10.0.0.1:5001   # as root; UDP by our own stack on the interface that has 10.0.0.1
//
// It prints by which path each socket's bytes travel and, for every better one, why not; with -ring offload, what was counted at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
)

// config is the command line.
type config struct {
	listen   netip.AddrPort
	tcp, udp bool
	ring     conf.RingKind
	reactors int
	rest     string
	reply    string
	probe    time.Duration
	client   bool
}

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "echo:", err)
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
		err = run(ctx, c, func(s *server) { fmt.Printf("listening on %v\n%s", s.addr, s.paths()) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (config, error) {
	f := flag.NewFlagSet("echo", flag.ContinueOnError)
	var c config
	listen := f.String("listen", "127.0.0.1:5001", "address and port to serve on; port 0 takes a free one")
	proto := f.String("proto", "tcp,udp", "protocols to serve: tcp, udp or tcp,udp")
	ring := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring, epoll, or offload for UDP by our own stack on the interface of -listen")
	f.IntVar(&c.reactors, "reactors", 1, "loops, each with rings and a thread of its own")
	f.StringVar(&c.rest, "rest", "adaptive", "what a loop does when nothing comes: spin, adaptive (spin a while, then sleep) or wait (sleep)")
	f.StringVar(&c.reply, "reply", "echo", "what to answer: echo, or sockperf (its message format)")
	f.DurationVar(&c.probe, "probe", 0, "serve on a free port, measure the round trip for this long from another process, print it and exit")
	f.BoolVar(&c.client, "client", false, "be the measuring process of -probe")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	var err error
	if c.listen, err = netip.ParseAddrPort(*listen); err != nil {
		return c, fmt.Errorf("-listen %q: want an IP address and a port, such as 127.0.0.1:5001", *listen)
	}
	for _, p := range strings.Split(*proto, ",") {
		switch p {
		case "tcp":
			c.tcp = true
		case "udp":
			c.udp = true
		default:
			return c, fmt.Errorf("-proto %q: want tcp, udp or tcp,udp", *proto)
		}
	}
	if c.ring, err = conf.ParseRingKind(*ring); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	switch {
	case c.reactors < 1 || c.reactors > 1024:
		return c, fmt.Errorf("-reactors %d: want 1 to 1024", c.reactors)
	case c.rest != "spin" && c.rest != "adaptive" && c.rest != "wait":
		return c, fmt.Errorf("-rest %q: want spin, adaptive or wait", c.rest)
	case c.reply != "echo" && c.reply != "sockperf":
		return c, fmt.Errorf("-reply %q: want echo or sockperf", c.reply)
	case c.probe < 0:
		return c, fmt.Errorf("-probe %v: want a time above 0", c.probe)
	case c.client && c.probe == 0:
		return c, errors.New("-client: wants -probe, the time to measure")
	}
	return c, nil
}
