package gnet_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// earlyEnds is how a peer may end a connection that the server has just accepted.
var earlyEnds = map[string]struct {
	data  string
	reset bool
}{
	"FIN":          {"", false},
	"RST":          {"", true},
	"data and FIN": {"hello", false},
	"data and RST": {"hello", true},
}

func endEarly(c *net.TCPConn, data string, reset bool) error {
	if data != "" {
		if _, err := c.Write([]byte(data)); err != nil {
			return err
		}
	}
	if reset {
		if err := c.SetLinger(0); err != nil {
			return err
		}
	}
	return c.Close()
}

// Connections that end at once: each has one OnOpen and one OnClose, as with gnet, and none is left. The peers come and go while
// the loop is held, so that a ring can report the connection and its end together; or one after the other, the end after OnOpen.
func TestConnectionsThatEndAtOnce(t *testing.T) {
	const n = 200
	list := map[string]func(*testing.T, world){}
	for name, end := range earlyEnds {
		for _, held := range []bool{true, false} {
			when := " after OnOpen"
			if held {
				when = " before it is accepted"
			}
			list[name+when] = func(t *testing.T, w world) {
				var opened, closed, failed, bytes atomic.Int64
				var mu sync.Mutex
				loops := make(chan gnet.EventLoop, 1)
				live := map[gnet.Conn]bool{}
				a := &actor{}
				a.events.open = func(c gnet.Conn) ([]byte, gnet.Action) {
					mu.Lock()
					defer mu.Unlock()
					assert.False(t, live[c], "a second OnOpen")
					live[c] = true
					select {
					case loops <- c.EventLoop():
					default:
					}
					opened.Add(1)
					return nil, gnet.None
				}
				a.events.traffic = func(c gnet.Conn) gnet.Action {
					b, _ := c.Next(-1)
					bytes.Add(int64(len(b)))
					return gnet.None
				}
				a.events.close = func(c gnet.Conn, err error) gnet.Action {
					mu.Lock()
					defer mu.Unlock()
					assert.True(t, live[c], "OnClose without OnOpen")
					delete(live, c)
					if err != nil {
						failed.Add(1)
					}
					closed.Add(1)
					return gnet.None
				}
				s := w.serve(t, a, gnet.Options{NumEventLoop: 1}, loopback)
				keep := s.dial(t).(*net.TCPConn)
				loop := within(t, loops, "OnOpen")
				release := func() {}
				if held {
					free, isHeld := make(chan struct{}), make(chan struct{})
					require.NoError(t, loop.Execute(t.Context(), runnable(func() error { close(isHeld); <-free; return nil })))
					within(t, isHeld, "the held loop")
					release = sync.OnceFunc(func() { close(free) })
					defer release()
				}
				for i := range n {
					c := s.dial(t).(*net.TCPConn)
					if !held {
						require.Eventually(t, func() bool { return opened.Load() == int64(i)+2 }, 10*time.Second, 50*time.Microsecond)
					}
					require.NoError(t, endEarly(c, end.data, end.reset))
				}
				release()
				assert.Eventually(t, func() bool {
					return opened.Load() == n+1 && closed.Load() == n && s.engine.CountConnections() == 1
				}, 10*time.Second, time.Millisecond)
				assert.EqualValues(t, n+1, opened.Load(), "OnOpen")
				assert.EqualValues(t, n, closed.Load(), "OnClose")
				assert.EqualValues(t, n, failed.Load(), "OnClose with an error")
				assert.Equal(t, 1, s.engine.CountConnections())
				if !end.reset || held { // a reset may come before data is read, never before it is received
					assert.EqualValues(t, n*len(end.data), bytes.Load(), "bytes received")
				}
				require.NoError(t, keep.Close())
				testnet.AllClosed(t, s.addrs[0])
			}
		}
	}
	semantics(t, list)
}

// The same beside an offloaded ring, where TCP is the kernel ring's.
func TestConnectionsThatEndAtOnceBesideOffload(t *testing.T) {
	var opened, closed atomic.Int64
	h := &handler{
		open:  func(gnet.Conn) ([]byte, gnet.Action) { opened.Add(1); return nil, gnet.None },
		close: func(gnet.Conn, error) gnet.Action { closed.Add(1); return gnet.None },
	}
	s := serve(t, h, loopback, gnet.WithRing(conf.RingOffload))
	const n = 250
	testnet.EndEarly(t, s.addr.String(), "hello", n)
	assert.Eventually(t, func() bool { return opened.Load() == 4*n && closed.Load() == 4*n }, 10*time.Second, time.Millisecond)
	assert.EqualValues(t, 4*n, opened.Load(), "OnOpen")
	assert.EqualValues(t, 4*n, closed.Load(), "OnClose")
	testnet.AllClosed(t, s.addr.String())
}
