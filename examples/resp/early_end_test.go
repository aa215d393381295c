package main

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// Clients that end at once, as health checks do, leave nothing behind; the server goes on.
func TestClientsThatEndAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		address := serving(t, config{listen: netip.MustParseAddrPort("127.0.0.1:0"), ring: kind}).String()
		testnet.EndEarly(t, address, "PING\r\n", 250)
		testnet.AllClosed(t, address)
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 7))
		require.NoError(t, err)
	})
}
