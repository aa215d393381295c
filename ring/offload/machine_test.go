package offload_test

import (
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

var (
	macs    = [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}
	subnets = [2][]netip.Prefix{
		{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("10.9.0.77/24")},
		{netip.MustParsePrefix("10.9.0.2/24")},
	}
)

const linkIndex = 7

// facts are those of a host; the neighbour is known, because a peer of the suite's may send hundreds of datagrams before our end is
// polled and could answer a question.
func facts(end, mtu int) host.Facts {
	f := offload.Facts(host.Link{Index: linkIndex, Name: "mem0", Type: unix.ARPHRD_ETHER, MAC: macs[end], MTU: mtu,
		Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST}, subnets[end]...)
	for _, p := range subnets[1-end] {
		f.Neighbours = append(f.Neighbours, host.Neighbour{Target: host.Target{Interface: linkIndex, Addr: p.Addr()},
			MAC: wire.MAC(macs[1-end]), State: unix.NUD_PERMANENT})
	}
	return f
}

// newPool makes a pool that is checked at the end of the test.
func newPool(t testing.TB, l buffers.Layout) *buffers.DriverPool {
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(region.Bytes(), l)
	require.NoError(t, err)
	t.Cleanup(func() {
		pool.Reclaim()
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, "ledger at the other end: %v", ledger)
		require.NoError(t, pool.Verify())
		require.NoError(t, region.Close())
	})
	return pool
}

// overLinks configures a driver on a memory host whose interfaces are links. Its exchange ends with the test.
func overLinks(t testing.TB, h *offload.MemoryHost, links map[string]link.Staged) (c offload.Config) {
	var err error
	c.Exchange, err = offload.NewExchange(offload.ExchangeConfig{MemoryHost: h, Open: nic.OpenLinks(h, links)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Exchange.Close()) })
	for _, name := range slices.Sorted(maps.Keys(links)) {
		c.Interfaces = append(c.Interfaces, nic.Interface{Name: name})
	}
	return c
}

// overLink is overLinks of one link, which is the interface that facts has.
func overLink(t testing.TB, h *offload.MemoryHost, l link.Staged) offload.Config {
	return overLinks(t, h, map[string]link.Staged{"mem0": l})
}

// side configures a set on one end of a memory link.
func side(t testing.TB, end int, l link.Staged, mtu int, c *ring.SetConfig) *offload.MemoryHost {
	ns, err := offload.NewMemoryHost(facts(end, mtu), rand.Uint64)
	require.NoError(t, err)
	c.Kind, c.Transport, c.OneRing = "offload", ns, offload.OneRing
	c.Driver = offload.New(overLink(t, ns, l))
	return ns
}

// machine is the other end: a ring of its own, polled by a goroutine of its own, as a host is.
type machine struct {
	t       *testing.T
	set     *ring.Set
	ring    *ring.Ring
	sockets map[*ring.Socket]*peer // its goroutine's
	stop    chan struct{}
	ended   sync.WaitGroup
}

func newMachine(t *testing.T, l link.Staged, pool *buffers.DriverPool, mtu int) *machine {
	m := &machine{t: t, sockets: map[*ring.Socket]*peer{}, stop: make(chan struct{})}
	c := ring.SetConfig{Transport: kernel.New(), Pool: pool}
	side(t, 1, l, mtu, &c)
	var err error
	m.set, err = ring.NewSet(c)
	require.NoError(t, err)
	m.ring, err = m.set.NewRing()
	require.NoError(t, err)
	m.ended.Add(1)
	go m.run()
	t.Cleanup(func() {
		close(m.stop)
		m.ring.Wake()
		m.ended.Wait()
	})
	return m
}

func (m *machine) run() {
	defer m.ended.Done()
	dst := make([]ring.Completion, 64)
	for {
		select {
		case <-m.stop:
			if err := m.set.Close(); err != nil {
				m.t.Errorf("the other end: %v", err)
			}
			return
		default:
		}
		n, err := m.ring.Poll(dst)
		if err != nil {
			m.t.Errorf("the other end: %v", err)
		}
		for i := range dst[:n] {
			c := &dst[i]
			if c.Events.Has(ring.EventPacket) {
				b := make([]byte, c.Packet.Len())
				c.Packet.CopyTo(b)
				if p := m.sockets[c.Socket]; p != nil {
					select {
					case p.queue <- b:
					default:
					}
				}
				_ = c.Packet.Release()
			}
		}
		if n == 0 {
			if err := m.ring.Wait(20 * time.Millisecond); err != nil {
				m.t.Errorf("the other end: %v", err)
			}
		}
	}
}

// do runs f on the machine.
func (m *machine) do(f func()) {
	done := make(chan struct{})
	if m.ring.Post(func() { f(); close(done) }) == nil {
		<-done
	}
}

func (m *machine) Local() netip.Addr      { return subnets[0][0].Addr() }
func (m *machine) Other() netip.Addr      { return subnets[0][1].Addr() }
func (m *machine) Device() string         { return "mem0" }
func (m *machine) Nobody() netip.AddrPort { return netip.AddrPortFrom(subnets[1][0].Addr(), 9) }
func (m *machine) Dial(to netip.AddrPort) ringtest.Peer {
	p := &peer{m: m, queue: make(chan []byte, 1024)}
	m.do(func() {
		var err error
		if p.s, err = m.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{}); err == nil {
			err = p.s.Connect(to)
		}
		if err != nil {
			m.t.Errorf("dial %v: %v", to, err)
			return
		}
		m.sockets[p.s] = p
		p.local = p.s.LocalAddr()
	})
	return p
}

// peer is a socket of the machine.
type peer struct {
	m     *machine
	s     *ring.Socket
	local netip.AddrPort
	queue chan []byte
	until time.Time
}

func (p *peer) Write(b []byte) (n int, err error) {
	for end := time.Now().Add(patience); ; {
		p.m.do(func() {
			if n, err = p.s.Send(b); err == nil {
				err = p.m.ring.Flush()
			}
		})
		if err == nil || time.Now().After(end) || !isFull(err) {
			return n, err
		}
		time.Sleep(10 * time.Microsecond)
	}
}

func isFull(err error) bool { return err == ring.ErrWouldBlock }

func (p *peer) Read(b []byte) (int, error) {
	limit := time.NewTimer(time.Until(p.until))
	defer limit.Stop()
	select {
	case d := <-p.queue:
		return copy(b, d), nil
	case <-limit.C:
		return 0, os.ErrDeadlineExceeded
	}
}

func (p *peer) Close() error {
	var err error
	p.m.do(func() {
		if p.s != nil {
			delete(p.m.sockets, p.s)
			err = p.s.Close()
		}
	})
	return err
}

func (p *peer) LocalAddr() net.Addr                { return net.UDPAddrFromAddrPort(p.local) }
func (p *peer) RemoteAddr() net.Addr               { return net.UDPAddrFromAddrPort(p.s.RemoteAddr()) }
func (p *peer) SetDeadline(t time.Time) error      { p.until = t; return nil }
func (p *peer) SetReadDeadline(t time.Time) error  { p.until = t; return nil }
func (p *peer) SetWriteDeadline(t time.Time) error { return nil }
func (p *peer) SetReadBuffer(bytes int) error      { return nil }
