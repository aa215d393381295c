package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/examples/resp/server"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// app is the handler with what differs between this gnet and the other: the Engine, and the way a connection's bytes travel.
type app struct {
	*server.Handler
	keys  *server.Server
	ctx   context.Context
	ready func(netip.AddrPort)
	told  bool  // the path of the first connection
	err   error // of OnBoot, which can only say Shutdown
}

// run serves until ctx is done; ready is called with the address once the server listens.
func run(ctx context.Context, c config, ready func(netip.AddrPort)) error {
	keys := server.New(server.Config{})
	a := &app{Handler: server.NewHandler(keys), keys: keys, ctx: ctx, ready: ready}
	a.LimitWaiting(mostWaiting)
	err := gnet.Run(a, "tcp://"+c.listen.String(),
		gnet.WithNumEventLoop(1), gnet.WithTicker(true), gnet.WithReuseAddr(true), // as with gnet
		gnet.WithRing(c.ring), gnet.WithRest(c.rest), gnet.WithOutboundLimits(mostWaiting, c.most)) // ours
	return errors.Join(err, a.err)
}

// A client that does not read its answers is neither read from nor served while more than mostWaiting bytes wait for it, and a large
// answer is made in parts: what the client can make the server hold is mostWaiting, about a MiB of answers, and one value. mostEver is
// never reached by that.
const (
	mostWaiting = 1 << 20
	mostEver    = 1 << 30
)

// OnDrained serves the commands of a client that has read enough of its answers.
func (a *app) OnDrained(c gnet.Conn) gnet.Action { return a.OnTraffic(c) }

// OnBoot prints the address, and arranges the end.
func (a *app) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := boundTo(eng)
	if err != nil {
		a.err = err
		return gnet.Shutdown
	}
	a.keys.SetPort(int(addr.Port()))
	context.AfterFunc(a.ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = eng.Stop(stopping) // what comes of it is what Run returns
	})
	a.ready(addr)
	return gnet.None
}

// boundTo asks the kernel, because port 0 is any.
func boundTo(eng gnet.Engine) (netip.AddrPort, error) {
	fd, err := eng.Dup()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("descriptor of the listener: %w", err)
	}
	defer unix.Close(fd)
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("address of the listener: getsockname: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("address of the listener: %T is neither IPv4 nor IPv6", sa)
}

// OnOpen prints once how the bytes travel, and why not better.
func (a *app) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if x, ok := c.(gnet.ConnX); ok && !a.told {
		a.told = true
		fmt.Printf("path of the first connection: %s\n", x.Path().Explain())
	}
	return a.Handler.OnOpen(c)
}

// OnShutdown has nothing to do: the keys go with the process.
func (a *app) OnShutdown(gnet.Engine) {}
