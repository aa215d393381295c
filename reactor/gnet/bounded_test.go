package gnet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// A connection whose reading cannot be stopped at the high mark, because its socket has ended already, is closed for that: an error of
// Write ends the connection, and is what OnClose is given.
func TestWriteWhoseSuspendFailsEndsTheConnection(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		wrote, closed := make(chan error, 1), make(chan error, 1)
		h := &handler{close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}
		h.traffic = func(c gnet.Conn) gnet.Action {
			_, _ = c.Discard(-1)
			for c.OutboundBuffered() == 0 {
				if _, err := c.Write(make([]byte, 1<<20)); err != nil {
					wrote <- err
					return gnet.None
				}
			}
			_ = c.(gnet.ConnX).Socket().Abort()
			_, err := c.Write(make([]byte, 32<<20))
			wrote <- err
			return gnet.None
		}
		s := serve(t, h, loopback, ring, gnet.WithOutboundLimits(16<<20, -1))
		_, err := s.dial(t).Write([]byte("x")) // dialling has ended: the server will reset it
		require.NoError(t, err)
		err = within(t, wrote, "Write")
		require.Error(t, err)
		require.Equal(t, err, within(t, closed, "OnClose"))
	})
}
