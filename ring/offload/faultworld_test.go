package offload_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// faulty is a ring on our end of a veth pair, to which things happen.
type faulty struct {
	*require.Assertions
	t    testing.TB
	dev  device
	pool *buffers.DriverPool
	set  *ring.Set
	ring *ring.Ring
	dst  []ring.Completion
	kept []ring.Completion // came while another socket was waited for
	errs []error           // that Poll has told
}

// faultConfig is how a faulty ring is made.
type faultConfig struct {
	device   string
	layout   buffers.Layout
	xdp      xdp.Config
	fragment bool
}

// device is what steers an interface's frames.
type device interface {
	Counters(dst []link.Counter) []link.Counter
	Close() error
}

// patience is how long a test waits for what must happen.
var patience = testnet.Slow(60 * time.Second)

func newFaulty(t testing.TB, c faultConfig) *faulty {
	if c.layout.SmallSize == 0 {
		c.layout = buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192}
	}
	f := &faulty{Assertions: require.New(t), t: t, pool: newPool(t, c.layout), dst: make([]ring.Completion, 64)}
	mirror, err := host.Open(host.Config{})
	f.NoError(err)
	exchange, err := offload.NewExchange(offload.ExchangeConfig{Host: mirror,
		Open: func(name string, p nic.Patience) (nic.Device, error) {
			d, err := nic.XDP(c.xdp)(name, p)
			f.dev = d
			return d, err
		}})
	f.NoError(err)
	oc := offload.Config{Exchange: exchange, Fragment: c.fragment, ShadowEvery: 10,
		Interfaces: []nic.Interface{{Name: c.device, Checksum: udp.AcceptPartial, Fill: c.xdp.Fill}}}
	f.set, err = ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: f.pool, Kind: "offload", OneRing: offload.OneRing, Driver: offload.New(oc)})
	f.NoError(err)
	f.ring, err = f.set.NewRing()
	f.NoError(err)
	t.Cleanup(func() {
		for i := range f.kept {
			if f.kept[i].Packet.Valid() {
				require.NoError(t, f.kept[i].Packet.Release())
			}
		}
		require.NoError(t, f.set.Close())
		if err := f.dev.Close(); err != nil {
			require.ErrorIs(t, err, link.ErrClosed)
		}
		require.NoError(t, exchange.Close())
		require.NoError(t, mirror.Close())
	})
	return f
}

// bind makes a socket.
func (f *faulty) bind(at string, c ring.Config, change ...func(*ring.Socket) error) *ring.Socket {
	f.t.Helper()
	if c.LargestDatagram == 0 {
		c.LargestDatagram = 2048
	}
	s, err := f.set.NewSocket(ring.KindDatagram, ring.IPv4, c)
	f.NoError(err)
	for _, do := range change {
		f.NoError(do(s))
	}
	f.NoError(s.Bind(netip.MustParseAddrPort(at)))
	return s
}

// poll polls once. Errors are kept: an interface that is down says so once.
func (f *faulty) poll() {
	n, err := f.ring.Poll(f.dst)
	if err != nil {
		f.errs = append(f.errs, err)
	}
	f.kept = append(f.kept, f.dst[:n]...)
}

// until polls until something is so.
func (f *faulty) until(what string, so func() bool) {
	f.t.Helper()
	for end := time.Now().Add(patience); !so(); f.poll() {
		f.True(time.Now().Before(end), "%s: never; %v; errors %v", what, f.counts(), f.errs)
	}
}

// counts are the counters that are not zero.
func (f *faulty) counts() []ring.Counter {
	return slices.DeleteFunc(f.ring.Stats().Driver, func(c ring.Counter) bool { return c.Value == 0 })
}

// take is the next datagram of a socket, if it is there.
func (f *faulty) take(s *ring.Socket) (c ring.Completion, ok bool) {
	for i := range f.kept {
		if f.kept[i].Socket == s && f.kept[i].Events.Has(ring.EventPacket) {
			c = f.kept[i]
			f.kept = append(f.kept[:i], f.kept[i+1:]...)
			return c, true
		}
	}
	return c, false
}

// next waits for a datagram and returns its text.
func (f *faulty) next(s *ring.Socket) (text string, os bool) {
	f.t.Helper()
	f.until("a datagram", func() bool {
		c, ok := f.take(s)
		if ok {
			text, os = string(c.Packet.Bytes()), c.ViaKernel
			f.NoError(c.Packet.Release())
		}
		return ok
	})
	return text, os
}

// drop releases what is kept of a socket and reports how much it was.
func (f *faulty) drop(s *ring.Socket) (n int) {
	for {
		c, ok := f.take(s)
		if !ok {
			return n
		}
		f.NoError(c.Packet.Release())
		n++
	}
}

func (f *faulty) counter(name string) uint64 { return counter(f.ring, name) }

// send sends, and polls once so that it leaves.
func (f *faulty) send(s *ring.Socket, to netip.AddrPort, text string) error {
	_, err := s.SendTo([]byte(text), to)
	f.poll()
	return err
}

// addrOf is the address of a kernel's socket.
func addrOf(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// reads reads one datagram of a kernel's socket.
func reads(t testing.TB, c *net.UDPConn) string {
	t.Helper()
	b := make([]byte, 2048)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	n, _, err := c.ReadFromUDPAddrPort(b)
	require.NoError(t, err)
	return string(b[:n])
}

func write(t testing.TB, c *net.UDPConn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
}

func linkOf(t testing.TB, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	return l
}

func neighbour(t testing.TB, device string, a netip.Addr, mac net.HardwareAddr) {
	t.Helper()
	require.NoError(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: linkOf(t, device).Attrs().Index, IP: a.AsSlice(), HardwareAddr: mac,
		State: netlink.NUD_PERMANENT}))
}

// frameSocket sends and receives whole frames of the peer's end of pair 0.
type frameSocket struct {
	t     testing.TB
	fd    int
	index int
}

func newFrameSocket(t testing.TB, n *testnet.Net) *frameSocket {
	s := &frameSocket{t: t}
	n.InPeer(func() {
		var err error
		all := uint16(unix.ETH_P_ALL)
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all>>8|all<<8))
		require.NoError(t, err)
		s.index = linkOf(t, "p0").Attrs().Index
		require.NoError(t, unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all>>8 | all<<8, Ifindex: s.index}))
		require.NoError(t, unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}))
	})
	t.Cleanup(func() { _ = unix.Close(s.fd) })
	return s
}

func (s *frameSocket) write(frame []byte) error {
	return unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.index})
}

// source reads frames until one has a UDP payload of this text, and returns its source station; target the station that it is for.
func (s *frameSocket) source(text string) net.HardwareAddr { return s.read(text)[6:12] }

// target is the station that such a frame is for.
func (s *frameSocket) target(text string) net.HardwareAddr { return s.read(text)[:6] }

func (s *frameSocket) read(text string) net.HardwareAddr {
	s.t.Helper()
	b := make([]byte, 2048)
	for {
		n, err := unix.Read(s.fd, b)
		require.NoError(s.t, err)
		if n >= 42+len(text) && string(b[42:42+len(text)]) == text {
			return b[:12]
		}
	}
}

// What a kernel's socket has received and nobody has read yet.
func (f *faulty) heard(c *net.UDPConn) (texts []string) {
	f.t.Helper()
	b := make([]byte, 2048)
	for {
		f.NoError(c.SetReadDeadline(time.Now().Add(time.Millisecond)))
		n, err := c.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return texts
		}
		f.NoError(err)
		texts = append(texts, string(b[:n]))
	}
}

// mark sends a mark until the peer has it, and returns what it received before.
func (f *faulty) mark(s *ring.Socket, c *net.UDPConn, text string) (before []string) {
	f.t.Helper()
	f.until("the mark sent", func() bool { return f.send(s, addrOf(c), text) == nil })
	f.until("the mark "+text, func() bool {
		for _, x := range f.heard(c) {
			if x == text {
				return true
			}
			before = append(before, x)
		}
		return false
	})
	return before
}
