package offload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// exchanging gives the wires another exchange, whose devices are opened by open.
func (w *wires) exchanging(open func(name string, p nic.Patience) (nic.Device, error)) {
	require.NoError(w.t, w.exchange.Close())
	var err error
	w.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: w.mirror, Open: open})
	require.NoError(w.t, err)
}

// A member that leaves its bond while it is still being opened has nothing when that is done: queue and device are closed, though the
// interface lives on.
func TestMemberLeavesWhileBeingOpened(t *testing.T) {
	w := bonded(t, host.BondXOR)
	w.start()
	begun, let := make(chan struct{}, 4), make(chan struct{})
	w.exchanging(func(name string, p nic.Patience) (nic.Device, error) {
		if name == "m2" {
			begun <- struct{}{}
			<-let
		}
		return w.open(name, p)
	})
	set, r, _ := w.ring(bondOnV0)
	x := w.listener(set, "10.0.0.1:7000")
	places := len(r.Stats().Driver)
	for round := range 2 {
		w.carrying(1003, "m2", func(l *host.Link) { l.Master = w.index[0] })
		w.tell()
		x.until("the opener is at work", func() bool { return len(begun) > 0 })
		<-begun
		w.link("m2").Master = 0
		w.tell()
		for range 64 {
			x.poll()
		}
		let <- struct{}{}
		x.until("closed", func() bool { return w.closed.Load() == int32(round+1) })
		d := w.device("m2")
		d.mu.Lock()
		open := d.end != nil
		d.mu.Unlock()
		require.False(t, open, "the queue is open")
		require.NotContains(t, x.s.Path().Explain(), "m2")
		for range 64 {
			x.poll()
		}
		w.without("m2")
		w.tell()
	}
	require.Equal(t, places, len(r.Stats().Driver), "it never had a place")
}

// slowToShut is a device whose links are closed when the test lets them.
type slowToShut struct {
	nic.Device
	gate chan struct{}
}

type slowLink struct {
	link.Staged
	gate chan struct{}
}

func (d slowToShut) PrepareQueue(q int, p *buffers.DriverPool, fill int) (link.Staged, error) {
	l, err := d.Device.PrepareQueue(q, p, fill)
	return slowLink{l, d.gate}, err
}

func (l slowLink) Shut() error { <-l.gate; return l.Staged.Shut() }

// A member that leaves and joins again while its links are still being closed is had again, for a VLAN of the bond too.
func TestMemberRejoinsWhileLeaving(t *testing.T) {
	w := bonded(t, host.BondXOR)
	w.having(1, func(l *host.Link) {
		l.Kind, l.Parent, l.VLAN, l.VLANProtocol = host.KindVLAN, w.index[0], 5, wire.TypeVLAN
	})
	w.start()
	gate := make(chan struct{})
	w.exchanging(func(name string, p nic.Patience) (nic.Device, error) {
		d, err := w.open(name, p)
		return slowToShut{d, gate}, err
	})
	set, _, driver := w.ring(bondOnV0)
	require.NoError(t, offload.AddInterface(driver, nic.Interface{Name: "v1", On: "v1", VLAN: 5, Bond: true}))
	x, y := w.listener(set, "10.0.0.1:7000"), w.listener(set, "10.0.1.1:7000")
	for range 64 {
		x.poll()
	}
	w.link("m1").Master = 0
	w.tell()
	for range 64 {
		x.poll()
	}
	require.NotContains(t, x.s.Path().Explain(), "m1")
	w.link("m1").Master = w.index[0]
	w.tell()
	for range 64 {
		x.poll()
	}
	close(gate)
	x.until("m1 is a member again", func() bool {
		return strings.Contains(x.s.Path().Explain(), "memory m1") && strings.Contains(y.s.Path().Explain(), "memory m1")
	})
	w.come("m1", 0, 0, x.s.LocalAddr(), 1)
	x.until("received", func() bool { return x.seen[1] })
}

// gatedClose is a device that is closed when the test lets it.
type gatedClose struct {
	nic.Device
	begun chan struct{}
	gate  chan struct{}
}

func (d gatedClose) Close() error {
	d.begun <- struct{}{}
	<-d.gate
	return d.Device.Close()
}

// While a ring that is closed closes its devices, however long that takes, the others of the exchange poll on.
func TestClosingStallsNobody(t *testing.T) {
	w := newWires(t)
	w.having(0, func(*host.Link) {})
	w.having(1, func(*host.Link) {})
	w.start()
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	w.exchanging(func(name string, p nic.Patience) (nic.Device, error) {
		d, err := w.open(name, p)
		if name == "v1" && err == nil {
			d = gatedClose{d, begun, gate}
		}
		return d, err
	})
	_, r, _ := w.ring(nic.Interface{Name: "v0"})
	made := offload.New(offload.Config{Exchange: w.exchange, Interfaces: []nic.Interface{{Name: "v1"}}})
	pool := newPool(t, w.pool.Layout())
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "offload", OneRing: offload.OneRing, Driver: made})
	require.NoError(t, err)
	_, err = set.NewRing()
	require.NoError(t, err)
	closed := make(chan error)
	go func() { closed <- set.Close() }()
	<-begun
	late := time.AfterFunc(patience, func() { close(gate) }) // for a ring that does wait
	dst := make([]ring.Completion, 8)
	for range 1000 { // some looks at the clock and at the exchange
		_, err = r.Poll(dst)
		require.NoError(t, err)
	}
	require.True(t, late.Stop(), "the polls waited")
	close(gate)
	require.NoError(t, <-closed)
}

// A VLAN of a bond that is made another kind of interface in the turn in which a member's queues are brought home gets none of them.
func TestVLANLeavesAsItsMemberIsOpened(t *testing.T) {
	w := bonded(t, host.BondXOR)
	w.having(1, func(l *host.Link) {
		l.Kind, l.Parent, l.VLAN, l.VLANProtocol = host.KindVLAN, w.index[0], 5, wire.TypeVLAN
	})
	w.start()
	begun, let := make(chan struct{}, 4), make(chan struct{})
	w.exchanging(func(name string, p nic.Patience) (nic.Device, error) {
		if name == "m2" {
			begun <- struct{}{}
			<-let
		}
		return w.open(name, p)
	})
	set, _, driver := w.ring(bondOnV0)
	require.NoError(t, offload.AddInterface(driver, nic.Interface{Name: "v1", On: "v1", VLAN: 5, Bond: true}))
	x, y := w.listener(set, "10.0.0.1:7000"), w.listener(set, "10.0.1.1:7000")
	w.carrying(1003, "m2", func(l *host.Link) { l.Master = w.index[0] })
	w.tell()
	x.until("the opener is at work", func() bool { return len(begun) > 0 })
	close(let)
	for open := false; !open; time.Sleep(5 * time.Millisecond) { // and the opener ends
		if d := w.device("m2"); d != nil {
			d.mu.Lock()
			open = d.end != nil
			d.mu.Unlock()
		}
	}
	w.link("v1").Kind = host.KindTeam
	w.tell()
	x.until("m2 is a member", func() bool { return strings.Contains(x.s.Path().Explain(), "memory m2") })
	require.Equal(t, "kernel", y.s.Path().Tier)
}
