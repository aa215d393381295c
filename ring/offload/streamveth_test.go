package offload_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
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
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/udp"
)

// streamCable is a cable whose near end carries our TCP; the peers are connections of the kernel at the far end.
type streamCable struct{ *cable }

var _ ringtest.StreamPeers = streamCable{}

// newStreamCable opens v0 for TCP.
func newStreamCable(t testing.TB, pool *buffers.DriverPool, sc *ring.SetConfig, x *streams.Transit, more ...testnet.Pair) streamCable {
	c := streamCable{&cable{Net: testnet.New(t, append([]testnet.Pair{{Queues: 1}}, more...)...), t: t}}
	dev, err := xdp.Open(xdp.Config{Interface: "v0", TCP: true})
	require.NoError(t, err)
	require.NoError(t, dev.AddAddrs())
	mirror, err := host.Open(host.Config{})
	require.NoError(t, err)
	c.know("v0", deadAddr, net.HardwareAddr{2, 0, 0, 0, 0, 9})
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			require.ErrorIs(t, err, link.ErrClosed)
		}
		require.NoError(t, mirror.Close())
	})
	sc.Kind, sc.OneRing, sc.Transport = "offload", offload.OneRing, offload.NewKernelPorts(mirror)
	sc.Driver = func(dc ring.DriverConfig) (ring.Driver, error) { // the driver closes the queue: without a ring there is none to be opened
		q, err := dev.OpenQueue(0, pool)
		require.NoError(t, err)
		return offload.New(offload.Config{Links: []offload.Link{{Link: q, Checksum: udp.AcceptPartial, Steering: dev}}, Host: mirror,
			TCP: quickTCP(false), Transit: x})(dc)
	}
	return c
}

// deadAddr has a neighbour entry and no host.
var deadAddr = netip.MustParseAddr("10.0.0.99")

func (c streamCable) know(device string, a netip.Addr, mac net.HardwareAddr) {
	l, err := netlink.LinkByName(device)
	require.NoError(c.t, err)
	require.NoError(c.t, netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: a.AsSlice(), HardwareAddr: mac,
		State: netlink.NUD_PERMANENT}))
}

func (c streamCable) BlackHole() netip.AddrPort { return netip.AddrPortFrom(deadAddr, 80) }

// DialStream connects in the peer's kernel, which needs the ring for the handshake.
func (c streamCable) DialStream(to netip.AddrPort, turn func()) (ringtest.StreamPeer, error) {
	var fd int
	var err error
	c.InPeer(func() {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
		}
	})
	if err != nil && err != unix.EINPROGRESS {
		return nil, err
	}
	for end := time.Now().Add(patience); ; turn() {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(p, 0); n > 0 {
			break
		}
		if time.Now().After(end) {
			return nil, errors.Join(os.ErrDeadlineExceeded, unix.Close(fd))
		}
	}
	if e, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || e != 0 {
		return nil, errors.Join(err, unix.Errno(e), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), fmt.Sprint("to ", to))
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return kernelConn{conn.(*net.TCPConn)}, conn.(*net.TCPConn).SetNoDelay(true)
}

func (c streamCable) ListenStream() (ringtest.StreamListener, error) {
	var l *net.TCPListener
	var err error
	c.InPeer(func() { l, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: c.Peer(0).AsSlice()}) })
	return kernelListener{l}, err
}

type kernelListener struct{ *net.TCPListener }

func (l kernelListener) Addr() netip.AddrPort {
	return l.TCPListener.Addr().(*net.TCPAddr).AddrPort()
}

func (l kernelListener) Accept(turn func()) (ringtest.StreamPeer, error) {
	for end := time.Now().Add(patience); ; turn() {
		if err := l.SetDeadline(time.Now().Add(100 * time.Microsecond)); err != nil {
			return nil, err
		}
		c, err := l.AcceptTCP()
		if err == nil {
			return kernelConn{c}, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end) {
			return nil, err
		}
	}
}

// kernelConn is a connection of the peer's kernel.
type kernelConn struct{ *net.TCPConn }

func (c kernelConn) Reset() error { return errors.Join(c.SetLinger(0), c.Close()) }

// Deafen attaches the classic BPF program "return 0" (SO_ATTACH_FILTER).
func (c kernelConn) Deafen(t *testing.T) {
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	filter := []unix.SockFilter{{Code: unix.BPF_RET, K: 0}}
	var failure error
	require.NoError(t, raw.Control(func(fd uintptr) {
		failure = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}))
	require.NoError(t, failure)
}

// inspectIn and refuseIn are the suite's calls for connections in transit.
func inspectIn(x *streams.Transit) func(int) (ring.Adopted, error) {
	return func(number int) (ring.Adopted, error) { return x.Inspect(ring.Conn(number)) }
}

func refuseIn(x *streams.Transit) func(int) error {
	return func(number int) error { return x.Refuse(ring.Conn(number)) }
}

// The stream half of the suite with our own TCP over AF_XDP, and the kernel's at the other end of a veth pair.
func TestStreamContractOverVeth(t *testing.T) {
	x := streams.NewTransit(nil)
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: streamCaps, Streams: true, Has: []string{ringtest.KeepAlive, ringtest.AcceptAway},
		Inspect: inspectIn(x), Refuse: refuseIn(x), Sleeps: wakeUps,
		Open: func(t *testing.T, pool *buffers.DriverPool, c *ring.SetConfig) ringtest.Peers {
			return newStreamCable(t, pool, c, x)
		}})
}
