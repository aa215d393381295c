package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// Clients that end at once, as health checks do, leave nothing behind; the server goes on.
func TestClientsThatEndAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		address := serving(t, kind).String()
		testnet.EndEarly(t, address, "hello", 250)
		testnet.AllClosed(t, address)
		c := dial(t, "tcp", address)
		_, err := c.Write([]byte("alive"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 5))
		require.NoError(t, err)
	})
}
