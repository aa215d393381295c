package xtreme_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Pollers of one engine: each with its own interface, or both with the same, whose one queue is the first one's.
func TestTwoOffloadingPollers(t *testing.T) {
	w := newCabled(t, testnet.Pair{}, testnet.Pair{})
	first := w.udp(w.at(0))
	p := w.newPoller("second")
	x := w.other(p)
	second := x.udp(w.at(1))
	w.NotEqual(first.Ring(), second.Ring())
	answers(w.world, first, w.net.Dial(first.LocalAddr()))
	answers(x, second, w.net.Dial(second.LocalAddr()))

	shared := x.udp(w.at(0))
	w.Equal("bypass", shared.Path().Tier)
	w.Contains(codes(shared.Path()), "ring.no_queue")
	peer := w.net.Dial(shared.LocalAddr())
	w.write(peer, "by hand-over")
	for end := time.Now().Add(patience); len(x.kept) == 0; {
		w.True(time.Now().Before(end), "%v", first.Ring().Stats().Driver)
		w.poll()
		x.poll()
	}
	text, _ := fast(x, shared)
	w.Equal("by hand-over", text)
	w.NotZero(counter(first.Ring(), "handover.given"))
	w.Equal(2, strings.Count(w.log.String(), "\n"), "once for each interface:\n%s", w.log.String())
}

// Interfaces and queues that may be opened are named by setting and by configuration, the checksum policy too.
func TestNamedInterfacesAndPolicies(t *testing.T) {
	w := newCabled(t, testnet.Pair{}, testnet.Pair{Queues: 2})
	o := w.newPoller("named", xtreme.PollerConfig{
		Interfaces: []conf.Interface{{Name: "v1", Queues: []int{0, 1}}}, Checksum: conf.ChecksumStrict})
	x := w.other(o)
	away := x.udp(w.at(0))
	w.Equal("kernel", away.Path().Tier)
	w.Equal("offload.not_named", codes(away.Path())[0])
	everywhere := x.udp(netip.MustParseAddrPort("0.0.0.0:0"))
	w.Equal("bypass", everywhere.Path().Tier)
	w.False(program(t, "v0"))
	w.Contains(everywhere.Path().Explain(), "xdp v1/1")
	w.NotContains(codes(everywhere.Path()), "checksum.accept_partial")
	w.Contains(w.log.String(), `interface=v1 mode=generic checksums=strict because="it was asked for"`)
	peer := w.net.Dial(netip.AddrPortFrom(w.net.Local(1), everywhere.LocalAddr().Port()))
	w.write(peer, "its sum is unfinished")
	x.until("it is dropped", func() bool { return counter(everywhere.Ring(), "udp.partial_sum") > 0 })
	w.Empty(x.kept)

	e := w.newEngine(func(s *conf.Settings) {
		s.Offload = conf.Offload{Interfaces: []conf.Interface{{Name: "v0"}}, Checksum: conf.ChecksumOff}
	})
	p, err := e.NewPoller("by settings", xtreme.PollerConfig{})
	w.NoError(err)
	defer func() { w.NoError(p.Close()) }()
	s, err := p.OpenUDP(w.at(1), xtreme.UDPConfig{})
	w.NoError(err)
	w.Equal("offload.not_named", codes(s.Path())[0])
	s, err = p.OpenUDP(w.at(0), xtreme.UDPConfig{})
	w.NoError(err)
	w.Equal("bypass", s.Path().Tier)
	w.Contains(codes(s.Path()), "checksum.off")
}

// The queues of all interfaces together keep at most three quarters of the pool ready for their cards, and an interface that comes later
// finds some.
func TestFillIsDividedAmongQueues(t *testing.T) {
	w := newCabled(t, testnet.Pair{Queues: 4}, testnet.Pair{Queues: 2})
	small := w.poller.Pool().Layout().SmallCount
	s := w.udp(w.at(0))
	w.Equal(4, strings.Count(s.Path().Explain(), "xdp v0/"))
	kernel := w.newPoller("without cards").Ledger().Filling // what io_uring has of a pool
	first := w.poller.Ledger().Filling
	w.Greater(first, kernel)
	w.udp(w.at(1))
	w.Greater(w.poller.Ledger().Filling, first, "the second has some too")
	w.LessOrEqual(w.poller.Ledger().Filling-kernel, small*3/4)
}

// VMA_RX_WRE is the most that each queue keeps ready; never more than its part.
func TestFillBySetting(t *testing.T) {
	w := newCabled(t, testnet.Pair{Queues: 2})
	filling := func(fill int) int {
		w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Fill = fill })
		p := w.newPoller(fmt.Sprint(fill))
		kernel := p.Ledger().Filling
		s, err := p.OpenUDP(w.at(0), xtreme.UDPConfig{})
		w.NoError(err)
		w.Equal("bypass", s.Path().Tier, s.Path())
		n := p.Ledger().Filling - kernel
		w.NoError(p.Close())
		return n
	}
	all := filling(0)
	w.Greater(all, 2*64)
	w.Equal(2*64, filling(64))
	w.Equal(2*8, filling(8))
	w.Equal(all, filling(1<<20))
}

// VMA_UDP_3T_RULES says whether the datagrams of strangers to a connected socket's address come to our own stack too, which drops and
// counts them, or stay the kernel's. Its peer's come in both cases.
func TestClaimsOfConnectedSockets(t *testing.T) {
	for _, three := range []bool{false, true} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.ThreeTuple = three })
		x := w.other(w.newPoller("claims"))
		peer := w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0))
		to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
		s, err := x.poller.OpenUDP(w.at(0), xtreme.UDPConfig{Remote: to})
		w.NoError(err)
		w.Equal("bypass", s.Path().Tier, s.Path())
		_, err = peer.WriteToUDPAddrPort([]byte("of the peer"), s.LocalAddr())
		w.NoError(err)
		got, from := fast(x, s)
		w.Equal("of the peer", got)
		w.Equal(to, from)

		stranger := w.net.Dial(s.LocalAddr())
		w.write(stranger, "of a stranger")
		if three {
			x.until("the stranger's datagram", func() bool { return counter(s.Ring(), "udp.foreign_peer") == 1 })
			continue
		}
		_, err = stranger.Read(make([]byte, 8))
		w.ErrorIs(err, unix.ECONNREFUSED, "the kernel answers")
		_, err = peer.WriteToUDPAddrPort([]byte("again"), s.LocalAddr())
		w.NoError(err)
		got, _ = fast(x, s)
		w.Equal("again", got)
		w.Zero(counter(s.Ring(), "udp.foreign_peer"))
	}
}

// No datagram comes from a group: a socket that is connected to one, as senders of multicast are, has nothing to claim and is offloaded.
func TestConnectedToAGroup(t *testing.T) {
	for _, three := range []bool{false, true} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.ThreeTuple = three })
		x := w.other(w.newPoller("sender"))
		group := netip.AddrPortFrom(group(71), 9300)
		s, err := x.poller.OpenUDP(w.at(0), xtreme.UDPConfig{Remote: group, MulticastInterface: "v0", MulticastLoop: xtreme.Off,
			SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		w.NoError(err)
		w.Equal("bypass", s.Path().Tier, s.Path())
		w.NotContains(codes(s.Path()), "xdp.not_claimed")
		sent := counter(s.Ring(), "v0.tx_frames")
		_, err = s.Send([]byte("x"))
		w.NoError(err)
		w.NoError(x.poller.Flush())
		x.until("the frame", func() bool { return counter(s.Ring(), "v0.tx_frames") == sent+1 })
	}
}

// Two pollers divide the queues of one interface; what comes in on the other's queue is handed over.
func TestPollersDivideTheQueues(t *testing.T) {
	w := newCabled(t, testnet.Pair{Queues: 2})
	queue := func(n int) xtreme.PollerConfig {
		return xtreme.PollerConfig{Interfaces: []conf.Interface{{Name: "v0", Queues: []int{n}}}}
	}
	a := w.other(w.newPoller("a", queue(0)))
	b := w.other(w.newPoller("b", queue(1)))
	for _, x := range []*world{a, b} {
		s := x.udp(w.at(0))
		w.Equal("bypass", s.Path().Tier)
		w.NotContains(codes(s.Path()), "ring.no_queue")
		peer := w.net.Dial(s.LocalAddr())
		for range 20 {
			w.write(peer, "x")
			for end := time.Now().Add(patience); len(x.kept) == 0; {
				w.True(time.Now().Before(end), "%v", s.Ring().Stats().Driver)
				a.poll()
				b.poll()
			}
			fast(x, s)
		}
	}
	third := w.other(w.newPoller("third", queue(1)))
	s := third.udp(w.at(0))
	w.Equal("kernel", s.Path().Tier)
	w.Equal("xdp.busy", codes(s.Path())[0])
	w.Contains(s.Path().Explain(), "queue 1 is another ring's")
}

// Of pollers that share an interface the ring that takes a frame checks its sum, by its own poller's policy, also for a socket of another one.
func TestChecksumPolicyOfTheRingThatTakesTheFrame(t *testing.T) {
	for _, c := range []struct {
		first, second conf.Checksum
		passes        bool
	}{{conf.ChecksumAcceptPartial, conf.ChecksumOff, false}, {conf.ChecksumOff, conf.ChecksumAcceptPartial, true}} {
		w := newCabled(t)
		first := w.other(w.newPoller("first", xtreme.PollerConfig{Checksum: c.first}))
		second := w.other(w.newPoller("second", xtreme.PollerConfig{Checksum: c.second}))
		serves, other := first.udp(w.at(0)), second.udp(w.at(0))
		w.Contains(codes(other.Path()), "ring.no_queue")
		w.net.InPeer(func() { w.sendWrongSum(other.LocalAddr()) })
		good := w.net.Dial(other.LocalAddr())
		first.write(good, "right")
		var got []string
		for end := time.Now().Add(patience); !slices.Contains(got, "right"); {
			w.True(time.Now().Before(end), "%v", got)
			first.poll()
			second.poll()
			for _, k := range second.kept {
				got = append(got, string(k.Packet.Bytes()))
				w.NoError(k.Packet.Release())
			}
			second.kept = nil
		}
		w.Equal(c.passes, slices.Contains(got, "wrong"), "%v: %v", c, got)
		first.close(serves)
		second.close(other)
	}
}

// sendWrongSum sends a datagram "wrong" whose UDP checksum is, in the namespace of the calling thread.
func (w *cabled) sendWrongSum(to netip.AddrPort) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	w.NoError(err)
	defer func() { w.NoError(unix.Close(fd)) }()
	source, target := w.net.Peer(0).As4(), to.Addr().As4()
	p := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	p = append(append(p, source[:]...), target[:]...)
	p = binary.BigEndian.AppendUint16(p, 7777)
	p = binary.BigEndian.AppendUint16(p, to.Port())
	p = binary.BigEndian.AppendUint16(p, 8+5)
	p = binary.BigEndian.AppendUint16(p, 0x1234)
	w.NoError(unix.Sendto(fd, append(p, "wrong"...), 0, &unix.SockaddrInet4{Addr: target}))
}

// Without our own TCP no interface is opened for connections of it.
func TestOpenInterfaceWithoutOwnTCP(t *testing.T) {
	w := newCabled(t)
	err := w.poller.OpenInterface(w.net.Local(0))
	w.ErrorIs(err, xtreme.ErrNotSupported)
	w.ErrorContains(err, "offload.no_tcp")
	w.NotContains(w.log.String(), "offloaded interface")
}
