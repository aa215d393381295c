package simnet

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link/linktest"
)

// No method of a closed card touches what is gone.
func TestClosedCard(t *testing.T) {
	w := New(1)
	h, err := w.Host("a", HostConfig{Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}})
	require.NoError(t, err)
	n := h.NIC(0)
	require.NoError(t, n.Close())
	defer func() { require.NoError(t, w.Close()) }()
	linktest.Closed(t, n, h.pool, func() buffers.Packet {
		p, err := h.pool.Alloc(60)
		require.NoError(t, err)
		p, err = h.pool.Transmit(p)
		require.NoError(t, err)
		return p
	})
}
