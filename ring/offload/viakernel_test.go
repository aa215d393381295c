package offload_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Clients of this host, of an interface that is no link of the ring, and of one that is, at once: one listener accepts all of them. The kernel
// has the connections of the first two, whose paths say so.
func TestKernelListensBeside(t *testing.T) {
	for _, at := range []string{"0.0.0.0:7000", "[::]:7000"} {
		t.Run(at, func(t *testing.T) { kernelListensBeside(t, at) })
	}
}

func kernelListensBeside(t *testing.T, at string) {
	const each = 20
	c, set := streamRing(t, testnet.Pair{})
	e := newEchoServer(t, listenTCP(t, set, at))
	require.Equal(t, "bypass", e.listener.Path().Tier)
	var clients echoClients
	clients.begin(t, connecting(t, netip.MustParseAddrPort("127.0.0.1:7000")))
	more := 1
	if e.listener.LocalAddr().Addr().Is6() {
		clients.begin(t, connecting(t, netip.MustParseAddrPort("[::1]:7000")))
		more++
	}
	for range each {
		clients.begin(t, connecting(t, netip.MustParseAddrPort("10.0.0.1:7000"))) // of this host
		c.InPeer(func() {
			clients.begin(t, connecting(t, netip.MustParseAddrPort("10.0.0.1:7000")))
			clients.begin(t, connecting(t, netip.MustParseAddrPort("10.0.1.1:7000")))
		})
	}
	e.until("accepted", func() bool { return e.own+e.kernels == 3*each+more })
	require.Equal(t, each, e.own)
	require.Equal(t, 2*each+more, e.kernels)
	require.Equal(t, more == 2, e.why["offload.no_ipv6"])
	require.True(t, e.why["tcp.same_host"])
	require.True(t, e.why["tcp.kernel_child"])
	require.Equal(t, uint64(e.kernels), counter(e.listener.Ring(), "tcp.via_kernel"))
	from := clients.bytes.Load()
	e.until("busy", func() bool { return clients.bytes.Load() > from+1<<20 })

	// Asleep, the ring wakes for each kind.
	for range 20 {
		require.NoError(t, e.listener.Ring().Wait(time.Second))
		e.poll()
	}
	clients.stop.Store(true)
	e.until("ended", func() bool { return clients.live.Load() == 0 && len(e.open) == 0 })
	require.Empty(t, clients.errs)
	require.Empty(t, e.failed)
	require.NoError(t, e.listener.Close())
}

// A suspended listener accepts neither kind; what waits is accepted when it goes on.
func TestKernelsListenerIsSuspended(t *testing.T) {
	c, set := streamRing(t)
	e := newEchoServer(t, listenTCP(t, set, "10.0.0.1:7000"))
	require.NoError(t, e.listener.Suspend())
	var clients echoClients
	clients.begin(t, connecting(t, e.listener.LocalAddr()))
	c.InPeer(func() { clients.begin(t, connecting(t, e.listener.LocalAddr())) })
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		e.poll()
	}
	require.Zero(t, e.own+e.kernels)
	require.NoError(t, e.listener.Resume())
	e.until("accepted", func() bool { return e.own == 1 && e.kernels == 1 })
	clients.stop.Store(true)
	e.until("ended", func() bool { return clients.live.Load() == 0 && len(e.open) == 0 })
	require.Empty(t, clients.errs)
}

// Streams that only the kernel can carry connect there, and say why: to this host, over IPv6, and by an interface that is no link of the ring.
func TestKernelConnects(t *testing.T) {
	c, set := streamRing(t, testnet.Pair{})
	x, err := netlink.ParseAddr("fd00::1/64")
	require.NoError(t, err)
	x.Flags = unix.IFA_F_NODAD
	require.NoError(t, netlink.AddrAdd(linkOf(t, "lo"), x))
	var far net.Listener
	c.InPeer(func() { far, err = net.Listen("tcp4", "10.0.1.2:80") })
	require.NoError(t, err)
	defer func() { require.NoError(t, far.Close()) }()
	near, err := net.Listen("tcp", ":80")
	require.NoError(t, err)
	defer func() { require.NoError(t, near.Close()) }()
	for _, test := range []struct {
		to, why string
		at      net.Listener
	}{{"10.0.0.1:80", "tcp.same_host", near}, {"127.0.0.1:80", "tcp.same_host", near}, {"[fd00::1]:80", "offload.no_ipv6", near},
		{"10.0.1.2:80", "tcp.no_link", far}} {
		to := netip.MustParseAddrPort(test.to)
		accepted := make(chan error, 1)
		go func() {
			conn, err := test.at.Accept()
			if err == nil {
				_, err = conn.Write([]byte("hello"))
				err = errors.Join(err, conn.Close())
			}
			accepted <- err
		}()
		s, err := set.NewSocket(ring.KindStream, ring.FamilyOfAddr(to.Addr()), ring.Config{})
		require.NoError(t, err)
		require.NoError(t, s.Connect(to), test.to)
		p := s.Path()
		require.Equal(t, []string{"kernel", test.why}, []string{p.Tier, p.Lost}, test.to)
		require.Equal(t, "kernel epoll (bypass lost: "+test.why+")", p.String())
		got, dst := "", make([]ring.Completion, 8)
		for end, ended := time.Now().Add(patience), false; !ended; {
			n, err := s.Ring().Poll(dst)
			require.NoError(t, err)
			for i := range dst[:n] {
				if dst[i].Events.Has(ring.EventPacket) {
					got += string(dst[i].Packet.Bytes())
					require.NoError(t, dst[i].Packet.Release())
				}
				require.False(t, dst[i].Events.Has(ring.EventHup), "%v: %v", test.to, dst[i].Err)
				ended = ended || dst[i].Events.Has(ring.EventRdHup)
			}
			require.True(t, time.Now().Before(end), test.to)
		}
		require.Equal(t, "hello", got)
		require.NoError(t, <-accepted)
		require.NoError(t, s.Close())
	}
}
