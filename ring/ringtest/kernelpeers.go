package ringtest

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// Loopback is the kernel's own sockets at 127.0.0.1 as peers.
func Loopback(t *testing.T) Peers { return kernelPeers{t} }

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

type kernelPeers struct{ t *testing.T }

var (
	_ DatagramPeers = kernelPeers{}
	_ StreamPeers   = kernelPeers{}
)

func (kernelPeers) Local() netip.Addr           { return loopback.Addr() }
func (kernelPeers) Other() netip.Addr           { return netip.MustParseAddr("127.0.0.77") }
func (kernelPeers) Device() string              { return "lo" }
func (p kernelPeers) Nobody() netip.AddrPort    { return freePort(p.t) }
func (p kernelPeers) BlackHole() netip.AddrPort { return blackHole(p.t) }

func (p kernelPeers) Dial(to netip.AddrPort) Peer {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	require.NoError(p.t, err)
	return c
}

// DialStream connects a kernel socket to an address of the ring.
func (kernelPeers) DialStream(to netip.AddrPort, _ func()) (StreamPeer, error) {
	c, err := net.DialTimeout("tcp", to.String(), patience)
	if err != nil {
		return nil, err
	}
	return kernelStream{c.(*net.TCPConn)}, nil
}

// ListenStream makes a kernel listener to which the ring can connect.
func (kernelPeers) ListenStream() (StreamListener, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(loopback))
	if err != nil {
		return nil, err
	}
	return kernelListener{l}, nil
}

// kernelStream is a connection of the kernel's.
type kernelStream struct{ *net.TCPConn }

func (c kernelStream) Reset() error { return errors.Join(c.SetLinger(0), c.Close()) }

func (c kernelStream) Deafen(t *testing.T) {
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	dropAll(t, raw.Control)
}

type kernelListener struct{ l *net.TCPListener }

func (k kernelListener) Addr() netip.AddrPort { return k.l.Addr().(*net.TCPAddr).AddrPort() }
func (k kernelListener) Close() error         { return k.l.Close() }

// Accept waits for the ring's connection.
func (k kernelListener) Accept(func()) (StreamPeer, error) {
	c, err := k.l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return kernelStream{c}, nil
}

// freePort is a loopback port that nobody listens on.
func freePort(t *testing.T) netip.AddrPort {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// blackHole is an address that answers nothing: a listener whose accept queue is full drops every further SYN.
func blackHole(t *testing.T) netip.AddrPort {
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	fd := socket()
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	to := sys.SockName(fd)
	for range 2 { // one more than the queue of length 0 takes
		_ = unix.Connect(socket(), &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(to.Port())}) // EINPROGRESS
	}
	time.Sleep(5 * time.Millisecond)
	return to
}

// dropAll attaches the classic BPF program "return 0" (SO_ATTACH_FILTER): no packet passes.
func dropAll(t *testing.T, control func(func(uintptr)) error) {
	const bpfRetK = 0x06
	filter := []unix.SockFilter{{Code: bpfRetK, K: 0}}
	var err error
	require.NoError(t, control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}))
	if errors.Is(err, unix.EPERM) && unix.Geteuid() != 0 {
		testnet.Missing(t, "root", "this kernel grants ordinary users no socket filter, the black hole for an established connection")
	}
	require.NoError(t, err)
}
