// Proxy passes TCP connections on to a backend, byte for byte, with bounded memory: whichever side reads slowly, the other one is not
// read from until it has caught up.
//
//	go run ./examples/proxy -listen 127.0.0.1:8080 -to 127.0.0.1:80
//
// A connection is closed when its peer has sent its end, as every connection of gnet is: protocols whose clients close their sending
// half and then wait for an answer need another proxy.
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

	"github.com/socketxtreme/socketxtreme/conf"
)

// config is the command line.
type config struct {
	listen, to netip.AddrPort
	ring       conf.RingKind
	loops      int
}

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c, func(addr netip.AddrPort) { fmt.Printf("listening on %v\n", addr) }); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("proxy", flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:8080", "address and port to serve on; port 0 takes a free one")
	to := f.String("to", "", "address and port of the backend")
	ring := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring or epoll")
	f.IntVar(&c.loops, "loops", 1, "event loops")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	if c.listen, err = netip.ParseAddrPort(*listen); err != nil {
		return c, fmt.Errorf("-listen %q: want an IP address and a port, such as 127.0.0.1:8080", *listen)
	}
	if c.to, err = netip.ParseAddrPort(*to); err != nil {
		return c, fmt.Errorf("-to %q: want an IP address and a port, such as 127.0.0.1:80", *to)
	}
	if c.ring, err = conf.ParseRingKind(*ring); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	if c.loops < 1 {
		return c, fmt.Errorf("-loops %d: want 1 or more", c.loops)
	}
	return c, nil
}
