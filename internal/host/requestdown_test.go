package host

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The kernel would take the question on an interface that is down, and make an entry that nothing removes when the interface comes up: it would
// ask a second later, and all that is sent until then would wait.
func TestRealKickOnInterfaceThatIsDown(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	a.pair("v0", b, "v1")
	a.address("v0", "10.1.0.1/24")
	require.NoError(t, a.LinkSetDown(a.link("v0")))
	peer := Target{a.index("v0"), ip("10.1.0.2")}
	var k *kernel
	a.in(func() (err error) { k, err = newKernel(1 << 20); return err })
	defer func() { k.stop(); k.close() }()
	require.ErrorIs(t, k.request(peer), unix.ENETDOWN)
	list, err := a.NeighList(peer.Interface, netlink.FAMILY_V4)
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoError(t, a.LinkSetUp(a.link("v0")))
	require.NoError(t, k.request(peer))
}

// A question that the kernel refused went to nobody: the next one need not wait for a second.
func TestRefusedKickDoesNotCountForASecond(t *testing.T) {
	f := newFake(twoLinks())
	f.kickErr = unix.ENETDOWN
	h := newHost(t, f)
	before := time.Now()
	_, err := h.Resolve(gateway)
	require.NoError(t, err)
	eventually(t, "it is refused", func() bool { return h.Stats().RequestFailures == 1 })
	h.resolver.mu.Lock()
	defer h.resolver.mu.Unlock()
	require.True(t, h.resolver.asked[gateway].Before(before))
}
