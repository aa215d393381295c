package offload_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/udp"
)

// streamCable is a cable whose near end carries our TCP; the peers are connections of the kernel at the far end.
type streamCable struct{ *cable }

var _ ringtest.StreamPeers = streamCable{}

// newStreamCable makes an exchange for TCP, whose interface v0 a set is on.
func newStreamCable(t testing.TB, sc *ring.SetConfig, more ...testnet.Pair) streamCable {
	c := streamCable{&cable{Net: testnet.New(t, append([]testnet.Pair{{Queues: 1}}, more...)...), t: t}}
	mirror := c.openExchange(xdp.Config{TCP: true})
	c.know("v0", deadAddr, net.HardwareAddr{2, 0, 0, 0, 0, 9})
	sc.Kind, sc.OneRing, sc.Transport = "offload", offload.OneRing, offload.NewKernelPorts(mirror)
	sc.Driver = offload.New(offload.Config{Exchange: c.exchange, TCP: quickTCP(false),
		Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}}})
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
func inspectIn(x *atomic.Pointer[offload.Exchange]) func(int) (ring.Adopted, error) {
	return func(number int) (ring.Adopted, error) { return x.Load().Transit().Inspect(ring.Conn(number)) }
}

func refuseIn(x *atomic.Pointer[offload.Exchange]) func(int) error {
	return func(number int) error { return x.Load().Transit().Refuse(ring.Conn(number)) }
}

// The stream half of the suite with our own TCP over AF_XDP, and the kernel's at the other end of a veth pair.
func TestStreamContractOverVeth(t *testing.T) {
	var x atomic.Pointer[offload.Exchange] // of the case that was opened last; those that look at it run alone
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: streamCaps, Streams: true, Has: []string{ringtest.KeepAlive, ringtest.AcceptAway},
		Inspect: inspectIn(&x), Refuse: refuseIn(&x), Sleeps: wakeUps,
		Open: func(t *testing.T, _ *buffers.DriverPool, sc *ring.SetConfig) ringtest.Peers {
			c := newStreamCable(t, sc)
			x.Store(c.exchange)
			return c
		}})
}
