package gnet_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	errorx "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// Starting and stopping: gnet's semantics one by one, asked of gnet itself too.
func TestBootAndStop(t *testing.T) {
	semantics(t, map[string]func(*testing.T, world){
		"OnBoot is called on Run's goroutine when the listener is bound and no loop runs": func(t *testing.T, w world) {
			opened := make(chan struct{}, 1)
			stack := ""
			a := &actor{events: handler{open: func(gnet.Conn) ([]byte, gnet.Action) { opened <- struct{}{}; return nil, gnet.None }}}
			a.boot = func(e anEngine) gnet.Action {
				stack = string(debug.Stack())
				c, err := net.Dial("tcp", boundTo(t, e, "tcp", "127.0.0.1:0"))
				if assert.NoError(t, err, "bound") {
					t.Cleanup(func() { _ = c.Close() })
				}
				time.Sleep(20 * time.Millisecond)
				assert.Empty(t, opened, "no loop yet")
				return gnet.None
			}
			w.serve(t, a, gnet.Options{}, loopback)
			within(t, opened, "OnOpen")
			require.Contains(t, stack, "world.run")
		},
		"Shutdown from OnBoot: Run returns nil, no OnShutdown": func(t *testing.T, w world) {
			a := &actor{boot: func(anEngine) gnet.Action { return gnet.Shutdown },
				shutdown: func(anEngine) { t.Error("OnShutdown") }}
			require.NoError(t, w.run(a, gnet.Options{}, loopback))
		},
		"Close from OnBoot is None": func(t *testing.T, w world) {
			s := w.serve(t, &actor{boot: func(anEngine) gnet.Action { return gnet.Close }, events: handler{traffic: echo}},
				gnet.Options{}, loopback)
			c := s.dial(t)
			send(t, c, "hello")
			expect(t, c, "hello")
		},
		"address grammar": func(t *testing.T, w world) {
			never := &actor{boot: func(anEngine) gnet.Action { return gnet.Shutdown }}
			for address, want := range map[string]error{
				"localhost": errorx.ErrInvalidNetworkAddress, "": errorx.ErrInvalidNetworkAddress,
				"tcp://": errorx.ErrInvalidNetworkAddress, "tcp://127.0.0.1:0/path": errorx.ErrInvalidNetworkAddress,
				"udp://": errorx.ErrInvalidNetworkAddress, "unix://": errorx.ErrInvalidNetworkAddress,
				"http://127.0.0.1:0": errorx.ErrUnsupportedProtocol, "tcp5://127.0.0.1:0": errorx.ErrUnsupportedProtocol,
			} {
				require.Equal(t, want, w.run(never, gnet.Options{}, address), address)
			}
			require.ErrorContains(t, w.run(never, gnet.Options{}, "127.0.0.1:9000"), "first path segment")
			for _, address := range []string{"tcp://127.0.0.1:0", "tcp4://:0", "tcp://:0", "udp4://127.0.0.1:0", "udp://:0",
				"unix://" + filepath.Join(t.TempDir(), "a")} {
				require.NoError(t, w.run(never, gnet.Options{}, address), address)
			}
		},
		"what is at a unix address before, and after": func(t *testing.T, w world) {
			address := unixAddress(t)
			name := strings.TrimPrefix(address, "unix://")
			l, err := net.Listen("unix", name)
			require.NoError(t, err)
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			require.NoError(t, l.Close())
			s := w.serve(t, &actor{}, gnet.Options{}, address)
			s.dial(t)
			require.NoError(t, s.end(t))
			require.NoFileExists(t, name)

			require.NoError(t, os.WriteFile(name, []byte("precious"), 0o600))
			err = w.run(&actor{boot: func(anEngine) gnet.Action { return gnet.Shutdown }}, gnet.Options{}, address)
			if w.exact {
				require.NoError(t, err, "gnet removes any file")
			} else {
				require.ErrorIs(t, err, unix.EADDRINUSE)
				require.FileExists(t, name)
			}
		},
		"Stop: OnShutdown and OnClose": func(t *testing.T, w world) {
			inTime(t, !w.exact, 400*time.Millisecond, func() time.Duration {
				var j journal
				var err error
				a := &actor{}
				a.shutdown = func(e anEngine) {
					fd, err := e.Dup()
					assert.NoError(t, err, "Dup in OnShutdown")
					assert.Greater(t, fd, 2)
					assert.NoError(t, closeFD(fd))
					j.note(fmt.Sprintf("OnShutdown, %d connections", e.CountConnections()))
				}
				opened := make(chan struct{})
				a.events = handler{
					open:  func(gnet.Conn) ([]byte, gnet.Action) { close(opened); return nil, gnet.None },
					close: func(_ gnet.Conn, err error) gnet.Action { j.note(fmt.Sprintf("OnClose %v", err)); return gnet.None },
				}
				s := w.serve(t, a, gnet.Options{}, loopback)
				s.dial(t)
				within(t, opened, "OnOpen")
				begin := time.Now()
				require.NoError(t, s.engine.Stop(t.Context()))
				took := time.Since(begin)
				require.NoError(t, s.wait(t))
				if w.exact {
					require.Equal(t, []string{"OnShutdown, 1 connections", "OnClose <nil>"}, j.all())
					require.GreaterOrEqual(t, took, 490*time.Millisecond)
				} else {
					require.Equal(t, []string{"OnClose <nil>", "OnShutdown, 0 connections"}, j.all())
				}
				require.Equal(t, errorx.ErrEngineInShutdown, s.engine.Stop(t.Context()), "a second Stop")
				require.Equal(t, errorx.ErrEngineInShutdown, s.engine.Validate())
				require.Equal(t, -1, s.engine.CountConnections())
				_, err = s.engine.Dup()
				require.Equal(t, errorx.ErrEngineInShutdown, err)
				return took
			})
		},
		"an event that returns Shutdown: OnClose of the loop's connections, then OnShutdown": func(t *testing.T, w world) {
			for _, event := range []string{"OnOpen", "OnTraffic", "OnClose", "Wake"} {
				var j journal
				a := &actor{shutdown: func(e anEngine) { j.note("OnShutdown") }}
				opens, first := 0, make(chan struct{})
				a.events.open = func(gnet.Conn) ([]byte, gnet.Action) {
					if opens++; opens == 1 {
						close(first)
					} else if event == "OnOpen" {
						return nil, gnet.Shutdown
					}
					return nil, gnet.None
				}
				woken := false
				a.events.traffic = func(c gnet.Conn) gnet.Action {
					switch {
					case event == "OnTraffic", woken:
						return gnet.Shutdown
					case event == "OnClose":
						return gnet.Close
					case event == "Wake":
						woken = true
						assert.NoError(t, c.Wake(nil))
					}
					return gnet.None
				}
				closes := 0
				a.events.close = func(_ gnet.Conn, err error) gnet.Action {
					assert.NoError(t, err)
					j.note("OnClose")
					if closes++; event == "OnClose" && closes == 1 {
						return gnet.Shutdown
					}
					return gnet.None
				}
				s := w.serve(t, a, gnet.Options{}, loopback)
				s.dial(t)
				within(t, first, "OnOpen")
				c := s.dial(t)
				_, _ = c.Write([]byte("x")) // the server may be gone already
				require.NoError(t, s.wait(t), event)
				require.Equal(t, []string{"OnClose", "OnClose", "OnShutdown"}, j.all(), event)
			}
		},
		"the zero Engine": func(t *testing.T, w world) {
			e := w.zeroEngine()
			require.Equal(t, errorx.ErrEmptyEngine, e.Validate())
			require.Equal(t, errorx.ErrEmptyEngine, e.Stop(t.Context()))
			require.Equal(t, -1, e.CountConnections())
			_, err := e.Dup()
			require.Equal(t, errorx.ErrEmptyEngine, err)
			_, err = e.DupListener("tcp", "")
			require.Equal(t, errorx.ErrEmptyEngine, err)
			_, err = e.Register(t.Context())
			require.Equal(t, errorx.ErrEmptyEngine, err)
		},
		"Dup and DupListener with several listeners": func(t *testing.T, w world) {
			address := unixAddress(t)
			s := w.serve(t, &actor{}, gnet.Options{}, loopback, address)
			fd, err := s.engine.Dup()
			require.Equal(t, []any{-1, errorx.ErrUnsupportedOp}, []any{fd, err})
			fd, err = s.engine.DupListener("tcp", "127.0.0.1:1")
			require.Equal(t, []any{-1, errorx.ErrInvalidNetworkAddress}, []any{fd, err})
			fd, err = s.engine.DupListener("unix", strings.TrimPrefix(address, "unix://"))
			require.NoError(t, err)
			require.NoError(t, closeFD(fd))
		},
		"Stop of the package, by address": func(t *testing.T, w world) {
			address := "tcp4://127.0.0.1:0" // no other engine's
			tick := make(chan struct{})
			a := &actor{events: handler{tick: func() (time.Duration, gnet.Action) { close(tick); return time.Hour, gnet.None }}}
			s := w.serve(t, a, gnet.Options{Ticker: true}, address)
			require.Equal(t, errorx.ErrEngineInShutdown, w.stop(t.Context(), loopback), "no such engine")
			within(t, tick, "OnTick")
			require.Eventually(t, func() bool { // the address is known soon after the loops run
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				defer cancel()
				err := w.stop(ctx, address)
				return err == nil || err == context.DeadlineExceeded
			}, 5*time.Second, time.Millisecond)
			require.NoError(t, s.wait(t))
			require.Equal(t, errorx.ErrEngineInShutdown, w.stop(t.Context(), address), "it has ended")
		},
		"ReuseAddr is off by default": func(t *testing.T, w world) {
			for _, reuse := range []bool{false, true} {
				address := "tcp://" + freePort(t)
				a := &actor{events: handler{open: func(gnet.Conn) ([]byte, gnet.Action) { return []byte("!"), gnet.Close }}}
				s := w.serve(t, a, gnet.Options{ReuseAddr: reuse}, address)
				c := s.dial(t)
				expect(t, c, "!")
				_, err := c.Read(make([]byte, 1))
				require.Error(t, err, "the server closed first, and is in TIME_WAIT")
				require.NoError(t, c.Close())
				require.NoError(t, s.end(t))
				never := &actor{boot: func(anEngine) gnet.Action { return gnet.Shutdown }}
				if err = w.run(never, gnet.Options{ReuseAddr: reuse}, address); reuse {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, unix.EADDRINUSE)
				}
			}
		},
		"the backlog is somaxconn": func(t *testing.T, w world) {
			s := w.serve(t, &actor{}, gnet.Options{}, loopback)
			fd, err := s.engine.Dup()
			require.NoError(t, err)
			defer func() { _ = closeFD(fd) }()
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			require.NoError(t, err)
			limit, err := os.ReadFile("/proc/sys/net/core/somaxconn")
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(string(limit)), fmt.Sprint(info.Sacked), "a listener's is its backlog")
		},
	})
}

// Errors are gnet's, by value.
func TestErrorsAreGnets(t *testing.T) {
	for _, pair := range [][2]error{
		{gnet.ErrEmptyEngine, errorx.ErrEmptyEngine}, {gnet.ErrEngineShutdown, errorx.ErrEngineShutdown},
		{gnet.ErrEngineInShutdown, errorx.ErrEngineInShutdown}, {gnet.ErrUnsupportedOp, errorx.ErrUnsupportedOp},
		{gnet.ErrTooManyEventLoopThreads, errorx.ErrTooManyEventLoopThreads}, {gnet.ErrNilRunnable, errorx.ErrNilRunnable},
		{gnet.ErrUnsupportedProtocol, errorx.ErrUnsupportedProtocol}, {gnet.ErrInvalidNetConn, errorx.ErrInvalidNetConn},
		{gnet.ErrInvalidNetworkAddress, errorx.ErrInvalidNetworkAddress},
	} {
		require.Same(t, pair[1], pair[0])
	}
}
