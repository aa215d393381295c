package extraapi_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Warm sends send nothing, are counted apart, and tell of nothing: VMA raises EPOLLOUT.
func TestWarmSendsNothing(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		p := w.peer()
		for _, connected := range []bool{false, true} {
			s, to := w.udp(), p.addr()
			if connected {
				w.NoError(s.Connect(to))
				to = netip.AddrPort{}
			}
			before := s.Ring().Stats().WarmSends
			const n = 1000
			for range n {
				w.NoError(extraapi.DummySend(s, []byte("warm"), to))
			}
			k, err := extraapi.Send(s, []byte("warm"), to, extraapi.DummyFlag)
			w.NoError(err)
			w.Equal(4, k)
			p.nothing()
			w.Zero(w.frames)
			w.Equal(ring.SocketStats{WarmSends: n + 1}, s.Stats())
			w.Equal(before+n+1, s.Ring().Stats().WarmSends)
			w.Zero(s.Ring().Stats().SentMessages)
			w.silent(0)
			l := s.Ring().Ledger()
			w.Zero(l.Transmitting + l.Completing + l.Held)
			_, err = extraapi.Send(s, []byte("real"), to, 0)
			w.NoError(err)
			w.Equal("real", string(p.read()))
			w.closed(s)
			w.frames, w.farKept = 0, nil
			w = newWorldLike(w)
			p = w.peer()
		}
	})
}

// newWorldLike is a fresh world of the same kind, whose counters begin at 0.
func newWorldLike(w *world) *world { return newWorld(w.t, w.kind) }

// What goes over the wire is what would have gone without the warm sends: payload, and identification one after the other.
func TestWarmLeavesIdentificationsAlone(t *testing.T) {
	w := newWorld(t, "offload")
	s, p := w.udp(), w.peer()
	send := func() uint16 {
		_, err := s.SendTo([]byte("payload"), p.addr())
		w.NoError(err)
		w.Equal("payload", string(p.read()))
		return binary.BigEndian.Uint16(w.last[14+4:])
	}
	id := send()
	for range 100 {
		w.NoError(extraapi.DummySend(s, []byte("warm payload"), p.addr()))
	}
	w.Equal(id+1, send())
}

// A path that is not warm is EAGAIN, and no question for the neighbour leaves either: VMA sends a real datagram here.
func TestWarmOnAColdPath(t *testing.T) {
	w := newWorld(t, "offload")
	w.facts.SetFacts(facts(0, false))
	s, p := w.udp(), w.peer()
	for range 3 {
		w.ErrorIs(extraapi.DummySend(s, []byte("x"), p.addr()), unix.EAGAIN)
		w.poll()
	}
	w.Zero(w.frames)
	w.Equal(uint64(3), s.Stats().WarmSendsCold)
	w.Zero(s.Stats().WarmSends)
	_, err := extraapi.SocketNetworkHeader(s, nil, p.addr())
	w.ErrorIs(err, unix.ENOTCONN)
	w.NoError(extraapi.Prepare(s, p.addr()))
	w.until("the neighbour", func() bool { w.poll(); return extraapi.DummySend(s, []byte("x"), p.addr()) == nil })
	w.Equal(1, w.frames, "the question that Prepare asked")
	_, err = s.SendTo([]byte("now"), p.addr())
	w.NoError(err)
	w.Equal("now", string(p.read()))
}

func TestWarmMisuse(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, p := w.udp(), w.peer()
		for want, err := range map[error]error{
			unix.EDESTADDRREQ: extraapi.DummySend(s, nil, netip.AddrPort{}),
			unix.EAFNOSUPPORT: extraapi.DummySend(s, nil, netip.MustParseAddrPort("[::1]:9")),
			unix.EINVAL:       extraapi.DummySend(s, nil, port0(p.addr())),
			unix.EMSGSIZE:     extraapi.DummySend(s, make([]byte, 65508), p.addr()),
			ring.ErrState:     extraapi.DummySend(w.socket(ring.KindDatagram), nil, p.addr()),
		} {
			w.ErrorIs(err, want)
		}
		w.NoError(extraapi.DummySend(s, make([]byte, 65507), p.addr()))
		w.NoError(extraapi.DummySend(s, nil, p.addr()), "an empty datagram is one")
		w.poll()
		failed := make(chan error)
		go func() { failed <- extraapi.DummySend(s, nil, p.addr()) }()
		w.ErrorIs(<-failed, ring.ErrOwner)
		w.closed(s)
		w.ErrorIs(extraapi.DummySend(s, nil, p.addr()), ring.ErrClosed)
		p.nothing()
		w.Zero(w.frames)
	})
}

// TCP of the kernel has no send that sends nothing: it is refused by name, and nothing reaches the peer.
func TestWarmOfAStream(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		s, peer := w.pair(w.listen())
		err := extraapi.DummySend(s, []byte("x"), netip.AddrPort{})
		var f *ring.FeatureError
		w.ErrorAs(err, &f)
		w.Equal("warm.kernel_tcp", f.Code)
		w.ErrorIs(err, ring.ErrNotSupported)
		_, err = s.Send([]byte("real"))
		w.NoError(err)
		b := make([]byte, 8)
		n, err := peer.Read(b)
		w.NoError(err)
		w.Equal("real", string(b[:n]))
	})
}

// Where Send would find no place, Warm does not either.
func TestWarmWithoutRoom(t *testing.T) {
	w := newWorldOn(t, "offload", buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 65536, LargeCount: 8, Headroom: 192})
	s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{SendQueue: 2})
	w.NoError(err)
	w.NoError(s.Bind(w.local))
	p := w.peer()
	for range 2 {
		_, err := s.SendTo([]byte("queued"), p.addr())
		w.NoError(err)
	}
	w.ErrorIs(extraapi.DummySend(s, []byte("x"), p.addr()), unix.EAGAIN)
	w.Equal("queued", string(p.read()))
	w.Equal("queued", string(p.read()))
	w.NoError(extraapi.DummySend(s, []byte("x"), p.addr()))
	var all []buffers.Packet
	for {
		b, err := w.pool.Alloc(1)
		if err != nil {
			break
		}
		all = append(all, b)
	}
	w.ErrorIs(extraapi.DummySend(s, []byte("x"), p.addr()), unix.EAGAIN)
	_, err = extraapi.FreePackets(s, all...)
	w.NoError(err)
	w.NoError(extraapi.DummySend(s, []byte("x"), p.addr()))
}

// IPv6 goes the kernel's other way (ip6_make_skb).
func TestWarmOverIPv6(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		peer, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
		if err != nil {
			testnet.Missing(w.t, "ipv6", err)
		}
		defer peer.Close()
		s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv6, ring.Config{})
		w.NoError(err)
		w.NoError(s.Bind(netip.MustParseAddrPort("[::1]:0")))
		to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
		for range 100 {
			w.NoError(extraapi.DummySend(s, []byte("warm"), to))
		}
		_, err = s.SendTo([]byte("real"), to)
		w.NoError(err)
		b := make([]byte, 8)
		n, err := peer.Read(b)
		w.NoError(err)
		w.Equal("real", string(b[:n]), "the first that arrives")
	})
}

// A route that goes away between is found again by each.
func TestWarmFollowsTheTables(t *testing.T) {
	w := newWorld(t, "offload")
	s, p := w.udp(), w.peer()
	w.NoError(extraapi.DummySend(s, []byte("x"), p.addr()))
	none := facts(0, true)
	none.Routes = nil
	w.facts.SetFacts(none)
	w.ErrorIs(extraapi.DummySend(s, []byte("x"), p.addr()), unix.ENETUNREACH)
	w.facts.SetFacts(facts(0, true))
	w.NoError(extraapi.DummySend(s, []byte("x"), p.addr()))
	w.Zero(w.frames)
}

// The packet path of warm sends, callbacks and pulled packets allocates nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	onEach(t, everyKind, func(w *world) {
		s, p := w.udp(), w.peer()
		to := p.addr()
		b := make([]byte, 64)
		w.Zero(testing.AllocsPerRun(200, func() { _ = extraapi.DummySend(s, b, to) }), "warm")

		seen := 0
		c := w.udp(w.pull, w.with(func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
			seen += i.Bytes
			return extraapi.PacketRecv
		}))
		dst, done := make([]ring.Completion, 8), make([]ring.Completion, 8)
		round := func() {
			_, _ = s.SendTo(b, c.LocalAddr())
			for want, polls := c.Stats().Packets+1, 0; c.Stats().Packets < want && polls < 1e6; polls++ {
				_, _ = c.Ring().Poll(done)
			}
			n, _, _ := extraapi.RecvFromZeroCopy(c, dst, 0, extraapi.ZeroCopy)
			_, _ = extraapi.FreeCompletions(c, dst[:n])
		}
		for range 20 {
			round()
		}
		w.Zero(testing.AllocsPerRun(100, round), "callback, zero-copy receive, free")
		w.Positive(seen)
	})
}
