package gnetrun

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	upstream "github.com/panjf2000/gnet/v2"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// carrier is a gnet engine that serves nobody: it exists for its Engine value. When that is stopped, its OnShutdown stops
// the real server and waits for it, so that Stop returns when the server has ended.
type carrier struct {
	handler upstream.EventHandler
	engine  upstream.Engine
	booted  chan struct{}
	once    sync.Once
	done    chan error
	folder  string // of its socket

	mu   sync.Mutex
	real gnet.Engine // what it carries
	over bool        // the server has ended by itself
}

// startCarrier makes a folder that only this user can enter for the carrier's socket: gnet's addresses have no form for an abstract
// name (the @ of unix://@name is read as that of a user's name, and the socket becomes a file of the working directory).
func startCarrier(handler upstream.EventHandler) (*carrier, error) {
	folder, err := os.MkdirTemp("", "gnetrun")
	if err != nil {
		return nil, err
	}
	c := &carrier{handler: handler, booted: make(chan struct{}), done: make(chan error, 1), folder: folder}
	go func() { c.done <- upstream.Run(c, "unix://"+filepath.Join(folder, "s"), upstream.WithTicker(true)) }()
	select {
	case <-c.booted:
		return c, nil
	case err := <-c.done:
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
}

// carry says what Stop is to stop.
func (c *carrier) carry(e gnet.Engine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.real = e
}

// end ends the carrier after the server.
func (c *carrier) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	_ = c.engine.Stop(context.Background()) // it may be in its end already: then that is waited for
	<-c.done
	_ = os.RemoveAll(c.folder) // empty: gnet removes its socket
}

// OnBoot keeps the Engine, which is not ready yet: gnet makes its loops afterwards.
func (c *carrier) OnBoot(e upstream.Engine) upstream.Action {
	c.engine = e
	return upstream.None
}

// OnTick tells, once, that the loops are there.
func (c *carrier) OnTick() (time.Duration, upstream.Action) {
	c.once.Do(func() { close(c.booted) })
	return time.Duration(math.MaxInt64), upstream.None
}

// OnShutdown stops the server: the handler, or whoever it gave the Engine to, has called Stop.
func (c *carrier) OnShutdown(upstream.Engine) {
	c.mu.Lock()
	real, over := c.real, c.over
	c.mu.Unlock()
	if !over {
		_ = real.Stop(context.Background()) // its own end meanwhile is as good
	}
}

// OnOpen and the others serve what Engine.Register made.
func (c *carrier) OnOpen(conn upstream.Conn) ([]byte, upstream.Action) { return c.handler.OnOpen(conn) }

// OnClose is described at OnOpen.
func (c *carrier) OnClose(conn upstream.Conn, err error) upstream.Action {
	return c.handler.OnClose(conn, err)
}

// OnTraffic is described at OnOpen.
func (c *carrier) OnTraffic(conn upstream.Conn) upstream.Action { return c.handler.OnTraffic(conn) }
