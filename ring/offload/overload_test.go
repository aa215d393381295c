package offload_test

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// A socket over its budget stops and goes on with each batch that its application holds and releases: no system call goes with that. While it
// is stopped its ring can sleep.
func TestBudgetStopsCostNoSystemCall(t *testing.T) {
	c := newCable(t, 1)
	s := &shared{cable: c}
	var wg sync.WaitGroup
	s.on(&wg, func() {
		sc := ring.SetConfig{Transport: kernel.New(), Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 1024, Headroom: 192})}
		c.plug(&sc, xdp.Config{})
		set, err := ring.NewSet(sc)
		if !assert.NoError(t, err) {
			return
		}
		u, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048, Budget: 1})
		assert.NoError(t, err)
		assert.NoError(t, u.Bind(netip.MustParseAddrPort("10.0.0.1:7000")))
		dst := make([]ring.Completion, 8)
		_, err = u.Ring().Poll(dst)
		assert.NoError(t, err)
		peer := s.Dial(u.LocalAddr())
		defer peer.Close()
		calls := testnet.CountCalls(t, unix.SYS_EPOLL_CTL, "epoll_ctl")
		got := 0
		for range 500 {
			_, err := peer.Write([]byte("x"))
			assert.NoError(t, err)
			for end := time.Now().Add(patience); ; {
				n, err := u.Ring().Poll(dst)
				if !assert.NoError(t, err) || !assert.True(t, time.Now().Before(end), "nothing comes") {
					return
				}
				for i := range dst[:n] {
					assert.NoError(t, dst[i].Packet.Release())
				}
				if got += n; n > 0 {
					break
				}
			}
		}
		stops := u.Ring().Stats().BudgetStops
		assert.Equal(t, 500, got)
		assert.Greater(t, stops, uint64(400))
		assert.LessOrEqual(t, calls.Total(), 4, "%d stops: %v", stops, calls)

		// The kernel's side of a stopped socket has something: neither does a ring that sleeps wake for it, nor does it come before the socket
		// reads again.
		assert.NoError(t, u.Suspend())
		self, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		assert.NoError(t, err)
		defer unix.Close(self)
		_, err = u.Ring().Poll(dst)
		assert.NoError(t, err)
		for range 2 {
			assert.NoError(t, unix.Sendto(self, []byte("own host"), 0, &unix.SockaddrInet4{Port: 7000, Addr: [4]byte{10, 0, 0, 1}}))
			pending, err := u.Ring().Arm()
			assert.NoError(t, err)
			assert.False(t, pending)
			list := []unix.PollFd{{Fd: int32(u.Ring().FD()), Events: unix.POLLIN}}
			n, err := unix.Poll(list, 50)
			assert.NoError(t, err)
			assert.Zero(t, n, "a ring wakes for a socket that does not read")
			n, err = u.Ring().Poll(dst)
			assert.NoError(t, err)
			assert.Zero(t, n)
		}
		assert.NoError(t, u.Resume())
		got = 0
		for end := time.Now().Add(patience); got < 2 && time.Now().Before(end); {
			n, err := u.Ring().Poll(dst)
			assert.NoError(t, err)
			for i := range dst[:n] {
				assert.True(t, dst[i].ViaKernel)
				assert.NoError(t, dst[i].Packet.Release())
			}
			got += n
		}
		assert.Equal(t, 2, got)
		assert.NoError(t, set.Close())
	})
	wg.Wait()
	require.False(t, t.Failed())
}
