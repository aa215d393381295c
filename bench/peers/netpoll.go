package peers

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudwego/netpoll"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	respserver "github.com/socketxtreme/socketxtreme/examples/resp/server"
)

var netpollPeer = harness.Peer{
	Name: "netpoll", About: "netpoll v0.7.2, its defaults", Go: true,
	Protos: []string{"tcp"}, Roles: []string{"echo", "resp"},
	Subcommands: []harness.Subcommand{{Name: "netpoll", Run: serveNetpoll}},
}

// serveNetpoll serves with netpoll: its defaults, a handler that runs on its pool of goroutines.
func serveNetpoll(args []string, out, errs io.Writer) error {
	flags, err := harness.ParseServerFlags("netpoll", args, errs, func(_ *flag.FlagSet, p *harness.ServerFlags) { p.Roles = []string{"echo", "resp"} })
	if err != nil {
		return err
	}
	if flags.Proto != "tcp" {
		return fmt.Errorf("-proto %s: netpoll has only tcp", flags.Proto)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	netpoll.SetLoggerOutput(io.Discard) // a line for each client that leaves with a reset
	l, err := net.Listen("tcp", flags.Addr)
	if err != nil {
		return err
	}
	onRequest, options := netpoll.OnRequest(netpollEcho), []netpoll.Option(nil)
	if flags.Role == "resp" {
		r := &netpollRESP{keys: respserver.New(respserver.Config{})}
		onRequest, options = r.serve, []netpoll.Option{netpoll.WithOnPrepare(r.prepare)}
	}
	loop, err := netpoll.NewEventLoop(onRequest, options...)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = loop.Shutdown(context.Background()) })
	fmt.Fprintf(out, "ready %d\n", l.Addr().(*net.TCPAddr).Port)
	return flags.Measured(out, func() error {
		if err := loop.Serve(l); ctx.Err() == nil {
			return err
		}
		return nil
	})
}

// netpollEcho echoes what a connection has received.
func netpollEcho(_ context.Context, c netpoll.Connection) error {
	r, w := c.Reader(), c.Writer()
	b, err := r.Next(r.Len())
	if err != nil {
		return err
	}
	if _, err := w.WriteBinary(b); err != nil {
		return err
	}
	if err := w.Flush(); err != nil { // sent: the bytes may go
		return err
	}
	return r.Release()
}

// netpollRESP shares its keys among the goroutines of the pool, behind a lock.
type netpollRESP struct {
	mu   sync.Mutex
	keys *respserver.Server
}

// netpollClient is what belongs to a connection, and to one goroutine at a time.
type netpollClient struct {
	session *respserver.Session
	out     []byte
}

// netpollKey finds the client in the context of its connection.
type netpollKey struct{}

// prepare makes the RESP session of a new connection.
func (s *netpollRESP) prepare(c netpoll.Connection) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	client := &netpollClient{session: s.keys.Open(c.RemoteAddr().String())}
	_ = c.AddCloseCallback(func(netpoll.Connection) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		client.session.Close()
		return nil
	})
	return context.WithValue(context.Background(), netpollKey{}, client)
}

// serve serves the RESP commands that a connection has received.
func (s *netpollRESP) serve(ctx context.Context, c netpoll.Connection) error {
	client := ctx.Value(netpollKey{}).(*netpollClient)
	r, w := c.Reader(), c.Writer()
	in, err := r.Peek(max(r.Len(), client.session.Need())) // waits for a command that has not arrived whole
	if err != nil {
		return err
	}
	s.mu.Lock()
	n, out, end := client.session.Serve(in, client.out[:0])
	s.mu.Unlock()
	client.out = out
	if err := r.Skip(n); err != nil {
		return err
	}
	if err := r.Release(); err != nil {
		return err
	}
	if len(out) > 0 {
		if _, err := w.WriteBinary(out); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if end {
		return c.Close()
	}
	return nil
}
