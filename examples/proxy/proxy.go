package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// mostWaiting is how many bytes may wait for one side before the other is not read from any more.
const mostWaiting = 256 << 10

// proxy is the handler of both sides' connections.
type proxy struct {
	gnet.BuiltinEventEngine
	to    net.Addr
	ctx   context.Context
	ready func(netip.AddrPort)
}

// session is a client and its backend: the Context of both connections, which are on one loop.
type session struct {
	client, backend gnet.ConnX // nil when closed; backend also before it is connected
}

// run serves until ctx is done; ready is called with the address once the proxy listens.
func run(ctx context.Context, c config, ready func(netip.AddrPort)) error {
	p := &proxy{to: net.TCPAddrFromAddrPort(c.to), ctx: ctx, ready: ready}
	return gnet.Run(p, "tcp://"+c.listen.String(), gnet.WithNumEventLoop(c.loops), gnet.WithReuseAddr(true),
		gnet.WithRing(c.ring), gnet.WithOutboundLimits(mostWaiting, 0)) // 0: the default limit beyond which a connection is reset
}

func (p *proxy) OnBoot(eng gnet.Engine) gnet.Action {
	context.AfterFunc(p.ctx, func() { _ = eng.Stop(context.Background()) }) // what comes of it is what Run returns
	p.ready(eng.Addrs()[0].(*net.TCPAddr).AddrPort())
	return gnet.None
}

// OnOpen connects to the backend for a new client, and joins the two when that is there.
func (p *proxy) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	x := c.(gnet.ConnX)
	s, isBackend := c.Context().(*session)
	if !isBackend {
		s = &session{client: x}
		c.SetContext(s)
		if err := x.SuspendRead(); err != nil {
			return nil, gnet.Close
		}
		connected, err := c.EventLoop().Register(gnet.NewContext(p.ctx, s), p.to) // on the same loop: see SetProducers
		if err != nil {
			return nil, gnet.Close
		}
		go func() {
			if result := <-connected; result.Err != nil {
				_ = c.Close()
			}
		}()
		return nil, gnet.None
	}
	if s.client == nil {
		return nil, gnet.Close // the client did not wait
	}
	s.backend = x
	// This is all that bounds the memory: what is read from one is written to the other.
	if errors.Join(s.backend.SetProducers(s.client), s.client.SetProducers(s.backend), s.client.ResumeRead()) != nil {
		return nil, gnet.Close
	}
	return nil, gnet.None
}

// OnTraffic passes on what came.
func (p *proxy) OnTraffic(c gnet.Conn) gnet.Action {
	to := c.Context().(*session).other(c)
	if to == nil {
		return gnet.Close
	}
	if _, err := c.WriteTo(to); err != nil {
		return gnet.Close
	}
	return gnet.None
}

// OnClose ends the other side: after everything was passed on, or at once when this one did not end in good order.
func (p *proxy) OnClose(c gnet.Conn, err error) gnet.Action {
	s := c.Context().(*session)
	to := s.other(c)
	if s.client == c {
		s.client = nil
	} else {
		s.backend = nil
	}
	switch {
	case to == nil:
	case err == nil || errors.Is(err, io.EOF):
		_ = to.CloseWhenSent() // closed already: nothing to do
	default:
		_ = to.SetLinger(0) // its peer is to see a reset too
		_ = to.Close()
	}
	return gnet.None
}

// other is the connection that c's input is written to.
func (s *session) other(c gnet.Conn) gnet.ConnX {
	if s.client == c {
		return s.backend
	}
	return s.client
}
