// Https is a web server whose connections are carried by a ring: net/http and crypto/tls as everybody knows them, on a
// listener of package netconn. HTTP/2 and HTTP/1.1.
//
//	go run ./examples/https                          # serve on 127.0.0.1:8443 with a certificate made at start
//	go run ./examples/https -probe 1s                # serve, ask itself for a second, check the answers, exit
//	go run ./examples/https -ring epoll -loops 2 -cert cert.pem -key key.pem
//	curl -k --http2 https://127.0.0.1:8443/hello
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
)

// config is the command line.
type config struct {
	listen    string
	ring      conf.RingKind
	loops     int
	cert, key string
	probe     time.Duration
}

// mostLoops bounds -loops: a loop pays with a processor of its own, each has buffers of its own, and a server
// cannot be stopped while its loops are made.
const mostLoops = 16

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "https:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if c.probe > 0 {
		err = probe(ctx, c)
	} else {
		err = run(ctx, c, func(s *server) { fmt.Printf("listening on https://%v\n%v\n", s.listener.Addr(), s.listener.Path()) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "https:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (config, error) {
	f := flag.NewFlagSet("https", flag.ContinueOnError)
	var c config
	f.StringVar(&c.listen, "listen", "127.0.0.1:8443", "host and port to serve on; port 0 takes a free one")
	ring := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring or epoll")
	f.IntVar(&c.loops, "loops", 1, fmt.Sprintf("loops that carry the connections, at most %d", mostLoops))
	f.StringVar(&c.cert, "cert", "", "certificate file (PEM); with -key. Without, one is made that nobody trusts")
	f.StringVar(&c.key, "key", "", "key file (PEM) of -cert")
	f.DurationVar(&c.probe, "probe", 0, "serve on a free port, make requests for this long, check the answers and exit")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	var err error
	if c.ring, err = conf.ParseRingKind(*ring); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	switch {
	case c.loops < 1 || c.loops > mostLoops:
		return c, fmt.Errorf("-loops %d: want 1 to %d", c.loops, mostLoops)
	case (c.cert == "") != (c.key == ""):
		return c, fmt.Errorf("-cert %q and -key %q: want both or neither", c.cert, c.key)
	case c.probe < 0:
		return c, fmt.Errorf("-probe %v: want a time above 0", c.probe)
	}
	return c, nil
}
