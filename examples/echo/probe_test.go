package main

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// A server that answers nothing: the client counts what is lost and ends in time, however it sleeps.
func TestClientOfASilentServer(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []string{"spin", "wait"} {
			silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			require.NoError(t, err)
			begin := time.Now()
			err = client(t.Context(), config{listen: netip.MustParseAddrPort(silent.LocalAddr().String()), udp: true, ring: kind,
				rest: rest, probe: 500 * time.Millisecond})
			require.NoError(t, silent.Close())
			require.ErrorContains(t, err, "UDP: no answer at all")
			require.NotContains(t, err.Error(), "(0 lost)")
			require.Less(t, time.Since(begin), 10*time.Second)
		}
	})
}

// Nobody there at all.
func TestClientWithoutServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := netip.MustParseAddrPort(l.Addr().String())
	require.NoError(t, l.Close())
	err = client(context.Background(), config{listen: a, tcp: true, ring: conf.RingAuto, rest: "spin", probe: time.Second})
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, a.String())
}
