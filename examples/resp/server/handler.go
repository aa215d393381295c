package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// Handler serves clients of gnet, or of reactor/gnet, over one Server. All its methods run on the one event loop, but for OnTick.
type Handler struct {
	server *Server
	out    []byte // answers of one turn, loop only
	most   int    // bytes waiting for a client that keep its commands waiting, too; 0: any number

	// loop is known from the first client on; before there is nothing to sweep.
	loop   atomic.Pointer[gnet.EventLoop]
	behind atomic.Bool // the last sweep left something to do
}

// NewHandler serves s, which belongs to the handler from now on.
func NewHandler(s *Server) *Handler { return &Handler{server: s} }

// LimitWaiting has a client's commands wait while more than n bytes of answers wait to be sent to it. The program must call OnTraffic
// again when they have gone: reactor/gnet says so (Drainer). gnet does not, and what a client asks for and does not read has no bound
// there. Before the first client only.
func (h *Handler) LimitWaiting(n int) { h.most = n }

// OnOpen begins the session of a client.
func (h *Handler) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if h.loop.Load() == nil {
		loop := c.EventLoop()
		h.loop.Store(&loop)
	}
	addr := ""
	if a := c.RemoteAddr(); a != nil {
		addr = a.String()
	}
	c.SetContext(h.server.Open(addr))
	return nil, gnet.None
}

// OnClose ends it.
func (h *Handler) OnClose(c gnet.Conn, _ error) gnet.Action {
	if s, ok := c.Context().(*Session); ok {
		s.Close()
		c.SetContext(nil)
	}
	return gnet.None
}

// keptAnswers is how much memory for answers the handler keeps between turns.
const keptAnswers = 2 * mostReply

// OnTraffic runs the commands that have arrived whole. Their answers leave with one Write, unless they are more than a MiB.
func (h *Handler) OnTraffic(c gnet.Conn) gnet.Action {
	s := c.Context().(*Session)
	for (s.Answering() || c.InboundBuffered() >= s.Need()) && (h.most == 0 || c.OutboundBuffered() <= h.most) {
		in, err := c.Peek(-1)
		if err != nil {
			return gnet.Close
		}
		n, out, end := s.Serve(in, h.out[:0])
		h.out = out
		if n > 0 { // Discard(0) would drop everything
			if _, err := c.Discard(n); err != nil {
				return gnet.Close
			}
		}
		if len(out) > 0 {
			_, err = c.Write(out)
		}
		if cap(h.out) > keptAnswers {
			h.out = nil
		}
		if end || err != nil {
			return gnet.Close
		}
		if n == 0 && len(out) == 0 {
			break
		}
	}
	return gnet.None
}

// sweepEvery is how often expired keys that nobody asks for are looked for; with many of them, sooner again.
const (
	sweepEvery = 100 * time.Millisecond
	sweepAgain = 5 * time.Millisecond
)

// OnTick has the loop sweep. gnet calls it on a goroutine of its own, which may not touch the keys.
func (h *Handler) OnTick() (time.Duration, gnet.Action) {
	if loop := h.loop.Load(); loop != nil {
		_ = (*loop).Execute(context.Background(), h) // refused by a loop that is ending
	}
	if h.behind.Load() {
		return sweepAgain, gnet.None
	}
	return sweepEvery, gnet.None
}

// Run sweeps, as a gnet.Runnable.
func (h *Handler) Run(context.Context) error {
	h.behind.Store(h.server.Sweep())
	return nil
}
