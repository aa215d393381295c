package offload_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/udp"
)

// slowGuard is a guard whose check, which a goroutine of its interface makes, lasts until the test ends it.
type slowGuard struct {
	nic.Guard
	checking chan struct{} // a check has begun
	end      chan struct{}
	begun    atomic.Bool
	ended    atomic.Bool
}

func (g *slowGuard) Check() error {
	if g.begun.Swap(true) {
		return g.Guard.Check()
	}
	close(g.checking)
	<-g.end
	defer g.ended.Store(true)
	return g.Guard.Check()
}

// slowlyGuarded is a device with that guard.
type slowlyGuarded struct {
	nic.Device
	guard *slowGuard
}

func (d slowlyGuarded) OpenGuard() (_ nic.Guard, err error) {
	d.guard.Guard, err = d.Device.OpenGuard()
	return d.guard, err
}

// An exchange that is closed has no goroutine left: what watches a guard works in the exchange's network namespace, whose descriptor is closed
// with it.
func TestExchangeEndsWithItsGoroutines(t *testing.T) {
	s := newShared(t, 1)
	g := &slowGuard{checking: make(chan struct{}), end: make(chan struct{})}
	open := nic.XDP(xdp.Config{Retry: letGo, TCP: true})
	exchange, err := offload.NewExchange(offload.ExchangeConfig{Host: s.mirror, Open: func(name string, p nic.Patience) (nic.Device, error) {
		d, err := open(name, p)
		if err != nil {
			return nil, err
		}
		return slowlyGuarded{d, g}, nil
	}})
	require.NoError(t, err)
	set, err := ring.NewSet(ring.SetConfig{Transport: offload.NewKernelPorts(s.mirror), Kind: "offload", OneRing: offload.OneRing,
		Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 1024, LargeSize: 65536, LargeCount: 8, Headroom: 192}),
		Driver: offload.New(offload.Config{Exchange: exchange, TCP: quickTCP(false),
			Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}}})})
	require.NoError(t, err)
	_, err = set.NewRing()
	require.NoError(t, err)
	select {
	case <-g.checking:
	case <-time.After(patience):
		require.Fail(t, "nothing watches the guard")
	}
	require.NoError(t, set.Close())
	time.AfterFunc(50*time.Millisecond, func() { close(g.end) })
	require.NoError(t, exchange.Close())
	require.True(t, g.ended.Load(), "the goroutine that watches the guard goes on")
}
