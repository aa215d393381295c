package offload_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// A ring that carries TCP says why it refuses a stream socket, and not that it carries none: one made elsewhere, with the transport that such a
// ring has or with the kernel's alone, and a unix-domain one.
func TestWhatAStreamRingRefuses(t *testing.T) {
	s, _ := detachableOn(t, newCable(t, 1), xdp.Config{TCP: true, Retry: letGo})
	set := func(transport ring.Transport) *ring.Set {
		set, err := ring.NewSet(ring.SetConfig{Transport: transport, Kind: "offload", OneRing: offload.OneRing,
			Pool:   newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 512, Headroom: 192}),
			Driver: offload.New(offload.Config{Exchange: s.exchange, TCP: quickTCP(false), Interfaces: []nic.Interface{{Name: "v0"}}})})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, set.Close()) })
		return set
	}
	var missing *ring.FeatureError
	_, err := offload.NewKernelPorts(s.mirror).Open(ring.KindStream, ring.UnixDomain, &ring.Config{})
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "offload.no_unix", missing.Code, missing)

	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	f, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	a, err := kernel.Inspect(int(f.Fd()))
	require.NoError(t, err)
	for name, transport := range map[string]ring.Transport{"the ring's transport": offload.NewKernelPorts(s.mirror), "the kernel's alone": kernel.New()} {
		_, err = set(transport).Adopt(a, ring.Config{}, nil)
		require.ErrorAs(t, err, &missing, name)
		require.Equal(t, "offload.adopted", missing.Code, "%s: %v", name, missing)
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
	require.NoError(t, err, "the descriptor is the caller's")
}
