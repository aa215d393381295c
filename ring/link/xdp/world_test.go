package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// patience is how long a test waits for what must happen.
var patience = testnet.Slow(10 * time.Second)

// world is two network namespaces joined by a veth pair: v0 with 10.0.0.1, where the test's thread is and our link will be, and v1 with
// 10.0.0.2, where the kernel is the peer.
type world struct {
	*require.Assertions
	t            *testing.T
	here, there  int // descriptors of the namespaces
	mac, peerMAC [6]byte
	dst          [64]link.Frame
}

const (
	ours   = "10.0.0.1"
	theirs = "10.0.0.2"
)

// newWorld makes the namespaces; the thread ends with the test.
func newWorld(t *testing.T, queues, mtu int) *world {
	t.Helper()
	runtime.LockOSThread()
	w := &world{Assertions: require.New(t), t: t}
	w.there = w.newNamespace()
	w.here = w.newNamespace()
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "v1", PeerNamespace: netlink.NsFd(w.there),
		PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues), PeerMTU: uint32(mtu)}
	pair.Name, pair.NumTxQueues, pair.NumRxQueues, pair.MTU = "v0", queues, queues, mtu
	if err := netlink.LinkAdd(pair); errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(t, "namespaces", "veth interfaces in this kernel")
	} else {
		w.NoError(err)
	}
	w.mac = w.up("v0", ours, mtu)
	w.inPeer(func() { w.peerMAC = w.up("v1", theirs, mtu) })
	// Static neighbours: no test waits for ARP, and none is disturbed by it.
	w.neighbour("v0", theirs, w.peerMAC)
	w.inPeer(func() { w.neighbour("v1", ours, w.mac) })
	return w
}

// newNamespace moves the thread into a new network namespace and returns its descriptor.
func (w *world) newNamespace() int {
	w.t.Helper()
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		testnet.Missing(w.t, "namespaces", "CAP_SYS_ADMIN")
	} else {
		w.NoError(err)
	}
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	w.NoError(err)
	w.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// inPeer runs f in the peer's namespace.
func (w *world) inPeer(f func()) {
	w.t.Helper()
	w.NoError(unix.Setns(w.there, unix.CLONE_NEWNET))
	defer func() { w.NoError(unix.Setns(w.here, unix.CLONE_NEWNET)) }()
	f()
}

func (w *world) up(name, addr string, mtu int) (mac [6]byte) {
	w.t.Helper()
	l, err := netlink.LinkByName(name)
	w.NoError(err)
	w.NoError(netlink.LinkSetMTU(l, mtu))
	a, err := netlink.ParseAddr(addr + "/24")
	w.NoError(err)
	w.NoError(netlink.AddrAdd(l, a))
	w.NoError(netlink.LinkSetUp(l))
	copy(mac[:], l.Attrs().HardwareAddr)
	return mac
}

func (w *world) neighbour(name, addr string, mac [6]byte) {
	w.t.Helper()
	l, err := netlink.LinkByName(name)
	w.NoError(err)
	w.NoError(netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: net.ParseIP(addr), HardwareAddr: mac[:],
		State: netlink.NUD_PERMANENT}))
}

// listen is a kernel socket in the thread's present namespace.
func (w *world) listen(addr string) *net.UDPConn {
	w.t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(ap(addr)))
	w.NoError(err)
	w.t.Cleanup(func() { _ = c.Close() })
	w.NoError(c.SetDeadline(time.Now().Add(3 * patience)))
	return c
}

func (w *world) peer(addr string) (c *net.UDPConn) {
	w.t.Helper()
	w.inPeer(func() { c = w.listen(addr) })
	return c
}

func (w *world) sendTo(c *net.UDPConn, to, text string) {
	w.t.Helper()
	_, err := c.WriteToUDPAddrPort([]byte(text), ap(to))
	w.NoError(err)
}

func (w *world) read(c *net.UDPConn) string {
	w.t.Helper()
	b := make([]byte, 65536)
	n, _, err := c.ReadFromUDPAddrPort(b)
	w.NoError(err)
	return string(b[:n])
}

// device opens v0.
func (w *world) device(c Config) *Device {
	w.t.Helper()
	if c.Interface == "" {
		c.Interface = "v0"
	}
	d, err := Open(c)
	w.NoError(err)
	w.t.Cleanup(func() {
		if err := d.Close(); err != nil {
			require.ErrorIs(w.t, err, link.ErrClosed)
		}
	})
	return d
}

// open opens a queue over a pool of its own; at the end of the test every buffer must be back in the pool.
func (w *world) open(d *Device, queue int, change ...func(*buffers.Layout)) *Queue {
	w.t.Helper()
	q, err := d.OpenQueue(queue, w.pool(change...))
	w.NoError(err)
	w.t.Cleanup(func() {
		if err := q.Close(); err != nil {
			require.ErrorIs(w.t, err, link.ErrClosed)
		}
		l := q.pool.Ledger()
		require.Equal(w.t, l.Total, l.Free, "queue %d: %v", queue, l)
		require.NoError(w.t, q.pool.Verify())
	})
	return q
}

func (w *world) pool(change ...func(*buffers.Layout)) *buffers.DriverPool {
	w.t.Helper()
	l := buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 2, Headroom: 192}
	for _, f := range change {
		f(&l)
	}
	r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	w.NoError(err)
	w.t.Cleanup(func() { require.NoError(w.t, r.Close()) })
	p, err := buffers.New(r.Bytes(), l)
	w.NoError(err)
	return p
}

// datagram is what a received frame of the tests holds: the payload of UDP in IPv4 without options.
func datagram(f *link.Frame) (payload string, from netip.AddrPort) {
	b := make([]byte, f.Packet.Len())
	f.Packet.CopyTo(b)
	src := netip.AddrFrom4([4]byte(b[26:30]))
	return string(b[42:]), netip.AddrPortFrom(src, uint16(b[34])<<8|uint16(b[35]))
}

// next receives until a frame comes.
func (w *world) next(q *Queue) string {
	w.t.Helper()
	for end := time.Now().Add(patience); ; {
		if q.Receive(w.dst[:1]) == 1 {
			s, _ := datagram(&w.dst[0])
			w.NoError(w.dst[0].Packet.Release())
			return s
		}
		w.True(time.Now().Before(end), "no frame came; %v %v", q.Counters(nil), counters(q.device.program))
		time.Sleep(50 * time.Microsecond)
	}
}

// silent receives for a while; nothing may come.
func (w *world) silent(q *Queue) {
	w.t.Helper()
	for range 20 {
		w.Zero(q.Receive(w.dst[:]))
		time.Sleep(time.Millisecond)
	}
}

// send sends a datagram to the peer from a buffer of the queue's pool, headers pushed before the payload.
func (w *world) send(q *Queue, from, to, payload string, token uint64) {
	w.t.Helper()
	for !w.trySend(q, from, to, payload, token) {
		w.NoError(q.Flush())
		q.Complete(nil)
	}
	w.NoError(q.Flush())
}

func (w *world) trySend(q *Queue, from, to, payload string, token uint64) bool {
	w.t.Helper()
	whole := packet{dstMAC: w.peerMAC, srcMAC: w.mac, src: ap(from), dst: ap(to), payload: []byte(payload)}.bytes()
	var p buffers.Packet
	for rest := whole[42:]; ; {
		k := min(len(rest), 2048)
		x, err := q.pool.Alloc(k)
		w.NoError(err)
		copy(x.Bytes(), rest)
		p = q.pool.Append(p, x)
		if rest = rest[k:]; len(rest) == 0 {
			break
		}
	}
	p, err := q.pool.Transmit(p)
	w.NoError(err)
	h, err := p.Push(42)
	w.NoError(err)
	copy(h, whole)
	if q.Send([]link.Out{{Packet: p, Token: token}}) == 1 {
		return true
	}
	q.pool.Complete(p)
	w.NoError(p.Release())
	return false
}

// complete waits until everything that was sent has come back, and returns the tokens.
func (w *world) complete(q *Queue) (tokens []uint64) {
	w.t.Helper()
	var done [16]link.Done
	for end := time.Now().Add(patience); q.Unsent() > 0; {
		w.True(time.Now().Before(end), "%d frames unsent", q.Unsent())
		w.NoError(q.Flush())
		for _, d := range done[:q.Complete(done[:])] {
			tokens = append(tokens, d.Token)
			w.NoError(d.Packet.Release())
		}
	}
	return tokens
}

// udp reads a counter of the kernel's UDP in the thread's present namespace.
func (w *world) udp(name string) (n int) {
	w.t.Helper()
	b, err := os.ReadFile("/proc/thread-self/net/snmp")
	w.NoError(err)
	var names []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i := range names {
			if names[i] == name {
				_, err := fmt.Sscan(f[i], &n)
				w.NoError(err)
				return n
			}
		}
	}
	w.Fail("no counter " + name)
	return 0
}

// counter is one of the queue's or its program's.
func (w *world) counter(q *Queue, name string) uint64 {
	w.t.Helper()
	for _, c := range q.device.Counters(q.Counters(nil)) {
		if c.Name == name {
			return c.Value
		}
	}
	w.Fail("no counter " + name)
	return 0
}

// refused asserts that err is a refusal with the code.
func refused(t *testing.T, err error, code string) *link.Refusal {
	t.Helper()
	var r *link.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, code, r.Reason.Code, "%v", err)
	return r
}
