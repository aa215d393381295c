package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// open makes a loop and its sockets; several loops share the address by SO_REUSEPORT.
func open(e *xtreme.Engine, i int, a netip.AddrPort, c config) (*loop, error) {
	poller, err := e.NewPoller(fmt.Sprintf("echo-%d", i), xtreme.PollerConfig{})
	if err != nil {
		return nil, err
	}
	l := &loop{poller: poller, conns: map[*xtreme.Socket]*conn{}, rest: c.rest, reply: echo}
	if c.reply == "sockperf" {
		l.reply = sockperf
	}
	share := c.reactors > 1
	var s *xtreme.Socket
	if c.tcp {
		if s, err = poller.ListenTCP(a, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true, ReusePort: share},
			NoDelay: xtreme.On}); err == nil {
			l.listeners = append(l.listeners, s)
			a = s.LocalAddr() // UDP serves on the same port
		}
	}
	if c.udp && err == nil {
		if s, err = poller.OpenUDP(a, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReusePort: share}}); err == nil {
			l.listeners = append(l.listeners, s)
		}
	}
	if err != nil {
		return nil, errors.Join(err, poller.Close())
	}
	return l, nil
}

// server is all loops.
type server struct {
	addr  netip.AddrPort
	loops []*loop
}

// run serves until ctx is done; ready is called once everything listens.
func run(ctx context.Context, c config, ready func(*server)) error {
	settings := conf.FromEnvironment()
	settings.Ring = c.ring
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	srv := &server{addr: c.listen}
	for i := range c.reactors {
		l, err := open(engine, i, srv.addr, c)
		if err != nil {
			return err
		}
		srv.loops = append(srv.loops, l)
		srv.addr = l.listeners[0].LocalAddr()
	}
	ready(srv)
	var wg sync.WaitGroup
	errs := make([]error, len(srv.loops))
	for i, l := range srv.loops {
		wg.Go(func() { errs[i] = l.serve(ctx) })
	}
	wg.Wait()
	for _, l := range srv.loops {
		fmt.Print(l.last)
	}
	return errors.Join(append(errs, engine.Close())...)
}

// paths reports how each socket's bytes travel, and why not better.
func (srv *server) paths() (text string) {
	for _, s := range srv.loops[0].listeners {
		text += fmt.Sprintf("%v: %s\n", s.Kind(), s.Path().Explain())
	}
	return text
}
