package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

var insecure = &tls.Config{InsecureSkipVerify: true}

// endAfterHandshake is a client that ends as soon as the handshake is done, or behind a request whose answer it does not read; with FIN, or
// with RST.
func endAfterHandshake(t *testing.T, address string, asks, reset bool) {
	c, err := net.Dial("tcp4", address)
	require.NoError(t, err)
	over := tls.Client(c, insecure)
	require.NoError(t, over.Handshake())
	if asks {
		_, err = over.Write([]byte("GET /bytes/100000 HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.NoError(t, err)
	}
	if reset {
		require.NoError(t, c.(*net.TCPConn).SetLinger(0))
	}
	require.NoError(t, c.Close()) // no close_notify
}

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
			testnet.EndEarly(t, address, "\x16", 50)                   // the first byte of a TLS record
			testnet.EndEarly(t, address, "GET / HTTP/1.1\r\n\r\n", 25) // no TLS at all
			for i := range 40 {
				endAfterHandshake(t, address, i&1 != 0, i&2 != 0)
			}
			testnet.AllClosed(t, address)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}}
			answer, err := client.Get("https://" + address + "/hello")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.NoError(t, answer.Body.Close())
			stop()
			require.NoError(t, <-ended)
		}
	}
}
