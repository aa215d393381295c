package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// gnetPeer serves with gnet: one event loop, its defaults otherwise (level-triggered, TCP_NODELAY on).
func gnetPeer(args []string, out, errs io.Writer) error {
	flags, err := parsePeerFlags("gnet", args, errs, nil)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return flags.profiled(func() error {
		return gnet.Run(&gnetServer{ctx: ctx, out: out, flags: flags}, flags.proto+"://"+flags.addr,
			gnet.WithNumEventLoop(1), gnet.WithLogger(gnetLog{errs}))
	})
}

// gnetLog lets only errors through, to standard error: gnet's own logger writes its greeting to standard output, where
// the harness expects "ready PORT".
type gnetLog struct{ w io.Writer }

func (gnetLog) Debugf(string, ...any) {}
func (gnetLog) Infof(string, ...any)  {}
func (gnetLog) Warnf(string, ...any)  {} // one for each client that leaves with a reset

func (l gnetLog) Errorf(format string, args ...any) { fmt.Fprintf(l.w, "gnet: "+format+"\n", args...) }

func (l gnetLog) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	os.Exit(1)
}

type gnetServer struct {
	gnet.BuiltinEventEngine
	ctx   context.Context
	out   io.Writer
	flags peerFlags
	tally tally // udp
}

// OnBoot tells the port and arranges the end. The listener is open already, so clients may come.
func (s *gnetServer) OnBoot(eng gnet.Engine) gnet.Action {
	port, err := boundPort(eng)
	if err != nil {
		fmt.Fprintln(s.out, err)
		return gnet.Shutdown
	}
	context.AfterFunc(s.ctx, func() { _ = eng.Stop(context.Background()) })
	fmt.Fprintf(s.out, "ready %d\n", port)
	return gnet.None
}

// boundPort asks the kernel which port the listener got; gnet knows only the address it was given.
func boundPort(eng gnet.Engine) (int, error) {
	fd, err := eng.Dup()
	if err != nil {
		return 0, fmt.Errorf("gnet listener: %w", err)
	}
	defer unix.Close(fd)
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("gnet listener: getsockname: %w", err)
	}
	switch a := addr.(type) {
	case *unix.SockaddrInet4:
		return a.Port, nil
	case *unix.SockaddrInet6:
		return a.Port, nil
	}
	return 0, fmt.Errorf("gnet listener: unexpected address %T", addr)
}

// OnOpen gives a counting connection its tally.
func (s *gnetServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if s.flags.role == "count" {
		c.SetContext(&tally{})
	}
	return nil, gnet.None
}

// OnTraffic serves what has arrived.
func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	if s.flags.role == "count" {
		return s.count(c)
	}
	b, err := c.Next(-1)
	if err != nil {
		return gnet.Close
	}
	if _, err := c.Write(b); err != nil {
		return gnet.Close
	}
	return gnet.None
}

func (s *gnetServer) count(c gnet.Conn) gnet.Action {
	t := &s.tally
	if s.flags.proto == "tcp" {
		t = c.Context().(*tally)
	}
	whole := c.InboundBuffered() / messageSize * messageSize
	if whole == 0 { // Next(0) would take the incomplete message
		return gnet.None
	}
	b, err := c.Next(whole)
	if err != nil {
		return gnet.Close
	}
	for ; len(b) >= messageSize; b = b[messageSize:] {
		if !t.take(b[:messageSize]) {
			continue
		}
		if _, err := c.Write(b[:messageSize]); err != nil {
			return gnet.Close
		}
	}
	return gnet.None
}
