package xtreme_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// cabled is a world of kind offload whose interfaces lead to a kernel in another namespace.
type cabled struct {
	*world
	net *testnet.Net
	log bytes.Buffer
}

func newCabled(t *testing.T, pairs ...testnet.Pair) *cabled {
	t.Helper()
	if len(pairs) == 0 {
		pairs = []testnet.Pair{{}}
	}
	w := &cabled{net: testnet.New(t, pairs...), world: &world{Assertions: require.New(t), t: t, room: 64}}
	w.engine = w.newEngine()
	w.poller = w.newPoller("test")
	return w
}

// newEngine makes an engine of kind offload, which logs to w.log.
func (w *cabled) newEngine(change ...func(*conf.Settings)) *xtreme.Engine {
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingOffload, 1024, 16
	for _, f := range change {
		f(&s)
	}
	s.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
	e, err := xtreme.New(s)
	w.NoError(err)
	w.t.Cleanup(func() { require.NoError(w.t, e.Close()) })
	return e
}

// newPoller makes one more owner; the world polls the first.
func (w *cabled) newPoller(name string, c ...xtreme.PollerConfig) *xtreme.Poller {
	w.t.Attr("ring", string(w.engine.Settings().Ring))
	p, err := w.engine.NewPoller(name, orZero(c))
	w.NoError(err)
	w.t.Cleanup(func() {
		if p == w.poller {
			for i := range w.kept {
				_ = w.kept[i].Packet.Release()
			}
		}
		if err := p.Close(); err != nil {
			require.ErrorIs(w.t, err, xtreme.ErrClosed) // the test did
		}
	})
	return p
}

// other is a world that polls another poller of the same engine.
func (w *cabled) other(p *xtreme.Poller) *world {
	x := &world{Assertions: w.Assertions, t: w.t, room: 64, engine: w.engine, poller: p}
	w.t.Cleanup(func() {
		for i := range x.kept {
			_ = x.kept[i].Packet.Release()
		}
	})
	return x
}

func (w *cabled) at(pair int) netip.AddrPort { return netip.AddrPortFrom(w.net.Local(pair), 0) }

// fast takes the next packet of s, which must have come over the link, and returns text and source.
func fast(w *world, s *xtreme.Socket) (string, netip.AddrPort) {
	w.t.Helper()
	c := w.event(s, xtreme.EventPacket)
	defer func() { w.NoError(c.Packet.Release()) }()
	w.False(c.ViaKernel, "by the kernel: %v", s.Ring().Stats().Driver)
	return string(c.Packet.Bytes()), c.Source
}

// answers lets s answer what the peer sends and checks that it gets there.
func answers(w *world, s *xtreme.Socket, peer *net.UDPConn) {
	w.t.Helper()
	text := "to " + s.LocalAddr().String()
	w.write(peer, text)
	got, from := fast(w, s)
	w.Equal(text, got)
	w.Equal(peer.LocalAddr().String(), from.String())
	_, err := s.SendTo([]byte("answer"), from)
	w.NoError(err)
	w.NoError(w.poller.Flush())
	b := make([]byte, 64)
	n, err := peer.Read(b)
	w.NoError(err)
	w.Equal("answer", string(b[:n]))
}

// counter is a count of the ring's driver. A link's have the queue in their names while the ring has several links: "v0/0.rx_frames".
func counter(r *ring.Ring, name string) uint64 {
	for _, c := range r.Stats().Driver {
		if c.Name == name {
			return c.Value
		}
	}
	panic("no counter " + name) // an assertion on a name that does not exist could not fail
}

func program(t *testing.T, name string) bool {
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	return l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
}
