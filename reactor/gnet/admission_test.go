package gnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// greeter greets connections, and has the engine.
type greeter struct {
	BuiltinEventEngine
	engine chan Engine
}

func (g *greeter) OnBoot(e Engine) Action { g.engine <- e; return None }

func (g *greeter) OnOpen(Conn) ([]byte, Action) { return []byte("!"), None }

func serveGreeter(t *testing.T, options ...Option) (*engine, string) {
	g := &greeter{engine: make(chan Engine, 1)}
	result := make(chan error, 1)
	go func() { result <- Run(g, "tcp://127.0.0.1:0", options...) }()
	var e Engine
	select {
	case e = <-g.engine:
	case err := <-result:
		require.FailNow(t, "it did not start", "%v", err)
	}
	address := e.Addrs()[0].String()
	t.Cleanup(func() {
		require.NoError(t, e.Stop(context.Background()))
		require.NoError(t, <-result)
	})
	return e.eng, address
}

// dial is nil when the connection was refused before dialling had ended.
func dial(t *testing.T, address string) net.Conn {
	c, err := net.Dial("tcp", address)
	if errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	require.NoError(t, err)
	return c
}

// served reports whether a connection is greeted.
func served(t *testing.T, address string) (net.Conn, bool) {
	c := dial(t, address)
	if c == nil {
		return nil, false
	}
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadFull(c, make([]byte, 1))
	return c, err == nil
}

// A connection that assign let pass and the ring then had no room for does not take a place for ever.
func TestConnectionThatTheRingDidNotAdmitTakesNoPlace(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) {
			eng, address := serveGreeter(t, WithRing(kind), WithMaxConnections(2))
			el, a := eng.loops[0], eng.listeners[0]
			lost := make(chan bool)
			require.NoError(t, el.tasks.push(task{kind: taskRun, run: func() {
				// The ring reports no more of them.
				first, second := a.assignConnection(-1, netip.AddrPort{}), a.assignConnection(-1, netip.AddrPort{})
				lost <- !first && !second
			}}))
			require.True(t, <-lost)
			first, ok := served(t, address)
			require.True(t, ok, "the first")
			_, ok = served(t, address)
			require.True(t, ok, "the second")
			_, ok = served(t, address)
			require.False(t, ok, "there are two places")
			require.NoError(t, first.Close())
			require.Eventually(t, func() bool { _, ok := served(t, address); return ok }, 20*time.Second, time.Millisecond)
		})
	}
}

// The NEW_CONNECTION of a connection that is refused, because the end has begun, may bring its first packet: neither is looked for in
// the table, where a socket's user data is another's slot until it is set.
func TestPacketOfARefusedConnection(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) {
			eng, address := serveGreeter(t, WithRing(kind))
			el, a := eng.loops[0], eng.listeners[0]
			_, ok := served(t, address)
			require.True(t, ok)
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			defer func() { _ = unix.Close(pair[1]) }()
			traffic := make(chan int, 1)
			require.NoError(t, el.tasks.push(task{kind: taskRun, run: func() {
				defer close(traffic)
				open := 0
				for i := range el.conns {
					if c := el.conns[i].c; c != nil {
						open = i
						c.blocked = 1 // what would come to it by mistake is withheld
					}
				}
				s, err := el.poller.Adopt(pair[0], xtreme.AdoptConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr(uint64(open))}})
				if err != nil {
					traffic <- -1
					return
				}
				el.stopping = true
				el.event(&xtreme.Completion{Socket: s, Listener: a.socket, Events: xtreme.EventNewConnection | xtreme.EventPacket})
				el.stopping = false
				other := el.conns[open].c
				traffic <- len(other.withheld)
				other.blocked, other.withheld = 0, nil
			}}))
			require.Zero(t, <-traffic, "packets that came to another connection")
		})
	}
}

// Twelve clients at a time for five places on three loops, again and again: never more than five are open, and all five are free in the end.
func TestMaxConnectionsWhenManyComeAtOnce(t *testing.T) {
	const places, clients = 5, 12
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) {
			eng, address := serveGreeter(t, WithRing(kind), WithMaxConnections(places), WithNumEventLoop(3))
			for range rounds {
				var conns []net.Conn
				for range clients {
					if c := dial(t, address); c != nil {
						conns = append(conns, c)
					}
				}
				greeted := 0
				for _, c := range conns {
					require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
					if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
						greeted++
					}
				}
				require.LessOrEqual(t, greeted, places)
				for _, c := range conns {
					require.NoError(t, c.(*net.TCPConn).SetLinger(0))
					require.NoError(t, c.Close())
				}
			}
			require.Eventually(t, func() bool { return eng.accepted.Load() == 0 }, 20*time.Second, time.Millisecond)
			for range places {
				_, ok := served(t, address)
				require.True(t, ok)
			}
			require.Equal(t, int64(places), eng.accepted.Load())
		})
	}
}
