package xtreme_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestWhyNotOffloaded(t *testing.T) {
	w := newCabled(t)
	var fd int
	w.NoError(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{})
		}
		return err
	}())
	adopted, err := w.poller.Adopt(fd, xtreme.AdoptConfig{})
	w.NoError(err)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.NoError(err)
	defer unix.Close(pair[1])
	stream, err := w.poller.Adopt(pair[0], xtreme.AdoptConfig{})
	w.NoError(err)
	for code, s := range map[string]*xtreme.Socket{
		"link.loopback":   w.udp(loopback),
		"offload.no_ipv6": w.udp(loopback6),
		"offload.no_tcp":  w.listen(),
		"offload.adopted": adopted,
	} {
		w.Equal("kernel", s.Path().Tier, code)
		w.Equal(code, codes(s.Path())[0], "%v", s.Path())
		w.Contains([]string{"uring", "epoll"}, s.Ring().Kind())
	}
	w.Equal("offload.no_unix", codes(stream.Path())[0])
	w.False(program(t, "v0"), "none of them needs the interface")
	for _, r := range w.poller.Rings() {
		w.NotEqual("offload", r.Kind())
	}
}

// Without the privileges sockets are the kernel's, which is said, or an error where that is not good enough.
func TestWithoutCapability(t *testing.T) {
	w := newCabled(t)
	var s *xtreme.Socket
	var err, refused error
	w.withCapabilities(func() {
		s, err = w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{})
		_, refused = w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	})
	w.NoError(err)
	w.Equal("kernel", s.Path().Tier)
	w.Equal("xdp.no_capability", codes(s.Path())[0])
	peer := w.net.Dial(s.LocalAddr())
	w.write(peer, "all the same")
	w.Equal("all the same", w.text(s))
	var f *ring.FeatureError
	w.ErrorAs(refused, &f)
	w.Equal("xdp.no_capability", f.Code)
	w.ErrorContains(refused, "offload required")
	w.ErrorContains(refused, "(missing: CAP_NET_RAW, CAP_BPF, CAP_NET_ADMIN)")
}

// What is missing is named, and nothing else is held responsible.
func TestTheMissingCapabilityIsNamed(t *testing.T) {
	all := map[string]int{"CAP_NET_RAW": unix.CAP_NET_RAW, "CAP_BPF": unix.CAP_BPF, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN}
	for missing := range all {
		w := newCabled(t)
		var few []int
		for name, c := range all {
			if name != missing {
				few = append(few, c)
			}
		}
		var err error
		w.withCapabilities(func() {
			_, err = w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		}, few...)
		w.ErrorContains(err, "(missing: "+missing+")")
		w.NotContains(err.Error(), "MEMLOCK")
	}
}

// withCapabilities runs f with these capabilities alone. They are those of this thread, which the test is locked to.
func (w *cabled) withCapabilities(f func(), list ...int) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	w.NoError(unix.Capget(&header, &data[0]))
	few := data
	few[0].Effective, few[1].Effective = 0, 0
	for _, c := range list {
		few[c/32].Effective |= 1 << (c % 32)
	}
	w.NoError(unix.Capset(&header, &few[0]))
	f()
	w.NoError(unix.Capset(&header, &data[0]))
}

// The capabilities that docs/offload.md names suffice, each way of stamping included.
func TestWithTheDocumentedCapabilities(t *testing.T) {
	for _, stamps := range []conf.TimeSource{conf.TimePoll, conf.TimeXDP} {
		t.Run(string(stamps), func(t *testing.T) {
			w := newCabled(t)
			w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Time = stamps })
			w.poller = w.newPoller("with few capabilities")
			var s *xtreme.Socket
			var err error
			w.withCapabilities(func() { s, err = w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{Timestamps: true}) },
				unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_IPC_LOCK, unix.CAP_BPF)
			w.NoError(err)
			w.Equal("bypass", s.Path().Tier, s.Path())
			answers(w.world, s, w.net.Dial(s.LocalAddr()))
			w.close(s)
		})
	}
}

// They suffice for our own TCP too, with guard and ICMP errors.
func TestOwnTCPWithTheDocumentedCapabilities(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	var l *xtreme.Socket
	var err error
	w.withCapabilities(func() { l, err = w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{}) },
		unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_IPC_LOCK, unix.CAP_BPF)
	w.NoError(err)
	w.Equal("bypass", l.Path().Tier, l.Path().Explain())
	for _, r := range l.Path().Reasons {
		w.NotContains(r.Code, "guard.")
		w.NotContains(r.Code, "tcp.")
	}
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	w.echo(w.accept(l), peer, 3)
}

// Without CAP_IPC_LOCK the buffers must fit into RLIMIT_MEMLOCK.
func TestLimitOfLockedMemory(t *testing.T) {
	const little, enough = 1 << 20, 8 << 20 // the buffers of a poller here are 3.3 MB
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &was))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &was)) })
	for limit, fits := range map[uint64]bool{little: false, enough: true} {
		if fits && was.Max < limit {
			t.Logf("RLIMIT_MEMLOCK is %d bytes at the most: too little for buffers that fit", was.Max)
			continue
		}
		w := newCabled(t)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: min(limit, was.Max), Max: was.Max}))
		var s *xtreme.Socket
		var err error
		w.withCapabilities(func() { s, err = w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{}) },
			unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF)
		w.NoError(err)
		if fits {
			w.Equal("bypass", s.Path().Tier, s.Path())
		} else {
			w.Equal("xdp.memlock", codes(s.Path())[0])
		}
		w.write(w.net.Dial(s.LocalAddr()), "by either path")
		w.Equal("by either path", w.text(s))
		w.close(s)
	}
}

func TestRequireOffload(t *testing.T) {
	w := newCabled(t, testnet.Pair{}, testnet.Pair{})
	s := w.udp(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	w.Equal("bypass", s.Path().Tier)
	w.udp(netip.MustParseAddrPort("0.0.0.0:0"), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	steps, err := w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	w.NoError(err)
	w.ErrorIs(steps.Bind(loopback), xtreme.ErrNotSupported)
	w.NoError(steps.Discard())
	before := descriptors(t)
	for code, open := range map[string]func() (*xtreme.Socket, error){
		"offload.no_tcp": func() (*xtreme.Socket, error) {
			return w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
		"offload.no_ipv6": func() (*xtreme.Socket, error) {
			return w.poller.OpenUDP(loopback6, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
		"link.loopback": func() (*xtreme.Socket, error) {
			return w.poller.OpenUDP(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
	} {
		s, err := open()
		w.Nil(s)
		w.ErrorIs(err, xtreme.ErrNotSupported)
		var f *ring.FeatureError
		w.ErrorAs(err, &f)
		w.Equal(code, f.Code)
		w.ErrorContains(err, "["+code+"]")
	}
	// What was closed before may take until now to go.
	w.until("the refused sockets' descriptors are closed", func() bool { return descriptors(t) <= before })

	// A group that cannot be had by the link is not joined at all.
	g := netip.MustParseAddr("239.1.1.1")
	one := w.udp(netip.AddrPortFrom(g, 7500), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true},
		Groups: []xtreme.Group{{Interface: "v0"}}})
	w.ErrorContains(one.JoinGroup(g, "lo", netip.Addr{}), "link.loopback")
	w.ErrorIs(one.LeaveGroup(g, "lo", netip.Addr{}), unix.EADDRNOTAVAIL)
	w.NoError(one.JoinGroup(g, "v1", netip.Addr{}))
}

// What another process, or another engine, has opened is its own.
func TestInterfaceIsBusy(t *testing.T) {
	w := newCabled(t)
	first := w.udp(w.at(0))
	e := w.newEngine()
	p, err := e.NewPoller("late", xtreme.PollerConfig{})
	w.NoError(err)
	defer func() { w.NoError(p.Close()) }()
	for range 2 {
		s, err := p.OpenUDP(w.at(0), xtreme.UDPConfig{})
		w.NoError(err)
		w.Equal("kernel", s.Path().Tier)
		w.Equal("xdp.busy", codes(s.Path())[0])
		w.Contains(s.Path().Explain(), fmt.Sprintf("pid=%d", os.Getpid()))
	}
	answers(w.world, first, w.net.Dial(first.LocalAddr()))
}

// More queues on one pool than there are buffers to spare: the reason says it.
func TestTooFewBuffersForTheQueues(t *testing.T) {
	w := newCabled(t, testnet.Pair{Queues: 8})
	p := w.newPoller("small", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
	s, err := p.OpenUDP(w.at(0), xtreme.UDPConfig{})
	w.NoError(err)
	w.Equal("offload.no_buffers", codes(s.Path())[0])
	w.Contains(s.Path().Explain(), "8 queues of v0")
}
