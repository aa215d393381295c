package netconn

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A connection on its way to a loop that ends by an error is closed: its client does not wait for ever.
func TestConnectionsOnTheirWayToALoopThatFails(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		settings := conf.Default()
		settings.Ring, settings.SmallBuffers, settings.LargeBuffers, settings.Logger = kind, 512, 16, quietLog()
		e, err := xtreme.New(settings)
		require.NoError(t, err)
		n, err := New(e, Config{Loops: 2, Logger: quietLog()})
		require.NoError(t, err)
		ln, err := n.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		to := n.loops[0]
		if to == ln.socket.loop {
			to = n.loops[1]
		}
		fail := make(chan struct{})
		require.NoError(t, to.reactor.Post(func() {
			<-fail
			_ = to.poller.Close()
		}))
		for range 10_000 { // more than it runs in a turn: the connection is behind them
			require.NoError(t, to.reactor.Post(func() {}))
		}
		var clients []net.Conn
		for range 2 { // one for each loop
			c, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			clients = append(clients, c)
		}
		own, err := ln.Accept()
		require.NoError(t, err)
		close(fail)
		require.Error(t, n.Close())
		_ = own.Close()
		for _, c := range clients {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
			_, err := c.Read(make([]byte, 1))
			require.Error(t, err)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		}
		require.NoError(t, e.Close())
	})
}
