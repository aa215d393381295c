package simnet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// A ring on a machine with a kernel: what it claims comes by its queue, and with its program taken off by the kernel; each change is a PATH
// event.
func TestARingOnAKernel(t *testing.T) {
	w := New(1)
	k, err := w.Kernel("k", KernelConfig{Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}})
	require.NoError(t, err)
	r, err := k.Host("r", nil, HostConfig{})
	require.NoError(t, err)
	b, err := w.Host("b", HostConfig{Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}})
	require.NoError(t, err)
	_, err = w.Connect(k.NIC(0), b.NIC(0))
	require.NoError(t, err)
	s, err := r.OpenUDP(netip.MustParseAddrPort("10.0.0.1:7000"), ring.Config{})
	require.NoError(t, err)
	peer, err := b.OpenUDP(netip.MustParseAddrPort("10.0.0.2:7000"), ring.Config{})
	require.NoError(t, err)
	var byRing, byKernel, echoes, paths int
	r.Handle(func(c *ring.Completion) {
		if c.Events.Has(ring.EventPath) {
			paths++
		}
		if c.Packet.IsZero() {
			return
		}
		if c.ViaKernel {
			byKernel++
		} else {
			byRing++
		}
		_, err := s.SendTo(c.Packet.Bytes(), c.Source)
		require.NoError(t, err)
		require.NoError(t, c.Packet.Release())
	})
	b.Handle(func(c *ring.Completion) {
		if !c.Packet.IsZero() {
			echoes++
		}
		_ = c.Packet.Release()
	})
	for i := range 100 {
		b.After(time.Second+time.Duration(i)*10*time.Millisecond, func() {
			_, err := peer.SendTo([]byte("hello"), s.LocalAddr())
			require.NoError(t, err)
		})
	}
	w.At(1500*time.Millisecond, func() { k.NIC(0).TakeOffProgram() })
	require.NoError(t, w.Run(5*time.Second))
	t.Log(byRing, byKernel, echoes, paths, s.Path())
	require.Equal(t, 100, byRing+byKernel)
	require.Equal(t, 100, echoes)
	require.Positive(t, byKernel)
	require.Greater(t, byRing, byKernel)
	require.Equal(t, 2, paths)
	require.Equal(t, "bypass", s.Path().Tier)
	require.NoError(t, s.Close())
	require.NoError(t, w.Close())
}
