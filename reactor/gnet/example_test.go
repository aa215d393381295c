package gnet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// echoServer is a handler as it is written for gnet: only the import is another.
type echoServer struct {
	gnet.BuiltinEventEngine
	engine gnet.Engine
	ready  chan net.Addr
}

func (s *echoServer) OnBoot(e gnet.Engine) gnet.Action {
	s.engine = e
	s.ready <- e.Addrs()[0]
	return gnet.None
}

func (s *echoServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b) // a failure closes the connection
	return gnet.None
}

// A server, its options of both kinds, and its end.
func Example() {
	s := &echoServer{ready: make(chan net.Addr, 1)}
	ended := make(chan error)
	go func() {
		ended <- gnet.Run(s, "tcp://127.0.0.1:0",
			gnet.WithNumEventLoop(2),              // gnet's
			gnet.WithRing(conf.RingEpoll),         // ours, and the following
			gnet.WithMaxConnections(10_000),       // further ones are closed unseen
			gnet.WithIdleTimeout(time.Minute),     // OnClose is told os.ErrDeadlineExceeded
			gnet.WithOutboundLimits(1<<20, 8<<20), // stop reading above the first, close above the second
		)
	}()
	c, err := net.Dial("tcp", (<-s.ready).String())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = c.Write([]byte("hello"))
	b := make([]byte, 5)
	_, _ = io.ReadFull(c, b)
	fmt.Println(string(b))
	fmt.Println(s.engine.Stop(context.Background()), <-ended)
	// Output:
	// hello
	// <nil> <nil>
}

// pusher sends much to each connection, never more than its peer takes.
type pusher struct {
	echoServer
	piece []byte
}

// push goes on until enough waits; OnDrained comes when half of that has gone.
func (p *pusher) push(c gnet.Conn) gnet.Action {
	left := c.Context().(int)
	for ; left > 0 && c.OutboundBuffered() <= 256<<10; left-- {
		if _, err := c.Write(p.piece); err != nil {
			return gnet.None // OnClose follows
		}
	}
	c.SetContext(left)
	if left == 0 && c.OutboundBuffered() == 0 {
		return gnet.Close
	}
	return gnet.None
}

func (p *pusher) OnTraffic(c gnet.Conn) gnet.Action {
	_, _ = c.Discard(-1)
	c.SetContext(128)
	return p.push(c)
}

func (p *pusher) OnDrained(c gnet.Conn) gnet.Action { return p.push(c) }

// A server that pushes 8 MiB and holds a quarter of one at a time.
func ExampleDrainer() {
	p := &pusher{echoServer{ready: make(chan net.Addr, 1)}, make([]byte, 64<<10)}
	ended := make(chan error)
	go func() { ended <- gnet.Run(p, "tcp://127.0.0.1:0", gnet.WithOutboundLimits(256<<10, 1<<20)) }()
	c, err := net.Dial("tcp", (<-p.ready).String())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = c.Write([]byte("go"))
	n, err := io.CopyN(io.Discard, c, 8<<20)
	fmt.Println(n, err)
	fmt.Println(p.engine.Stop(context.Background()), <-ended)
	// Output:
	// 8388608 <nil>
	// <nil> <nil>
}

// limited has a deadline for each connection's first words.
type limited struct {
	echoServer
	closed chan error
}

func (l *limited) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // fails in exact mode only
	if x, ok := c.(gnet.ConnX); ok {
		_ = x.SetIdleTimeout(time.Minute) // fails for negative times
	}
	return []byte("speak"), gnet.None
}

func (l *limited) OnClose(_ gnet.Conn, err error) gnet.Action {
	l.closed <- err
	return gnet.Shutdown
}

// A deadline closes the connection: there is no blocked call that could return it.
func ExampleConnX() {
	l := &limited{echoServer{ready: make(chan net.Addr, 1)}, make(chan error, 1)}
	ended := make(chan error)
	go func() { ended <- gnet.Run(l, "tcp://127.0.0.1:0") }()
	c, err := net.Dial("tcp", (<-l.ready).String())
	if err != nil {
		fmt.Println(err)
		return
	}
	all, _ := io.ReadAll(c)
	fmt.Println(string(all), errors.Is(<-l.closed, os.ErrDeadlineExceeded), <-ended)
	// Output: speak true <nil>
}

// Every behaviour of gnet, its defects too.
func ExampleWithExactGnet() {
	s := &echoServer{ready: make(chan net.Addr, 1)}
	ended := make(chan error)
	go func() { ended <- gnet.Run(s, "tcp://127.0.0.1:0", gnet.WithExactGnet()) }()
	<-s.ready
	begin := time.Now()
	err := s.engine.Stop(context.Background())
	fmt.Println(err, <-ended, time.Since(begin) > 490*time.Millisecond)
	// Output: <nil> <nil> true
}
