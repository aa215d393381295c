package peers

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	respserver "github.com/socketxtreme/socketxtreme/examples/resp/server"
)

// gnetEvents is a handler of gnet without the two methods that are given an Engine: those that follow are the same code for gnet and
// for reactor/gnet, whose connections are of the same type.
type gnetEvents interface {
	OnOpen(c gnet.Conn) ([]byte, gnet.Action)
	OnClose(c gnet.Conn, err error) gnet.Action
	OnTraffic(c gnet.Conn) gnet.Action
	OnTick() (time.Duration, gnet.Action)
}

// newGnetEvents is the handler of a role.
func newGnetEvents(flags harness.ServerFlags) gnetEvents {
	switch flags.Role {
	case "count":
		return &gnetCount{tcp: flags.Proto == "tcp"}
	case "resp":
		return respserver.NewHandler(respserver.New(respserver.Config{}))
	}
	return &gnetEcho{}
}

// gnetEcho returns what arrives.
type gnetEcho struct{ gnet.BuiltinEventEngine }

// OnTraffic serves what has arrived.
func (*gnetEcho) OnTraffic(c gnet.Conn) gnet.Action {
	b, err := c.Next(-1)
	if err != nil {
		return gnet.Close
	}
	if _, err := c.Write(b); err != nil {
		return gnet.Close
	}
	return gnet.None
}

// gnetCount counts messages and answers queries.
type gnetCount struct {
	gnet.BuiltinEventEngine
	tcp bool
	udp harness.Tally
}

// OnOpen gives a connection its harness.Tally.
func (s *gnetCount) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(&harness.Tally{})
	return nil, gnet.None
}

// OnTraffic counts what has arrived.
func (s *gnetCount) OnTraffic(c gnet.Conn) gnet.Action {
	t := &s.udp
	if s.tcp {
		t = c.Context().(*harness.Tally)
	}
	whole := c.InboundBuffered() / harness.MessageSize * harness.MessageSize
	if whole == 0 { // Next(0) would take the incomplete message
		return gnet.None
	}
	b, err := c.Next(whole)
	if err != nil {
		return gnet.Close
	}
	for ; len(b) >= harness.MessageSize; b = b[harness.MessageSize:] {
		if !t.Take(b[:harness.MessageSize]) {
			continue
		}
		if _, err := c.Write(b[:harness.MessageSize]); err != nil {
			return gnet.Close
		}
	}
	return gnet.None
}

// gnetLog lets only errors through, to standard error: gnet's own logger writes its greeting to standard output, where
// the harness expects "ready PORT".
type gnetLog struct{ w io.Writer }

// Debugf is silent.
func (gnetLog) Debugf(string, ...any) {}

// Infof is silent.
func (gnetLog) Infof(string, ...any) {}

// Warnf is silent: there is one for each client that leaves with a reset.
func (gnetLog) Warnf(string, ...any) {}

// Errorf prints.
func (l gnetLog) Errorf(format string, args ...any) { fmt.Fprintf(l.w, "gnet: "+format+"\n", args...) }

// Fatalf prints and ends the server.
func (l gnetLog) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	os.Exit(1)
}

// boundPort asks the kernel which port the listener got; gnet knows only the address it was given.
func boundPort(eng interface{ Dup() (int, error) }) (int, error) {
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
