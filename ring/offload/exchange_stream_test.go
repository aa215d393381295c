package offload_test

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/udp"
)

// settledCable is a streamCable on whose near end another ring receives. What the peer has sent has been handed over when a reset returns: the
// suite expects it where the ring's own links would have it.
type settledCable struct {
	streamCable
	settle func()
}

func (c settledCable) DialStream(to netip.AddrPort, turn func()) (ringtest.StreamPeer, error) {
	p, err := c.streamCable.DialStream(to, turn)
	if err != nil {
		return nil, err
	}
	return settledConn{p.(kernelConn), c.settle}, nil
}

func (c settledCable) ListenStream() (ringtest.StreamListener, error) {
	l, err := c.streamCable.ListenStream()
	return settledListener{l.(kernelListener), c.settle}, err
}

type settledListener struct {
	kernelListener
	settle func()
}

func (l settledListener) Accept(turn func()) (ringtest.StreamPeer, error) {
	p, err := l.kernelListener.Accept(turn)
	if err != nil {
		return nil, err
	}
	return settledConn{p.(kernelConn), l.settle}, nil
}

type settledConn struct {
	kernelConn
	settle func()
}

func (c settledConn) Reset() error {
	err := c.kernelConn.Reset()
	c.settle()
	return err
}

// The stream half of the suite on a ring that carries TCP, while another ring, which carries TCP too, serves the queue that all segments come in
// on: each is handed over.
func TestStreamContractOverAnotherRingsQueue(t *testing.T) {
	var taken atomic.Uint64 // of rings that are closed beside each other
	var opened atomic.Bool
	var x atomic.Pointer[offload.Exchange] // of the case that was opened last; those that look at it run alone
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: streamCaps, Streams: true, Has: []string{ringtest.KeepAlive, ringtest.AcceptAway},
		Inspect: func(number int) (ring.Adopted, error) { return x.Load().Transit().Inspect(ring.Conn(number)) },
		Refuse:  func(number int) error { return x.Load().Transit().Refuse(ring.Conn(number)) }, Sleeps: wakeUps,
		Open: func(t *testing.T, pool *buffers.DriverPool, sc *ring.SetConfig) ringtest.Peers {
			s := newShared(t, 2) // or skip
			opened.Store(true)
			var err error
			require.NoError(t, s.exchange.Close())
			s.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: s.mirror, Open: nic.XDP(xdp.Config{Retry: letGo, TCP: true})})
			require.NoError(t, err)
			x.Store(s.exchange)
			c := streamCable{s.cable}
			c.know("v0", deadAddr, net.HardwareAddr{2, 0, 0, 0, 0, 9})
			join := func(sc *ring.SetConfig, queue, fill int) {
				sc.Kind, sc.OneRing, sc.Transport = "offload", offload.OneRing, offload.NewKernelPorts(s.mirror)
				made := offload.New(offload.Config{Exchange: s.exchange, TCP: quickTCP(false),
					Interfaces: []nic.Interface{{Name: "v0", Queues: []int{queue}, Fill: fill, Checksum: udp.AcceptPartial}}})
				sc.Driver = func(c ring.DriverConfig) (ring.Driver, error) {
					d, err := made(c)
					t.Cleanup(func() {
						for _, n := range d.(ring.CounterSource).Counters(nil) {
							if n.Name == "handover.taken" {
								taken.Add(n.Value)
							}
						}
					})
					return d, err
				}
			}
			first := ring.SetConfig{Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192})}
			join(&first, 0, 0)
			var other ring.Driver
			made := first.Driver
			first.Driver = func(c ring.DriverConfig) (ring.Driver, error) {
				var err error
				other, err = made(c)
				return other, err
			}
			set, err := ring.NewSet(first)
			require.NoError(t, err)
			r, err := set.NewRing()
			require.NoError(t, err)
			require.NoError(t, offload.OpenTCP(other))
			p := s.polled(set, r)
			join(sc, 1, 16)
			return settledCable{c, func() {
				for range 2 { // a whole Poll is between
					p.do(t, func() {})
				}
			}}
		}})
	if opened.Load() {
		require.Greater(t, taken.Load(), uint64(1000), "segments that were handed over")
	}
}
