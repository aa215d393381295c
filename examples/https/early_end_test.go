package main

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// Clients that end at once, as health checks do, leave nothing behind; the server goes on.
func TestClientsThatEndAtOnce(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for _, loops := range []int{1, 2} {
			ctx, stop := context.WithCancel(context.Background())
			ready, ended := make(chan *server, 1), make(chan error, 1)
			go func() {
				ended <- run(ctx, config{listen: "127.0.0.1:0", ring: kind, loops: loops}, func(s *server) { ready <- s })
			}()
			var address string
			select {
			case s := <-ready:
				address = s.listener.Addr().String()
			case err := <-ended:
				require.FailNow(t, "it did not start", "%v", err)
			}
			testnet.EndEarly(t, address, "GET / HTTP/1.1\r\n\r\n", 100)
			testnet.AllClosed(t, address)
			c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
			require.NoError(t, err)
			require.NoError(t, c.Close())
			stop()
			require.NoError(t, <-ended)
		}
	}
}
