package offload_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// A device that is being opened keeps nobody else waiting but those who want the same one, who get it or open it themselves.
func TestOpeningADeviceStallsNobody(t *testing.T) {
	s := newShared(t, 1)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	opens := 0
	s.wrap(func(d nic.Device) nic.Device {
		opens++
		once.Do(func() { close(begun); <-release })
		return d
	})
	var wg sync.WaitGroup
	sets := make([]*ring.Set, 2)
	for i := range sets {
		s.on(&wg, func() {
			set, _, err := s.trySet([]int{})
			if err != nil {
				t.Errorf("ring %d: %v", i, err)
			}
			sets[i] = set
		})
	}
	<-begun
	asked := make(chan bool)
	go func() {
		_, ok := s.exchange.Path("v0") // takes the lock that polled rings take
		asked <- ok
	}()
	select {
	case ok := <-asked:
		require.False(t, ok)
	case <-time.After(patience):
		t.Error("the exchange is locked while a device is being opened")
	}
	close(release)
	wg.Wait()
	for _, set := range sets {
		require.NoError(t, set.Close())
	}
	require.Equal(t, 1, opens)
}

// refusing is a device that takes no claims.
type refusing struct{ nic.Device }

func (d refusing) Claim(link.Flow) error { return unix.ENOSPC }

// An interface that could not be added leaves nothing behind, however often it is tried.
func TestFailedInterfaceLeavesNothing(t *testing.T) {
	s := newShared(t, 1)
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "w1"}
	pair.Name = "w0"
	require.NoError(t, netlink.LinkAdd(pair))
	require.NoError(t, netlink.LinkSetUp(pair))
	refuse := true
	s.wrap(func(d nic.Device) nic.Device {
		if refuse && d.Info().Name == "w0" {
			return refusing{d}
		}
		return d
	})
	var driver ring.Driver
	make := offload.New(offload.Config{Exchange: s.exchange, Interfaces: []nic.Interface{{Name: "v0", Fill: 64}}})
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 512, Headroom: 192}), Kind: "offload",
		OneRing: offload.OneRing, Driver: func(c ring.DriverConfig) (_ ring.Driver, err error) {
			driver, err = make(c)
			return driver, err
		}})
	require.NoError(t, err)
	r, err := set.NewRing()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	u := s.open(set, "0.0.0.0:7000")
	counters := 0
	for range 5 {
		require.ErrorIs(t, offload.AddInterface(driver, nic.Interface{Name: "w0", Fill: 64}), unix.ENOSPC)
		n := len(r.Stats().Driver)
		require.True(t, counters == 0 || n == counters, "%d counters, then %d", counters, n)
		counters = n
	}
	require.NotContains(t, u.Path().Explain(), "w0")
	refuse = false
	require.NoError(t, offload.AddInterface(driver, nic.Interface{Name: "w0", Fill: 64}))
	require.Contains(t, u.Path().Explain(), "xdp w0/0")
}
