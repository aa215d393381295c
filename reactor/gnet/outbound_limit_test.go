package gnet_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// One write larger than the limit, to a peer that reads, arrives whole: the limit is for what waits already when more is written.
func TestOneWriteBeyondTheLimitArrives(t *testing.T) {
	const hard = 1 << 20
	data := noise(24 << 20)
	writes := map[string]func(gnet.Conn) error{
		"Write":  func(c gnet.Conn) error { _, err := c.Write(data); return err },
		"Writev": func(c gnet.Conn) error { _, err := c.Writev([][]byte{data[:9<<20], data[9<<20:]}); return err },
		"ReadFrom": func(c gnet.Conn) error {
			_, err := c.ReadFrom(bytes.NewReader(data))
			return err
		},
		"AsyncWrite": func(c gnet.Conn) error { return c.AsyncWrite(data, nil) },
		"behind a small one that waits": func(c gnet.Conn) error {
			if _, err := c.ReadFrom(bytes.NewReader(data[:4096])); err != nil {
				return err
			}
			_, err := c.Write(data[4096:])
			return err
		},
	}
	rings(t, func(t *testing.T, ring gnet.Option) {
		for name, write := range writes {
			t.Run(name, func(t *testing.T) {
				failed := make(chan error, 1)
				h := &handler{traffic: func(c gnet.Conn) gnet.Action {
					_, _ = c.Discard(-1)
					if err := write(c); err != nil {
						failed <- err
					}
					return gnet.None
				}}
				s := serve(t, h, loopback, ring, gnet.WithOutboundLimits(hard/2, hard))
				c := s.dial(t)
				_, err := c.Write([]byte("go"))
				require.NoError(t, err)
				got := make([]byte, len(data))
				n, err := io.ReadFull(c, got)
				require.NoError(t, err, "after %d of %d bytes", n, len(data))
				require.True(t, bytes.Equal(data, got))
				require.Empty(t, failed)
			})
		}
	})
}

// A connection that is given up with bytes unsent, for the limit or for a deadline, ends with a reset: its peer must not take what
// it has for the whole.
func TestGivenUpWithAReset(t *testing.T) {
	const hard = 1 << 20
	rings(t, func(t *testing.T, ring gnet.Option) {
		for _, deadline := range []bool{false, true} {
			closed := make(chan error, 1)
			h := &handler{close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}
			h.traffic = func(c gnet.Conn) gnet.Action {
				_, _ = c.Discard(-1)
				if deadline {
					_, _ = c.Write(make([]byte, 16*hard))
					_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
					return gnet.None
				}
				for err := error(nil); err == nil; {
					_, err = c.Write(make([]byte, 64<<10))
				}
				return gnet.None
			}
			s := serve(t, h, loopback, ring, gnet.WithOutboundLimits(hard/2, hard), gnet.WithSocketSendBuffer(64<<10))
			c := s.dial(t)
			require.NoError(t, c.(*net.TCPConn).SetReadBuffer(64<<10))
			_, err := c.Write([]byte("go"))
			require.NoError(t, err)
			why := within(t, closed, "OnClose")
			if deadline {
				require.ErrorIs(t, why, os.ErrDeadlineExceeded)
			} else {
				require.ErrorIs(t, why, gnet.ErrOutboundLimit)
			}
			_, err = io.Copy(io.Discard, c)
			require.ErrorIs(t, err, unix.ECONNRESET)
		}
	})
}
