package offload_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// shared is v0 with several rings on it.
type shared struct {
	*cable
	mirror   *host.Host
	exchange *offload.Exchange
	fill     int
	sets     []*ring.Set
}

func newShared(t testing.TB, queues int) *shared { return newSharedOn(t, newCable(t, queues)) }

func newSharedOn(t testing.TB, c *cable) *shared {
	s := &shared{cable: c}
	var err error
	s.mirror, err = host.Open(host.Config{})
	require.NoError(t, err)
	s.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: s.mirror, Open: nic.XDP(xdp.Config{Retry: letGo})})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.exchange.Close())
		require.NoError(t, s.mirror.Close())
	})
	return s
}

// letGo is how long a busy machine's kernel may take to let go of a queue whose socket was closed.
const letGo = 3 * time.Second

// wrap makes another exchange in the place of the first, whose devices f sees.
func (s *shared) wrap(f func(nic.Device) nic.Device) {
	open := nic.XDP(xdp.Config{Retry: letGo})
	var err error
	s.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: s.mirror,
		Open: func(name string, p nic.Patience) (nic.Device, error) {
			d, err := open(name, p)
			if err != nil {
				return nil, err
			}
			return f(d), nil
		}})
	require.NoError(s.t, err)
}

// join configures a set on the exchange. Queues nil: all that are free.
func (s *shared) join(sc *ring.SetConfig, queues []int) {
	sc.Kind, sc.OneRing = "offload", offload.OneRing
	sc.Driver = offload.New(offload.Config{Exchange: s.exchange, Fragment: true,
		Interfaces: []nic.Interface{{Name: "v0", Queues: queues, Fill: s.fill, Checksum: udp.AcceptPartial}}})
}

// set makes a set with a ring, which ends with the test.
func (s *shared) set(queues []int) (*ring.Set, *ring.Ring) {
	set, r, err := s.trySet(queues)
	require.NoError(s.t, err)
	s.sets = append(s.sets, set)
	s.t.Cleanup(func() { require.NoError(s.t, set.Close()) })
	return set, r
}

func (s *shared) trySet(queues []int) (*ring.Set, *ring.Ring, error) {
	sc := ring.SetConfig{Transport: kernel.New(), Pool: newPool(s.t, buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192})}
	s.join(&sc, queues)
	set, err := ring.NewSet(sc)
	require.NoError(s.t, err)
	r, err := set.NewRing()
	return set, r, err
}

// on runs f on a goroutine of its own in the cable's namespace, whose thread ends with it.
func (s *shared) on(wg *sync.WaitGroup, f func()) {
	wg.Add(1)
	go func() {
		defer wg.Done()
		runtime.LockOSThread()
		if err := s.Enter(); err != nil {
			s.t.Errorf("setns: %v", err)
			return
		}
		f()
	}()
}

// polled polls a ring by a goroutine of its own and closes its set at the end. What it receives is counted and released.
type polled struct {
	set  *ring.Set
	ring *ring.Ring
	got  atomic.Int64
	os   atomic.Int64
	stop atomic.Bool
	wg   sync.WaitGroup
}

func (s *shared) polled(set *ring.Set, r *ring.Ring) *polled {
	p := &polled{set: set, ring: r}
	s.on(&p.wg, func() {
		dst := make([]ring.Completion, 64)
		for !p.stop.Load() {
			n, err := r.Poll(dst)
			if err != nil {
				s.t.Errorf("the other ring: %v", err)
				return
			}
			for i := range dst[:n] {
				if c := &dst[i]; c.Events.Has(ring.EventPacket) {
					p.got.Add(1)
					if c.ViaKernel {
						p.os.Add(1)
					}
					if err := c.Packet.Release(); err != nil {
						s.t.Errorf("the other ring: release: %v", err)
					}
				}
			}
			if n == 0 {
				if err := r.Wait(20 * time.Millisecond); err != nil {
					s.t.Errorf("the other ring: wait: %v", err)
				}
			}
		}
		if err := set.Close(); err != nil {
			s.t.Errorf("the other ring: close: %v", err)
		}
	})
	s.t.Cleanup(p.end)
	return p
}

// end stops the goroutine; its set is closed then.
func (p *polled) end() {
	p.stop.Store(true)
	p.ring.Wake()
	p.wg.Wait()
}

// do runs f on the ring's goroutine.
func (p *polled) do(t testing.TB, f func()) {
	done := make(chan struct{})
	require.NoError(t, p.ring.Post(func() { f(); close(done) }))
	<-done
}

// The contract on ring B, while half of the queues are ring A's and the allocation logic asks for what cannot be steered: a ring for each
// socket. The peers' kernel spreads their frames over all the queues that it has receivers for.
func TestContractOverSharedQueues(t *testing.T) {
	opened, used := false, map[string]bool{}
	note := func(list []ring.Counter) {
		for _, c := range list {
			if c.Value > 0 && strings.HasPrefix(c.Name, "v0/") && strings.HasSuffix(c.Name, ".rx_frames") {
				used[strings.TrimSuffix(c.Name, ".rx_frames")] = true
			}
		}
	}
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: contractCaps, Overshoot: overshoot,
		// Half the buffers of a pool lie ready for the queue that nothing comes on.
		Datagrams: true, Stamp: ring.StampPoll, Sleeps: wakeUps, Burst: 4,
		Open: func(t *testing.T, pool *buffers.DriverPool, sc *ring.SetConfig) ringtest.Peers {
			s := newShared(t, 4)
			opened = true
			set, r, err := s.trySet([]int{0, 2})
			require.NoError(t, err)
			p := s.polled(set, r)
			t.Cleanup(func() {
				p.do(t, func() {
					list := r.Stats().Driver
					if note(list); t.Failed() {
						t.Log("ring A:", list)
					}
				})
			})
			s.fill = max(pool.ReceiveShare(buffers.Small)*5/16, 2) // 160 of 512: the suite leaves 150 unread; with one, each pause loses a frame
			s.join(sc, []int{1, 3})
			sc.Logic = ring.PerSocket
			made := sc.Driver
			sc.Driver = func(c ring.DriverConfig) (ring.Driver, error) {
				d, err := made(c)
				t.Cleanup(func() {
					list := d.(ring.CounterSource).Counters(nil)
					if note(list); t.Failed() {
						t.Log("ring B:", list)
					}
				})
				return d, err
			}
			return s
		}})
	if !opened {
		testnet.Missing(t, "namespaces", "no case could make its network")
	}
	// A veth takes frames of a sender's queue 0 and 1 on queue 0, of 2 on 1, of 3 on 2.
	require.Len(t, used, 3, "queues that frames came in on: %v", used)
}

// A ring allocation logic that cannot be steered falls back to one ring, and says so, on each of two rings that share four queues; what senders
// on all queues send arrives.
func TestLogicThatCannotBeSteered(t *testing.T) {
	s := newShared(t, 4)
	var rings []*ring.Ring
	var sockets []*ring.Socket
	for i, queues := range [][]int{{0, 1}, {2, 3}} {
		sc := ring.SetConfig{Transport: kernel.New(), Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192}),
			Logic: ring.PerSocket}
		s.join(&sc, queues)
		set, err := ring.NewSet(sc)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, set.Close()) })
		var own []*ring.Socket
		for j := range 4 {
			u := s.open(set, fmt.Sprintf("10.0.0.1:%d", 7000+10*i+j))
			require.Equal(t, "bypass", u.Path().Tier)
			require.Contains(t, u.Path().Explain(), "ring.no_steering")
			own = append(own, u)
		}
		require.Len(t, set.Rings(), 1)
		require.Same(t, own[0].Ring(), own[3].Ring())
		rings, sockets = append(rings, own[0].Ring()), append(sockets, own...)
	}
	got, dst := map[*ring.Socket]int{}, make([]ring.Completion, 64)
	poll := func() (total int) {
		for _, r := range rings {
			n, err := r.Poll(dst)
			require.NoError(t, err)
			for i := range dst[:n] {
				require.False(t, dst[i].ViaKernel)
				got[dst[i].Socket]++
				require.NoError(t, dst[i].Packet.Release())
			}
		}
		for _, n := range got {
			total += n
		}
		return total
	}
	poll()
	const senders, each = 8, 10
	for _, u := range sockets {
		for range senders {
			p := s.Dial(u.LocalAddr())
			for j := range each {
				require.NoError(t, sys.PinThread(j%runtime.NumCPU()))
				_, err := p.Write([]byte("x"))
				require.NoError(t, err)
			}
			require.NoError(t, p.Close())
			poll()
		}
	}
	for end := time.Now().Add(patience); poll() < senders*each*len(sockets); {
		require.True(t, time.Now().Before(end), "%v", got)
	}
	for _, u := range sockets {
		require.Equal(t, senders*each, got[u])
	}
}

// Lose takes the interface down, Restore brings it back with what it had: the peers of the suite's case of lost paths.
func (s *shared) Lose() {
	l, err := netlink.LinkByName("v0")
	require.NoError(s.t, err)
	require.NoError(s.t, netlink.LinkSetDown(l))
}

// Restore brings the interface back.
func (s *shared) Restore() {
	l, err := netlink.LinkByName("v0")
	require.NoError(s.t, err)
	require.NoError(s.t, netlink.LinkSetUp(l))
}

// The contract on a ring without a queue of its own.
func TestContractWithoutQueue(t *testing.T) {
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: contractCaps, Overshoot: overshoot,
		Datagrams: true, Stamp: ring.StampPoll, Burst: 8, Sleeps: wakeUps,
		Open: func(t *testing.T, pool *buffers.DriverPool, sc *ring.SetConfig) ringtest.Peers {
			s := newShared(t, 1)
			set, r, err := s.trySet(nil)
			require.NoError(t, err)
			s.polled(set, r)
			s.join(sc, nil)
			return s
		}})
}

// open makes a socket bound to the address.
func (s *shared) open(set *ring.Set, local string) *ring.Socket {
	u, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	require.NoError(s.t, err)
	require.NoError(s.t, u.Bind(netip.MustParseAddrPort(local)))
	return u
}

// Senders on every processor, two rings with half of the queues each, a socket on each: all arrives, and the books of both pools balance.
func TestAnyQueueAnyRing(t *testing.T) {
	s := newShared(t, 4)
	setA, a := s.set([]int{0, 1})
	setB, b, err := s.trySet([]int{2, 3})
	require.NoError(t, err)
	ua, ub := s.open(setA, "10.0.0.1:7000"), s.open(setB, "10.0.0.1:7001")
	other := s.polled(setB, b)
	const senders, each = 16, 300
	var peers []ringtest.Peer
	for i := range senders {
		to := ua.LocalAddr()
		if i%2 == 1 {
			to = ub.LocalAddr()
		}
		p := s.Dial(to)
		defer p.Close()
		peers = append(peers, p)
	}
	got, os, dst := 0, 0, make([]ring.Completion, 64)
	poll := func() {
		n, err := a.Poll(dst)
		require.NoError(t, err)
		for i := range dst[:n] {
			require.Same(t, ua, dst[i].Socket)
			if dst[i].ViaKernel {
				os++
			}
			require.NoError(t, dst[i].Packet.Release())
		}
		got += n
	}
	for i := range each {
		for j, p := range peers {
			require.NoError(t, sys.PinThread((i+j)%runtime.NumCPU()))
			_, err := p.Write(fmt.Append(nil, i))
			require.NoError(t, err)
			if j%4 == 0 {
				poll()
			}
		}
	}
	const want = senders / 2 * each
	for end := time.Now().Add(patience); got < want || other.got.Load() < want; poll() {
		require.True(t, time.Now().Before(end), "%d and %d of %d:\n%v", got, other.got.Load(), want, a.Stats().Driver)
	}
	require.Zero(t, os+int(other.os.Load()), "by the kernel")
	var given, taken uint64
	other.do(t, func() { given, taken = counter(b, "handover.given"), counter(b, "handover.taken") })
	require.Equal(t, counter(a, "handover.given"), taken)
	require.Equal(t, given, counter(a, "handover.taken"))
	require.Equal(t, taken, uint64(counterOf(t, other, "handover.copied")))
	if runtime.NumCPU() > 1 {
		require.NotZero(t, given+taken, "the senders used the queues of one ring only")
	}
}

func counterOf(t testing.TB, p *polled, name string) (n uint64) {
	p.do(t, func() { n = counter(p.ring, name) })
	return n
}

// Both rings have members of one group, and both receive, whichever queue the frames come in on; one that leaves receives no more.
func TestGroupOnTwoRings(t *testing.T) {
	s := newShared(t, 1)
	setA, a := s.set(nil)
	setB, b := s.set(nil)
	group := netip.MustParseAddr("239.1.2.3")
	var members []*ring.Socket
	for _, set := range []*ring.Set{setA, setB, setB} {
		u, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
		require.NoError(t, err)
		require.NoError(t, u.SetReuseAddr(true))
		require.NoError(t, u.SetMulticastAll(false))
		require.NoError(t, u.Bind(netip.AddrPortFrom(group, 7000)))
		require.NoError(t, u.JoinGroup(group, "v0", netip.Addr{}))
		members = append(members, u)
	}
	require.Contains(t, members[1].Path().Explain(), "ring.no_queue")
	require.NotContains(t, members[0].Path().Explain(), "ring.no_queue")
	require.Equal(t, "bypass", members[1].Path().Tier)
	peer := s.Dial(netip.AddrPortFrom(group, 7000))
	defer peer.Close()
	dst := make([]ring.Completion, 64)
	send := func(n int, want ...int) {
		got := map[*ring.Socket]int{}
		total := 0
		for i := range n {
			_, err := peer.Write(fmt.Append(nil, i))
			require.NoError(t, err)
		}
		for _, w := range want {
			total += w
		}
		for end := time.Now().Add(patience); total > 0; {
			require.True(t, time.Now().Before(end), "%v", got)
			for _, r := range []*ring.Ring{a, b} {
				k, err := r.Poll(dst)
				require.NoError(t, err)
				for i := range dst[:k] {
					c := &dst[i]
					require.Equal(t, fmt.Sprint(got[c.Socket]), string(c.Packet.Bytes()))
					require.False(t, c.ViaKernel)
					require.Equal(t, netip.AddrPortFrom(group, 7000), c.Destination)
					got[c.Socket]++
					total--
					require.NoError(t, c.Packet.Release())
				}
			}
		}
		for i, u := range members {
			require.Equal(t, want[i], got[u], "member %d", i)
		}
	}
	send(20, 20, 20, 20)
	require.Equal(t, uint64(20), counter(b, "handover.copied"), "one copy for both members")
	require.NoError(t, members[0].LeaveGroup(group, "v0", netip.Addr{}))
	send(20, 0, 20, 20)
	require.NoError(t, members[2].LeaveGroup(group, "v0", netip.Addr{}))
	send(20, 0, 20, 0)
}

// What is under way to a socket that is closed is counted, and so is what a ring that is never polled does not take.
func TestHandoverIsBounded(t *testing.T) {
	s := newShared(t, 1)
	_, a := s.set(nil)
	setB, b := s.set(nil)
	u := s.open(setB, "10.0.0.1:7000")
	dst := make([]ring.Completion, 64)
	_, err := b.Poll(dst) // what the kernel had of the flow is looked at
	require.NoError(t, err)
	peer := s.Dial(u.LocalAddr())
	defer peer.Close()
	const n = 1000
	for range n {
		_, err := peer.Write([]byte("x"))
		require.NoError(t, err)
		_, err = a.Poll(dst)
		require.NoError(t, err)
	}
	for end := time.Now().Add(patience); counter(a, "v0.rx_frames") < n; {
		require.True(t, time.Now().Before(end), "%v", a.Stats().Driver)
		_, err = a.Poll(dst)
		require.NoError(t, err)
	}
	given, full := counter(a, "handover.given"), counter(a, "handover.full")
	require.Equal(t, uint64(n), given+full)
	require.LessOrEqual(t, given, uint64(2056/4), "a quarter of the pool")
	require.NotZero(t, full)
	require.Equal(t, int(given), a.Ledger().Received, "lent, and nobody's yet")
	require.NoError(t, u.Close())
	for end := time.Now().Add(patience); counter(b, "handover.taken") < given; {
		require.True(t, time.Now().Before(end))
		k, err := b.Poll(dst)
		require.NoError(t, err)
		for i := range dst[:k] {
			require.Equal(t, ring.EventClosed, dst[i].Events)
		}
	}
	require.Equal(t, given, counter(b, "handover.no_socket"))
	_, err = a.Poll(dst)
	require.NoError(t, err)
	require.Zero(t, a.Ledger().Received)
}

// A ring is closed while the other runs: as the one that reads, and as the one whose buffers are read.
func TestOneRingCloses(t *testing.T) {
	for _, first := range []string{"reader", "writer"} {
		t.Run(first, func(t *testing.T) {
			s := newShared(t, 1)
			setA, a, err := s.trySet(nil)
			require.NoError(t, err)
			setB, b, err := s.trySet(nil)
			require.NoError(t, err)
			u := s.open(setB, "10.0.0.1:7000")
			writer, reader := s.polled(setA, a), s.polled(setB, b)
			var sending sync.WaitGroup
			var stop atomic.Bool
			peer := s.Dial(u.LocalAddr())
			defer peer.Close()
			sending.Go(func() {
				for !stop.Load() {
					_, _ = peer.Write([]byte("x")) // refused once the reader is gone
				}
			})
			wait := func(what string, done func() bool) {
				for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
					require.True(t, time.Now().Before(end), what)
				}
			}
			wait("handed over", func() bool { return reader.got.Load() > 1000 })
			if first == "writer" {
				writer.end() // the reader takes its queue: what came meanwhile is at the shadow
				byLink := reader.got.Load() - reader.os.Load()
				wait("by the link", func() bool { return reader.got.Load()-reader.os.Load() > byLink+2000 })
				reader.end()
			} else {
				reader.end()
				wait("the claim is gone", func() bool {
					n := int64(0)
					writer.do(t, func() { n = int64(a.Ledger().Received) })
					return n == 0
				})
				writer.end()
			}
			stop.Store(true)
			sending.Wait()
		})
	}
}

// Two sockets that share a port by SO_REUSEPORT, one on each ring: a flow stays with one of them, whichever queue it comes in on.
func TestPortSharedByRings(t *testing.T) {
	s := newShared(t, 2)
	setA, a := s.set([]int{0})
	setB, b := s.set([]int{1})
	for _, set := range []*ring.Set{setA, setB} {
		u, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
		require.NoError(t, err)
		require.NoError(t, u.SetReusePort(true))
		require.NoError(t, u.Bind(netip.MustParseAddrPort("10.0.0.1:7000")))
	}
	dst := make([]ring.Completion, 64)
	where := map[netip.AddrPort]int{}
	got, per := 0, [2]int{}
	poll := func() {
		for i, r := range []*ring.Ring{a, b} {
			n, err := r.Poll(dst)
			require.NoError(t, err)
			for j := range dst[:n] {
				c := &dst[j]
				was, known := where[c.Source]
				require.True(t, !known || was == i, "%v came to both", c.Source)
				where[c.Source] = i
				per[i]++
				got++
				require.NoError(t, c.Packet.Release())
			}
		}
	}
	poll()
	const flows, each = 64, 10
	for range flows {
		p := s.Dial(netip.MustParseAddrPort("10.0.0.1:7000"))
		for j := range each {
			require.NoError(t, sys.PinThread(j%runtime.NumCPU()))
			_, err := p.Write([]byte("x"))
			require.NoError(t, err)
		}
		poll()
		require.NoError(t, p.Close())
	}
	for end := time.Now().Add(patience); got < flows*each; poll() {
		require.True(t, time.Now().Before(end), "%d: %v", got, a.Stats().Driver)
	}
	require.Greater(t, per[0], flows*each/8)
	require.Greater(t, per[1], flows*each/8)
}

// A datagram wakes a ring that sleeps, though it came in on another's queue.
func TestHandoverWakes(t *testing.T) {
	s := newShared(t, 1)
	setA, a, err := s.trySet(nil)
	require.NoError(t, err)
	setB, b := s.set(nil)
	u := s.open(setB, "10.0.0.1:7000")
	s.polled(setA, a)
	peer := s.Dial(u.LocalAddr())
	defer peer.Close()
	dst := make([]ring.Completion, 64)
	for range 3 {
		_, err := b.Poll(dst)
		require.NoError(t, err)
	}
	for i := range 50 {
		_, err := peer.Write(fmt.Append(nil, i))
		require.NoError(t, err)
		for n, end := 0, time.Now().Add(patience); n == 0; {
			require.True(t, time.Now().Before(end), "datagram %d: %v", i, b.Stats().Driver)
			if i%2 == 0 {
				require.NoError(t, b.Wait(patience))
			} else if pending, err := b.Arm(); !pending {
				require.NoError(t, err)
				_, err = unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, 10000)
				if err != unix.EINTR {
					require.NoError(t, err)
				}
			}
			n, err = b.Poll(dst)
			require.NoError(t, err)
			for j := range dst[:n] {
				require.Equal(t, fmt.Sprint(i), string(dst[j].Packet.Bytes()))
				require.NoError(t, dst[j].Packet.Release())
			}
		}
	}
}

func TestExchangeRefuses(t *testing.T) {
	_, err := offload.NewExchange(offload.ExchangeConfig{})
	require.ErrorContains(t, err, "Host")
	s := newShared(t, 2)
	_, err = offload.NewExchange(offload.ExchangeConfig{Host: s.mirror})
	require.ErrorContains(t, err, "Open")
	set, _ := s.set([]int{0})
	refused := func(want string, queues []int) {
		set, _, err := s.trySet(queues)
		require.ErrorContains(t, err, want)
		require.NoError(t, set.Close())
	}
	refused("queue 0 is another ring's", []int{1, 0})
	refused("Queues has 7", []int{7})
	require.ErrorIs(t, s.exchange.Close(), unix.EBUSY)
	second, r := s.set(nil) // the refused ones left nothing behind: queue 1 is free
	u := s.open(second, "10.0.0.1:7001")
	require.NotContains(t, u.Path().Explain(), "ring.no_queue")
	require.Contains(t, u.Path().Explain(), "xdp v0/1 ")
	require.Equal(t, 1, len(second.Rings()))
	_, err = r.Poll(make([]ring.Completion, 1))
	require.NoError(t, err)
	sc := ring.SetConfig{Transport: kernel.New(), Pool: set.Pool(), Driver: offload.New(offload.Config{Exchange: s.exchange})}
	third, err := ring.NewSet(sc)
	require.NoError(t, err)
	_, err = third.NewRing()
	require.ErrorContains(t, err, "Interfaces")
}
