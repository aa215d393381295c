package gnetrun

import (
	"context"
	"crypto/rand"
	"math"
	"net"
	"sync"
	"time"

	upstream "github.com/panjf2000/gnet/v2"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// carrier is a gnet engine that serves nobody: it exists for its Engine value. When that is stopped, its OnShutdown stops
// the real server and waits for it, so that Stop returns when the server has ended.
//
// gnet wants an address. It has an abstract one, which needs no folder that can be written to and leaves no file behind: gnet reads a
// file's name as a URL and removes, with all that is in it, whatever the part before a # or ? of it names. Others on the machine can
// connect to an abstract name; who does is closed, and the handler is not called.
type carrier struct {
	handler upstream.EventHandler
	engine  upstream.Engine
	booted  chan struct{}
	once    sync.Once
	done    chan error
	name    string // of its socket

	mu   sync.Mutex
	real gnet.Engine // what it carries
	over bool        // the server has ended by itself
}

// startCarrier returns when the carrier's loops are there. gnet joins host and path of its address: of "." and "/@name" that makes
// "@name", the abstract name, where the @ of unix://@name would be read as the end of a user's name.
func startCarrier(handler upstream.EventHandler) (*carrier, error) {
	c := &carrier{handler: handler, booted: make(chan struct{}), done: make(chan error, 1), name: "@gnetrun-" + rand.Text()}
	go func() { c.done <- upstream.Run(c, "unix://./"+c.name, upstream.WithTicker(true)) }()
	select {
	case <-c.booted:
		return c, nil
	case err := <-c.done:
		return nil, err
	}
}

// carry stores the Engine that the carrier stops when gnet's Stop is called.
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
}

// OnBoot keeps the Engine, which is not ready yet: gnet makes its loops afterwards.
func (c *carrier) OnBoot(e upstream.Engine) upstream.Action {
	c.engine = e
	return upstream.None
}

// OnTick reports, once, that gnet's loops run: startCarrier waits for it.
func (c *carrier) OnTick() (time.Duration, upstream.Action) {
	c.once.Do(func() { close(c.booted) })
	return time.Duration(math.MaxInt64), upstream.None
}

// OnShutdown stops the server: the handler, or other code that has the Engine, has called Stop.
func (c *carrier) OnShutdown(upstream.Engine) {
	c.mu.Lock()
	real, over := c.real, c.over
	c.mu.Unlock()
	if !over {
		_ = real.Stop(context.Background()) // its own end meanwhile is as good
	}
}

// stranger reports whether a connection did not come from Engine.Register but by the carrier's own address.
func (c *carrier) stranger(conn upstream.Conn) bool {
	local, ok := conn.LocalAddr().(*net.UnixAddr)
	return ok && local.Name == c.name
}

// OnOpen and the others serve what Engine.Register made.
func (c *carrier) OnOpen(conn upstream.Conn) ([]byte, upstream.Action) {
	if c.stranger(conn) {
		return nil, upstream.Close
	}
	return c.handler.OnOpen(conn)
}

// OnClose calls the handler's for a connection that was handed to it.
func (c *carrier) OnClose(conn upstream.Conn, err error) upstream.Action {
	if c.stranger(conn) {
		return upstream.None
	}
	return c.handler.OnClose(conn, err)
}

// OnTraffic calls the handler's for a connection that was handed to it.
func (c *carrier) OnTraffic(conn upstream.Conn) upstream.Action {
	if c.stranger(conn) {
		return upstream.Close
	}
	return c.handler.OnTraffic(conn)
}
