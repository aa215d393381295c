package xtreme_test

import (
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// ringLogics is which of the sockets of TestRingOfEachLogic share a ring: one letter for each socket, the same for the same ring. VMA takes
// every key within one interface.
var ringLogics = []struct {
	logic   ring.Logic
	kernel  string
	why     string     // the reason in the path of offloaded sockets: they are on one ring
	becomes ring.Logic // and the logic of that one
}{
	{ring.PerInterface, "AAABBACC", "ring.all_interfaces", ring.PerInterface},
	{ring.PerIP, "AABCDEFF", "ring.no_steering", ring.PerInterface},
	{ring.PerSocket, "ABCDEFGH", "ring.no_steering", ring.PerInterface},
	{ring.PerUserID, "ABACDAEF", "ring.no_steering", ring.PerInterface},
	{ring.PerThread, "AAABBACC", "ring.all_interfaces", ring.PerThread},
	{ring.PerCore, "AAABBACC", "ring.all_interfaces", ring.PerCore},
	{ring.PerCoreAttach, "AAABBACC", "ring.all_interfaces", ring.PerCoreAttach},
}

// Each ring allocation logic on each kind of ring: unicast sockets and groups of one interface share what VMA has them share, and sockets
// of two interfaces nothing. An offloaded poller has one ring over all, and every path says so.
func TestRingOfEachLogic(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll, conf.RingOffload} {
		for _, c := range ringLogics {
			t.Run(string(kind)+" "+c.logic.String(), func(t *testing.T) {
				if kind != conf.RingOffload {
					needKind(t, kind)
				}
				n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
				core := sys.CPU()
				require.NoError(t, sys.PinThread(core)) // the test's thread, which ends with it
				w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(c.logic)})
				open := func(a netip.AddrPort, id uint64, groups ...xtreme.Group) *xtreme.Socket {
					return w.udp(a, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{UserID: id}, Groups: groups})
				}
				groupAt := func(i byte) netip.AddrPort { return netip.AddrPortFrom(group(i), 7500) }
				list := []*xtreme.Socket{
					open(netip.AddrPortFrom(n.Local(0), 0), 1),
					open(netip.AddrPortFrom(n.Local(0), 0), 2),
					open(groupAt(50), 1, xtreme.Group{Interface: "v0"}),
					open(netip.AddrPortFrom(n.Local(1), 0), 1),
					open(groupAt(51), 2, xtreme.Group{Interface: "v1"}),
					open(groupAt(52), 1), // the routing table says v0
					open(netip.MustParseAddrPort("0.0.0.0:0"), 1),
					open(netip.MustParseAddrPort("0.0.0.0:0"), 3, xtreme.Group{Address: group(50), Interface: "v0"},
						xtreme.Group{Address: group(51), Interface: "v1"}), // on two interfaces: on none
				}
				if kind != conf.RingOffload {
					require.Equal(t, c.kernel, ringsOf(list))
					return
				}
				require.Equal(t, "AAAAAAAA", ringsOf(list))
				for _, s := range list {
					require.Equal(t, "bypass", s.Path().Tier, s.Path())
					require.Contains(t, codes(s.Path()), c.why, s.Path())
				}
				require.Equal(t, c.becomes, list[0].Ring().Key().Logic)
				w.poll()
				if runtime.NumCPU() > 1 && c.logic == ring.PerCoreAttach {
					require.Equal(t, []int{core}, sys.AffinityMask(), "the thread is the core's")
				}
			})
		}
	}
}

// ringsOf is a letter for each socket, the same for sockets of the same ring.
func ringsOf(list []*xtreme.Socket) string {
	var text strings.Builder
	letters := map[*ring.Ring]byte{}
	for _, s := range list {
		if letters[s.Ring()] == 0 {
			letters[s.Ring()] = 'A' + byte(len(letters))
		}
		text.WriteByte(letters[s.Ring()])
	}
	return text.String()
}

// A socket of an offloaded poller that asks for the logic itself.
func TestRingLogicOfOneOffloadedSocket(t *testing.T) {
	w := newCabled(t)
	plain := w.udp(w.at(0))
	require.NotContains(t, plain.Path().Explain(), "ring.no_steering")
	require.NotContains(t, plain.Path().Explain(), "ring.all_interfaces", "there is one")
	for _, l := range []ring.Logic{ring.PerIP, ring.PerSocket, ring.PerUserID, ring.PerCore, ring.PerCoreAttach} {
		s := w.udp(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RingLogic: xtreme.Ptr(ring.Logic(l)), UserID: 7}})
		require.Same(t, plain.Ring(), s.Ring())
		require.Contains(t, codes(s.Path()), "ring.no_steering", "%v: %v", l, s.Path())
		require.Equal(t, ring.PerInterface, s.Ring().Key().Logic, "what the ring is")
	}
}

// A poller of logic 31 binds its thread, however many rings it has, and gives it back as it was.
func TestTheThreadOfLogic31IsGivenBack(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll, conf.RingOffload} {
		t.Run(string(kind), func(t *testing.T) {
			if kind != conf.RingOffload {
				needKind(t, kind)
			}
			n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
			before := sys.AffinityMask()
			if len(before) < 2 {
				testnet.Missing(t, "processors", "two are needed")
			}
			p, err := newEngine(t, kind).NewPoller("attached", xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerCoreAttach)})
			require.NoError(t, err)
			var list []*xtreme.Socket
			for _, a := range []netip.Addr{n.Local(0), n.Local(1), netip.MustParseAddr("127.0.0.1")} {
				s, err := p.OpenUDP(netip.AddrPortFrom(a, 0), xtreme.UDPConfig{})
				require.NoError(t, err)
				list = append(list, s)
			}
			require.Greater(t, len(p.Rings()), 1)
			var done [8]xtreme.Completion
			poll := func() {
				for range 4 {
					_, err := p.Poll(done[:])
					require.NoError(t, err)
				}
			}
			poll()
			require.Len(t, sys.AffinityMask(), 1)
			require.NoError(t, list[0].Ring().Close())
			poll()
			require.Len(t, sys.AffinityMask(), 1, "other rings are for the processor")
			require.NoError(t, p.Close())
			require.Equal(t, before, sys.AffinityMask())
		})
	}
}

// The thread is bound in the first Poll. Sockets that are opened before it, on whatever processors set-up ran, get rings of one of them.
func TestLogic31HasOneProcessor(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll, conf.RingOffload} {
		t.Run(string(kind), func(t *testing.T) {
			if kind != conf.RingOffload {
				needKind(t, kind)
			}
			mine := sys.AffinityMask()
			if len(mine) < 2 {
				testnet.Missing(t, "processors", "two are needed")
			}
			defer func() { require.NoError(t, sys.SetAffinity(mine)) }()
			p, err := newEngine(t, kind).NewPoller("attached", xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerCoreAttach)})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			var list []*xtreme.Socket
			for i := range 4 {
				require.NoError(t, sys.SetAffinity(mine[i%2:][:1]))
				s, err := p.OpenUDP(loopback, xtreme.UDPConfig{})
				require.NoError(t, err)
				list = append(list, s)
			}
			require.NoError(t, sys.SetAffinity(mine))
			_, err = p.Poll(make([]xtreme.Completion, 8))
			require.NoError(t, err)
			require.Equal(t, "AAAA", ringsOf(list))
			require.Equal(t, []int{int(list[0].Ring().Key().Value)}, sys.AffinityMask())
		})
	}
}

// A limit of rings beside few buffers: each of many sockets on the shared rings receives all that it is sent, while as many packets are held as
// there are buffers for.
func TestSharedRingsWithFewBuffers(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for limit, rings := range map[string]int{"1": 1, "3": 3, "0": 40} {
			t.Setenv("VMA_RING_ALLOCATION_LOGIC_RX", "10")
			t.Setenv("VMA_RING_LIMIT_PER_INTERFACE", limit)
			t.Setenv("VMA_RX_BUFS", "64")
			t.Setenv("VMA_TX_BUFS", "100")
			t.Setenv("SX_LARGE_BUFS", "8")
			s := conf.FromEnvironment()
			s.Ring = kind
			e, err := xtreme.New(s)
			require.NoError(t, err)
			w := &world{Assertions: require.New(t), t: t, room: 64, engine: e}
			w.poller, err = e.NewPoller("few", xtreme.PollerConfig{})
			w.NoError(err)
			const sockets, each = 40, 4
			var list []*xtreme.Socket
			var peers []net.Conn
			for range sockets {
				s := w.udp(loopback, xtreme.UDPConfig{LargestDatagram: 1500})
				list, peers = append(list, s), append(peers, w.peer(s.LocalAddr()))
			}
			w.Len(w.poller.Rings(), rings)
			for range 3 {
				for range each {
					for _, p := range peers {
						w.write(p, "x")
					}
				}
				came := map[*xtreme.Socket]int{}
				total, empty := 0, 0
				for end := time.Now().Add(patience); total < sockets*each; {
					w.True(time.Now().Before(end), "%d of %d came", total, sockets*each)
					if w.poll() > 0 {
						empty = 0
						continue
					}
					if empty++; empty < 4 {
						continue
					}
					for _, c := range w.kept {
						came[c.Socket]++
						total++
						w.NoError(c.Packet.Release())
					}
					w.kept = w.kept[:0]
				}
				for _, s := range list {
					w.Equal(each, came[s])
				}
			}
			w.NoError(w.poller.Close())
			w.NoError(e.Close())
		}
	})
}
