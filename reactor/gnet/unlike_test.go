package gnet_test

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// What is unlike gnet in both modes; what gnet does is asserted beside it, so that a later version of it is noticed.
func TestUnlikeGnetInBothModes(t *testing.T) {
	semantics(t, map[string]func(*testing.T, world){
		"Writev leaves its argument alone": func(t *testing.T, w world) {
			big := noise(8 << 20) // more than the kernel takes
			w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action {
				bs := [][]byte{big, []byte("end")}
				n, err := c.Writev(bs)
				assert.NoError(t, err)
				assert.Equal(t, len(big)+3, n)
				if w.gnet() {
					assert.Less(t, len(bs[0]), len(big))
				} else {
					assert.Len(t, bs[0], len(big))
				}
				return gnet.None
			})
		},
		"the addresses stay, the descriptor goes": func(t *testing.T, w world) {
			if w.gnet() {
				return // it clears them while others may read
			}
			conns := make(chan gnet.Conn, 1)
			s, client := w.inTraffic(t, loopback, "x", func(c gnet.Conn) gnet.Action { conns <- c; return gnet.Close })
			c := within(t, conns, "the Conn")
			require.NoError(t, s.end(t))
			require.Equal(t, client.LocalAddr().String(), c.RemoteAddr().String())
			require.Equal(t, client.RemoteAddr().Network(), c.LocalAddr().Network())
			require.Equal(t, -1, c.Fd())
			_, err := c.Dup()
			require.Equal(t, net.ErrClosed, err)
			require.Equal(t, net.ErrClosed, c.SetNoDelay(true))
		},
		"OnClose that EventLoop.Close called returns Shutdown": func(t *testing.T, w world) {
			result := make(chan error, 1)
			a := &actor{}
			a.events.traffic = func(c gnet.Conn) gnet.Action { result <- c.EventLoop().Close(c); return gnet.None }
			a.events.close = func(gnet.Conn, error) gnet.Action { return gnet.Shutdown }
			s := w.serve(t, a, gnet.Options{}, loopback)
			send(t, s.dial(t), "x")
			err := within(t, result, "EventLoop.Close")
			require.Equal(t, w.exact, errors.Is(err, gnet.ErrEngineShutdown))
			if w.gnet() {
				require.NoError(t, s.engine.Validate())
				s.dial(t) // it goes on
				require.Empty(t, s.result)
				return
			}
			require.NoError(t, s.wait(t))
		},
		"with port 0 every loop has the same port": func(t *testing.T, w world) {
			if w.gnet() {
				return // each of its listeners is on another
			}
			loops, _ := w.placed(t, 40, gnet.Options{NumEventLoop: 2, ReusePort: true}, 0, loopback)
			require.Equal(t, 2, distinct(loops))
		},
	})
}
