package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	respserver "github.com/socketxtreme/socketxtreme/examples/resp/server"
)

var netPeer = harness.Peer{
	Name: "net", About: "Go net, one goroutine per connection", Go: true,
	Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count", "resp"}, Deadlines: true, Veth: true,
	Subcommands: []harness.Subcommand{{Name: "net", Run: serveNet}},
}

// serveNet serves with Go's net package, written the way everybody writes it: a goroutine per TCP connection that
// reads and writes, one goroutine with ReadFromUDPAddrPort and WriteToUDPAddrPort for UDP.
func serveNet(args []string, out, errs io.Writer) error {
	flags, err := harness.ParseServerFlags("net", args, errs, func(f *flag.FlagSet, p *harness.ServerFlags) {
		p.AllRoles()
		p.AddDeadline(f)
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return flags.Measured(out, func() error {
		if flags.Proto == "udp" {
			return netUDP(ctx, flags, out)
		}
		return netTCP(ctx, flags, out)
	})
}

// netTCP serves TCP with package net.
func netTCP(ctx context.Context, flags harness.ServerFlags, out io.Writer) error {
	l, err := net.Listen("tcp", flags.Addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	fmt.Fprintf(out, "ready %d\n", l.Addr().(*net.TCPAddr).Port)
	serve := func(c net.Conn) { netEcho(c, flags.Deadline) }
	switch flags.Role {
	case "count":
		serve = netCount
	case "resp":
		serve = newNetRESP().serve
	}
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

// netEcho returns whatever arrives until the client goes; how it goes does not matter to the server.
func netEcho(c net.Conn, deadline time.Duration) {
	buf := make([]byte, 4096)
	for {
		if deadline > 0 && c.SetReadDeadline(time.Now().Add(deadline)) != nil {
			return
		}
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// netRESP shares its keys among the goroutines of all connections, behind a lock.
type netRESP struct {
	mu   sync.Mutex
	keys *respserver.Server
}

func newNetRESP() *netRESP { return &netRESP{keys: respserver.New(respserver.Config{})} }

// serve serves RESP on one connection.
func (s *netRESP) serve(c net.Conn) {
	s.mu.Lock()
	session := s.keys.Open(c.RemoteAddr().String())
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		session.Close()
		s.mu.Unlock()
	}()
	in, out := make([]byte, 4096), []byte(nil)
	have := 0 // bytes of a command that has not arrived whole, at the front of in
	for {
		if have == len(in) {
			in = append(in, make([]byte, len(in))...)
		}
		n, err := c.Read(in[have:])
		if err != nil {
			return
		}
		have += n
		for more := true; more; {
			s.mu.Lock()
			used, answers, end := session.Serve(in[:have], out[:0])
			s.mu.Unlock()
			out = answers
			have = copy(in, in[used:have])
			if len(out) > 0 {
				_, err = c.Write(out)
			}
			if err != nil || end {
				return
			}
			more = used > 0 && have > 0
		}
	}
}

// netCount counts the messages of one connection and answers queries with the sum.
func netCount(c net.Conn) {
	var t harness.Tally
	buf := make([]byte, 64<<10)
	have := 0 // bytes of an incomplete message at the front of buf
	for {
		n, err := c.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		whole := have - have%harness.MessageSize
		for at := 0; at < whole; at += harness.MessageSize {
			m := buf[at : at+harness.MessageSize]
			if !t.Take(m) {
				continue
			}
			if _, err := c.Write(m); err != nil {
				return
			}
		}
		have = copy(buf, buf[whole:have])
	}
}

// netUDP serves UDP with package net.
func netUDP(ctx context.Context, flags harness.ServerFlags, out io.Writer) error {
	local, err := netip.ParseAddrPort(flags.Addr)
	if err != nil {
		return fmt.Errorf("-addr %q: %w", flags.Addr, err)
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	fmt.Fprintf(out, "ready %d\n", c.LocalAddr().(*net.UDPAddr).Port)
	var t harness.Tally
	count := flags.Role == "count"
	buf := make([]byte, 64<<10)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if count && (n != harness.MessageSize || !t.Take(buf[:n])) {
			continue
		}
		if _, err := c.WriteToUDPAddrPort(buf[:n], from); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}
