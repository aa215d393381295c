package netconn

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// Shutdown ends a network as Close does; when its context ends first, it does not wait for a peer that does not read.
func TestShutdown(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		listen(t, n, "tcp")
		require.NoError(t, n.Shutdown(t.Context()))
		require.NoError(t, n.Close())
		_, err := n.Listen("tcp", "127.0.0.1:0")
		require.Error(t, err)

		n = newNetwork(t, kind, Config{Grace: time.Hour, CloseTimeout: time.Hour})
		ln := listen(t, n, "tcp")
		peer, err := net.Dial("tcp", ln.Addr().String()) // which does not read
		require.NoError(t, err)
		defer peer.Close()
		a, err := ln.Accept()
		require.NoError(t, err)
		for err = nil; err == nil; { // until nothing goes any more
			require.NoError(t, a.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
			_, err = a.Write(make([]byte, 64<<10))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		require.ErrorIs(t, n.Shutdown(ctx), context.Canceled, "an hour is not over")
		require.NoError(t, n.Close())
		var none context.Context
		require.ErrorContains(t, n.Shutdown(none), "context nil")
	})
}
