package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os/signal"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

var oursUring = harness.Peer{
	Name: "ours-uring", About: "SocketXtreme, one reactor, io_uring", Ours: true, Go: true,
	Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count"}, Deadlines: true, Veth: true, Rests: true,
	Subcommands: []harness.Subcommand{{Name: "ours", Run: serveReactor}}, Flags: []string{"-ring", "uring"},
}

var oursEpoll = harness.Peer{
	Name: "ours-epoll", About: "SocketXtreme, one reactor, epoll", Ours: true, Go: true,
	Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count"}, Deadlines: true, Veth: true, Rests: true,
	Subcommands: []harness.Subcommand{{Name: "ours", Run: serveReactor}}, Flags: []string{"-ring", "epoll"},
}

// serveReactor serves with this library: one reactor with a handler, as a user would write it.
func serveReactor(args []string, out, errs io.Writer) error {
	var ring, rest string
	var smallest, bulk bool
	flags, err := harness.ParseServerFlags("ours", args, errs, func(f *flag.FlagSet, p *harness.ServerFlags) {
		p.AddDeadline(f)
		f.StringVar(&ring, "ring", "auto", "kind of ring: auto, uring or epoll")
		f.StringVar(&rest, "rest", "spin", "spin, adaptive or wait")
		f.BoolVar(&smallest, "small", true, "UDP: receive into 2 KiB buffers, enough for the benchmark's messages")
		f.BoolVar(&bulk, "bulk", true, "TCP with -role count: receive into 64 KiB buffers, as large as those of the peers")
	})
	if err != nil {
		return err
	}
	settings := conf.FromEnvironment()
	if settings.Ring, err = conf.ParseRingKind(ring); err != nil {
		return fmt.Errorf("-ring: %w", err)
	}
	policy, err := reactor.ParseRest(rest)
	if err != nil {
		return fmt.Errorf("-rest: %w", err)
	}
	local, err := netip.ParseAddrPort(flags.Addr)
	if err != nil {
		return fmt.Errorf("-addr %q: %w", flags.Addr, err)
	}
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	poller, err := engine.NewPoller("bench", xtreme.PollerConfig{})
	if err != nil {
		fmt.Fprintf(out, "refused %v\n", err) // this kind of ring does not work here: the rows say so
		return nil
	}
	var s *xtreme.Socket
	if flags.Proto == "udp" {
		var c xtreme.UDPConfig
		if smallest {
			c.LargestDatagram = 2048
		}
		s, err = poller.OpenUDP(local, c)
	} else {
		s, err = poller.ListenTCP(local, xtreme.ListenConfig{NoDelay: xtreme.On, LargeStream: bulk && flags.Role == "count"})
	}
	if err != nil {
		return err
	}
	var h reactor.Handler = ourEcho{flags.Deadline}
	if flags.Role == "count" {
		h = &ourCount{conns: map[*xtreme.Socket]*countedConn{}}
	}
	loop, err := reactor.New(poller, h, reactor.Config{Rest: policy})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(out, "ready %d\n", s.LocalAddr().Port())
	return flags.Measured(out, func() error { return loop.Run(ctx) })
}

// ourEcho returns every message. The client has one request outstanding per connection, so that a send is never short; if one is
// all the same, the connection ends and the client reports it.
type ourEcho struct {
	deadline time.Duration // for the next message of a connection; 0: none
}

// Handle echoes each packet to its sender.
func (h ourEcho) Handle(l *reactor.Loop, c *xtreme.Completion) {
	if h.deadline > 0 {
		h.expect(l, c)
	}
	if c.Events.Has(xtreme.EventPacket) {
		var err error
		if c.Socket.Kind() == xtreme.KindDatagram {
			_, err = c.Socket.SendTo(c.Packet.Bytes(), c.Source)
		} else {
			_, err = c.Socket.Send(c.Packet.Bytes())
		}
		if c.Packet.Release() != nil || err != nil && c.Socket.Kind() != xtreme.KindDatagram {
			_ = c.Socket.Abort() // a second Abort is refused, which is as good
		}
	}
	if c.Events.Any(xtreme.EventRdHup | xtreme.EventHup) {
		_ = c.Socket.Close() // refused after Abort
	}
}

// expect moves the deadline of a connection that said something, and ends one that did not in time.
func (h ourEcho) expect(l *reactor.Loop, c *xtreme.Completion) {
	if c.Events.Any(xtreme.EventPacket | xtreme.EventNewConnection) { // with the deadline's event beside it: it came in time
		if c.Socket.SetReadDeadline(l.Now().Add(h.deadline)) != nil {
			_ = c.Socket.Abort() // the client reports it
		}
		return
	}
	if errors.Is(c.Err, ring.ErrDeadline) {
		_ = c.Socket.Abort() // refused when it was closed meanwhile
	}
}

// ourCount counts messages and answers queries.
type ourCount struct {
	udp   harness.Tally
	conns map[*xtreme.Socket]*countedConn
}

type countedConn struct {
	harness.Tally
	part []byte // a message of which the rest has not come
}

// Handle counts messages and answers queries with the sum.
func (h *ourCount) Handle(_ *reactor.Loop, c *xtreme.Completion) {
	if c.Events.Has(xtreme.EventPacket) {
		m := c.Packet.Bytes()
		if c.Socket.Kind() == xtreme.KindDatagram {
			if len(m) == harness.MessageSize && h.udp.Take(m) {
				_, _ = c.Socket.SendTo(m, c.Source) // a lost answer is asked for again
			}
		} else {
			h.stream(c.Socket, m)
		}
		_ = c.Packet.Release() // just delivered: it is ours
	}
	if c.Events.Any(xtreme.EventRdHup | xtreme.EventHup) {
		delete(h.conns, c.Socket)
		_ = c.Socket.Close() // ours and open
	}
}

// stream counts the messages in a piece of a stream, whose borders need not be those of messages.
func (h *ourCount) stream(s *xtreme.Socket, m []byte) {
	t := h.conns[s]
	if t == nil {
		t = &countedConn{}
		h.conns[s] = t
	}
	if len(t.part) > 0 {
		n := min(harness.MessageSize-len(t.part), len(m))
		t.part = append(t.part, m[:n]...)
		if m = m[n:]; len(t.part) < harness.MessageSize {
			return
		}
		t.message(s, t.part)
		t.part = t.part[:0]
	}
	for ; len(m) >= harness.MessageSize; m = m[harness.MessageSize:] {
		t.message(s, m[:harness.MessageSize])
	}
	t.part = append(t.part, m...)
}

func (t *countedConn) message(s *xtreme.Socket, m []byte) {
	if t.Take(m) {
		_, _ = s.Send(m) // a lost answer is asked for again
	}
}
