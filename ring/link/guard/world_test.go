package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

// patience is how long a test waits for what must happen.
var patience = testnet.Slow(20 * time.Second)

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

const (
	ours   = "10.0.0.1"
	theirs = "10.0.0.2"
)

var port4000 = link.Flow{Protocol: link.TCP, Local: ap(ours + ":4000")}

// world is a network of two namespaces whose near end has a hand-made stack: it answers what the steering program takes, and nothing else.
type world struct {
	*require.Assertions
	t       *testing.T
	net     *testnet.Net
	index   int
	mac     net.HardwareAddr
	peerMAC net.HardwareAddr
	raw     int
	device  *xdp.Device
	queue   *xdp.Queue
	dst     [64]link.Frame
	next    map[netip.AddrPort]uint32 // RCV.NXT by peer
}

func newWorld(t *testing.T) *world {
	w := &world{Assertions: require.New(t), t: t, net: testnet.New(t, testnet.Pair{}), next: map[netip.AddrPort]uint32{}}
	near, err := net.InterfaceByName("v0")
	w.NoError(err)
	w.index, w.mac = near.Index, near.HardwareAddr
	w.net.InPeer(func() {
		far, err := net.InterfaceByName("p0")
		w.NoError(err)
		w.peerMAC = far.HardwareAddr
	})
	w.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // it receives nothing
	w.NoError(err)
	t.Cleanup(func() { w.NoError(unix.Close(w.raw)) })
	return w
}

// steer puts the steering program on the interface, with a claim of the port.
func (w *world) steer() {
	w.t.Helper()
	var err error
	w.device, err = xdp.Open(xdp.Config{Interface: "v0", TCP: true, Retry: time.Second})
	w.NoError(err)
	l := buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 2, Headroom: 192}
	r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	w.NoError(err)
	pool, err := buffers.New(r.Bytes(), l)
	w.NoError(err)
	w.queue, err = w.device.OpenQueue(0, pool)
	w.NoError(err)
	w.NoError(w.device.Claim(port4000))
	queue, device := w.queue, w.device
	w.t.Cleanup(func() { _, _, _ = device.Close(), queue.Close(), r.Close() }) // the test may have closed them
}

// unsteer takes it off.
func (w *world) unsteer() {
	w.NoError(w.queue.Close())
	w.NoError(w.device.Close())
}

// frame is a segment from our port to a peer.
func (w *world) frame(to netip.AddrPort, flags wire.TCPFlags, seq, ack uint32, payload string) []byte {
	return segment(w.mac, w.peerMAC, ap(ours+":4000"), to, flags, seq, ack, payload)
}

func segment(from, to net.HardwareAddr, source, target netip.AddrPort, flags wire.TCPFlags, seq, ack uint32, payload string) []byte {
	f := wire.TCPFields{SourcePort: source.Port(), TargetPort: target.Port(), Seq: seq, Ack: ack, Flags: flags, Window: 60000}
	n := f.HeaderLen() + len(payload)
	b := append(append(append([]byte{}, to...), from...), 8, 0)
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolTCP, Source: source.Addr().As4(), Target: target.Addr().As4()}
	b, err := ip.Append(b, n)
	if err != nil {
		panic(err)
	}
	b, err = f.Append(b, source.Addr().As4(), target.Addr().As4(), []byte(payload))
	if err != nil {
		panic(err)
	}
	return b
}

func (w *world) send(index int, frame []byte) {
	w.t.Helper()
	w.NoError(unix.Sendto(w.raw, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Halen: 6}))
}

// serve answers what has come: SYN with SYN and ACK, data with an acknowledgement.
func (w *world) serve() {
	w.t.Helper()
	for _, f := range w.dst[:w.queue.Receive(w.dst[:])] {
		b := make([]byte, f.Packet.Len())
		f.Packet.CopyTo(b)
		w.NoError(f.Packet.Release())
		total := int(binary.BigEndian.Uint16(b[16:]))
		h, _, payload, d := wire.ParseTCP(b[34 : 14+total])
		w.Equal(wire.Accept, d)
		peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[26:30])), h.SourcePort())
		switch {
		case h.Flags()&wire.TCPSyn != 0:
			w.next[peer] = h.Seq() + 1
			w.send(w.index, w.frame(peer, wire.TCPSyn|wire.TCPAck, 999, h.Seq()+1, ""))
		case len(payload) > 0 && h.Seq() == w.next[peer]:
			w.next[peer] += uint32(len(payload))
			w.send(w.index, w.frame(peer, wire.TCPAck, h.Ack(), w.next[peer], ""))
		}
	}
}

// until serves until something holds.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		w.True(time.Now().Before(end), "not reached: %s", what)
		if w.queue != nil {
			w.serve()
		}
	}
}

// connect is a connection of the peer's kernel to our port.
func (w *world) connect() (fd int, local netip.AddrPort) {
	w.t.Helper()
	fd = w.dial(ap(ours + ":4000"))
	w.until("connected", func() bool { return w.ready(fd) })
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	w.NoError(err)
	w.Zero(code)
	name, err := unix.Getsockname(fd)
	w.NoError(err)
	a := name.(*unix.SockaddrInet4)
	return fd, netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
}

func (w *world) dial(to netip.AddrPort) (fd int) {
	w.t.Helper()
	w.net.InPeer(func() {
		var err error
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		w.NoError(err)
		w.ErrorIs(unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}), unix.EINPROGRESS)
	})
	w.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// ready reports whether a connect has ended.
func (w *world) ready(fd int) bool {
	list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(list, 0)
	if errors.Is(err, unix.EINTR) { // by a signal of Go's scheduler
		return false
	}
	w.NoError(err)
	return n == 1
}

func (w *world) write(fd int, text string) {
	w.t.Helper()
	_, err := unix.Write(fd, []byte(text))
	w.NoError(err)
}

// unacked is how many bytes the peer's kernel has queued and not yet seen acknowledged.
func (w *world) unacked(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	w.NoError(err)
	return n
}

// state is what has become of a connection of the peer's kernel.
func (w *world) state(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	w.NoError(err)
	if code != 0 {
		return unix.Errno(code)
	}
	return nil
}

// tcp reads a counter of the kernel's TCP in the thread's present namespace.
func (w *world) tcp(name string) (n uint64) {
	w.t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/snmp")
	w.NoError(err)
	var names []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case f[0] != "Tcp:":
		case names == nil:
			names = f
		default:
			for i := range names {
				if names[i] == name {
					_, err := fmt.Sscan(f[i], &n)
					w.NoError(err)
					return n
				}
			}
		}
	}
	w.Fail("no counter " + name)
	return 0
}

// sentByPeer is how many segments the peer's kernel has sent.
func (w *world) sentByPeer() (n uint64) {
	w.net.InPeer(func() { n = w.tcp("OutSegs") + w.tcp("RetransSegs") }) // the first does not count what the second does
	return n
}

func (w *world) count(g *Guard, name string) uint64 {
	w.t.Helper()
	for _, c := range g.Counters(nil) {
		if c.Name == name {
			return c.Value
		}
	}
	w.Fail("no counter " + name)
	return 0
}

// guarded opens a guard for the test's interface.
func (w *world) guarded(c Config) *Guard {
	w.t.Helper()
	c.Index = w.index
	g, err := Open(c)
	w.NoError(err)
	w.t.Cleanup(func() { _ = g.Close() })
	return g
}

// modes runs a test with TCX and with a clsact qdisc.
func modes(t *testing.T, f func(t *testing.T, c Config)) {
	for _, c := range []Config{{}, {Clsact: true}} {
		name := "tcx"
		if c.Clsact {
			name = "clsact"
		}
		t.Run(name, func(t *testing.T) {
			if !c.Clsact && !hasTCX() {
				testnet.Missing(t, "tcx", "Linux 6.6, this is "+sys.KernelRelease())
			}
			f(t, c)
		})
	}
}
