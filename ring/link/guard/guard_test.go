package guard

import (
	"errors"
	"github.com/cilium/ebpf"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Without a guard the kernel resets the peer of a connection that it does not know. This is what the guard is for.
func TestKernelResetsWithoutGuard(t *testing.T) {
	w := newWorld(t)
	w.steer()
	fd, _ := w.connect()
	w.unsteer()
	w.queue = nil
	w.write(fd, "to nobody")
	w.until("a reset", func() bool { return errors.Is(w.state(fd), unix.ECONNRESET) })
	w.EqualValues(1, w.tcp("OutRsts"))
}

// With one it sees nothing of it, each segment is counted, and the connection goes on when the path is back.
func TestPathAway(t *testing.T) {
	modes(t, func(t *testing.T, c Config) {
		w := newWorld(t)
		w.steer()
		g := w.guarded(c)
		w.NoError(g.Claim(port4000))
		fd, _ := w.connect()
		before := w.sentByPeer()
		w.unsteer()
		w.queue = nil
		w.write(fd, "it waits")
		w.until("three segments dropped", func() bool { return w.count(g, "guard.segment") >= 3 })
		// Retransmissions may leave meanwhile: the sum is taken between two equal readings.
		w.until("an exact count", func() bool {
			sent := w.sentByPeer()
			dropped := w.count(g, "guard.segment")
			return sent == w.sentByPeer() && dropped == sent-before
		})
		w.Zero(w.tcp("OutRsts"))
		w.NoError(w.state(fd))
		w.Equal(len("it waits"), w.unacked(fd))
		w.steer()
		w.until("acknowledged", func() bool { return w.unacked(fd) == 0 })
		w.NoError(w.state(fd))
		w.Zero(w.tcp("OutRsts"))
		w.Zero(w.count(g, "guard.stale"))
		w.NoError(g.Check())
	})
}

// While the path is away SYNs are dropped until a time, and then the kernel accepts: connections that it has accepted pass the guard, ours do
// not.
func TestAcceptAfter(t *testing.T) {
	modes(t, func(t *testing.T, c Config) {
		w := newWorld(t)
		w.steer()
		g := w.guarded(c)
		w.NoError(g.Claim(port4000))
		w.ErrorIs(g.AcceptAfter(link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:1")}, 0), ErrNoEntry)
		old, _ := w.connect()
		w.unsteer()
		w.queue = nil
		shadow, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		w.NoError(err)
		defer func() { w.NoError(unix.Close(shadow)) }()
		w.NoError(unix.Bind(shadow, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 1}, Port: 4000}))
		w.NoError(unix.Listen(shadow, 10))
		fd := w.dial(ap(ours + ":4000"))
		w.until("a SYN dropped", func() bool { return w.count(g, "guard.syn") > 0 })
		w.False(w.ready(fd))
		w.Zero(w.count(g, "guard.accept"))
		w.NoError(g.AcceptAfter(port4000, 0))
		w.until("the kernel accepts", func() bool { return w.ready(fd) })
		w.NoError(w.state(fd))
		w.write(fd, "to the kernel")
		var child int
		w.until("the child", func() bool {
			child, _, err = unix.Accept4(shadow, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return err == nil
		})
		defer func() { w.NoError(unix.Close(child)) }()
		b := make([]byte, 100)
		w.until("its data", func() bool {
			n, err := unix.Read(child, b)
			return err == nil && string(b[:n]) == "to the kernel"
		})
		w.Positive(w.count(g, "guard.kernel"))
		// Our own connection is still kept away from the kernel, which has a listener on the port.
		dropped := w.count(g, "guard.segment")
		w.write(old, "to our stack")
		w.until("it is dropped", func() bool { return w.count(g, "guard.segment") > dropped })
		w.NoError(w.state(old))
		w.Zero(w.tcp("OutRsts"))
		// The path comes back: SYNs are for our stack again.
		w.NoError(g.AcceptAfter(port4000, -1))
		syns := w.count(g, "guard.syn")
		w.dial(ap(ours + ":4000"))
		w.until("a SYN dropped again", func() bool { return w.count(g, "guard.syn") > syns })
	})
}

// Which segments the guard takes, shown by what it counts.
func TestEntries(t *testing.T) {
	w := newWorld(t)
	g := w.guarded(Config{})
	peer := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(ap(theirs+":0").Addr(), port) }
	claimed := link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:5000"), Remote: peer(1)}
	passed := link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:4000"), Remote: peer(2)}
	w.NoError(g.Claim(port4000))
	w.NoError(g.Claim(claimed))
	w.NoError(g.Pass(passed))
	w.NoError(g.Claim(link.Flow{Protocol: link.TCP, Local: ap("0.0.0.0:6000")}))
	w.NoError(g.AddAddr(ap("10.0.0.1:0").Addr(), 0))
	w.NoError(g.Claim(link.Flow{Protocol: link.TCP, VLAN: 5, Local: ap("10.0.0.1:7000")}))
	tag := func(f []byte, vlan byte) []byte {
		return append(append(append([]byte{}, f[:12]...), 0x81, 0, 0x60, vlan), f[12:]...)
	}
	fragment := func(f []byte, offset, more uint16) []byte {
		field := offset / 8
		if more != 0 {
			field |= 0x2000
		}
		f[20], f[21] = byte(field>>8), byte(field)
		f[24], f[25] = 0, 0 // the checksum of the header, again
		s := wire.Sum(0).Add(f[14:34]).Check()
		f[24], f[25] = byte(s>>8), byte(s)
		return f
	}
	to := func(from, at netip.AddrPort, flags wire.TCPFlags) []byte {
		return segment(w.peerMAC, w.mac, from, at, flags, 1, 1, "payload!")
	}
	for _, test := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"a segment of the port", to(peer(9), ap("10.0.0.1:4000"), wire.TCPAck), "guard.segment"},
		{"a reset", to(peer(9), ap("10.0.0.1:4000"), wire.TCPRst), "guard.segment"},
		{"SYN", to(peer(9), ap("10.0.0.1:4000"), wire.TCPSyn), "guard.syn"},
		{"SYN and ACK", to(peer(9), ap("10.0.0.1:4000"), wire.TCPSyn|wire.TCPAck), "guard.segment"},
		{"a passed connection", to(peer(2), ap("10.0.0.1:4000"), wire.TCPAck), "guard.kernel"},
		{"a claimed connection", to(peer(1), ap("10.0.0.1:5000"), wire.TCPAck), "guard.segment"},
		{"its SYN", to(peer(1), ap("10.0.0.1:5000"), wire.TCPSyn), "guard.segment"},
		{"another peer", to(peer(3), ap("10.0.0.1:5000"), wire.TCPAck), ""},
		{"another port", to(peer(1), ap("10.0.0.1:5001"), wire.TCPAck), ""},
		{"another address", to(peer(1), ap("10.0.0.77:4000"), wire.TCPAck), ""},
		{"any address, one of ours", to(peer(9), ap("10.0.0.1:6000"), wire.TCPAck), "guard.segment"},
		{"any address, not made known", to(peer(9), ap("10.0.0.77:6000"), wire.TCPAck), ""},
		{"a tag", tag(to(peer(9), ap("10.0.0.1:7000"), wire.TCPAck), 5), "guard.segment"},
		{"another tag", tag(to(peer(9), ap("10.0.0.1:7000"), wire.TCPAck), 6), ""},
		{"no tag", to(peer(9), ap("10.0.0.1:7000"), wire.TCPAck), ""},
		{"a tag where none is claimed", tag(to(peer(9), ap("10.0.0.1:4000"), wire.TCPAck), 5), ""},
		{"the first fragment", fragment(to(peer(9), ap("10.0.0.1:4000"), wire.TCPAck), 0, 1), "guard.fragment"},
		{"the first fragment of a claimed connection", fragment(to(peer(1), ap("10.0.0.1:5000"), wire.TCPAck), 0, 1), "guard.fragment"},
		{"a later fragment", fragment(to(peer(9), ap("10.0.0.1:4000"), wire.TCPAck), 800, 0), ""},
	} {
		before, moved := map[string]uint64{}, ""
		for _, c := range g.Counters(nil) {
			before[c.Name] = c.Value
		}
		received := w.received()
		w.net.InPeer(func() { w.injectFromPeer(test.frame) })
		w.until("the frame is there", func() bool { return w.received() > received })
		for _, c := range g.Counters(nil) {
			if c.Value != before[c.Name] {
				moved += c.Name
				require.Equal(t, before[c.Name]+1, c.Value, test.name)
			}
		}
		require.Equal(t, test.want, moved, test.name)
	}
}

// BenchmarkGuard is what a segment costs in the program: of another port, with and without entries, and dropped.
func BenchmarkGuard(b *testing.B) {
	n := testnet.New(b, testnet.Pair{})
	near, err := net.InterfaceByName(n.Device(0))
	require.NoError(b, err)
	mac := make(net.HardwareAddr, 6)
	other := segment(mac, mac, ap("10.0.0.2:9"), ap("10.0.0.1:80"), wire.TCPAck, 1, 1, "payload!")
	claimed := segment(mac, mac, ap("10.0.0.2:9"), port4000.Local, wire.TCPSyn, 1, 1, "payload!")
	g, err := Open(Config{Index: near.Index})
	require.NoError(b, err)
	defer func() { require.NoError(b, g.Close()) }()
	run := func(name string, frame []byte, want uint32) {
		b.Run(name, func(b *testing.B) {
			verdict, d, err := g.program.Benchmark(frame, b.N, nil)
			require.NoError(b, err)
			require.EqualValues(b, want, verdict)
			b.ReportMetric(float64(d.Nanoseconds()), "ns/run")
		})
	}
	const next = 1<<32 - 1
	run("no-entries", other, next)
	require.NoError(b, g.Claim(port4000))
	run("another-port", other, next)
	require.NoError(b, g.Claim(link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:4000"), Remote: ap("10.0.0.2:1")}))
	run("another-port-with-connections", other, next)
	run("dropped", claimed, tcDrop)
}

// received is how many frames have come through the interface, past the guard.
func (w *world) received() uint64 {
	l, err := netlink.LinkByIndex(w.index)
	w.NoError(err)
	return l.Attrs().Statistics.RxPackets
}

func (w *world) injectFromPeer(frame []byte) {
	l, err := netlink.LinkByName("p0")
	w.NoError(err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	w.NoError(err)
	w.NoError(unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Halen: 6}))
	w.NoError(unix.Close(fd))
}

// hasTCX reports whether the kernel has TCX hooks; below it the guard is a filter of a clsact qdisc.
func hasTCX() bool {
	has, _ := sys.ReleaseAtLeast(sys.KernelRelease(), 6, 6)
	return has
}

// Ports are counted, connections replaced, and the map has an end.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	g := w.guarded(Config{Entries: 2})
	w.Equal(map[bool]string{true: "tcx", false: "clsact"}[hasTCX()], g.Mode())
	connection := link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:4000"), Remote: ap("10.0.0.2:1")}
	w.NoError(g.Claim(port4000))
	w.NoError(g.Claim(port4000))
	w.NoError(g.Claim(connection))
	w.NoError(g.Pass(connection))
	err := g.Claim(link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:4001")})
	w.ErrorIs(err, ErrFull)
	w.ErrorContains(err, "10.0.0.1:4001")
	w.ErrorContains(err, "2 entries")
	w.NoError(g.Release(connection))
	w.ErrorIs(g.Release(connection), ErrNoEntry)
	w.NoError(g.Release(port4000))
	w.NoError(g.AcceptAfter(port4000, time.Second))
	w.NoError(g.Release(port4000))
	w.ErrorIs(g.Release(port4000), ErrNoEntry)
	w.ErrorIs(g.RemoveAddr(ap("10.0.0.1:0").Addr(), 0), ErrNoEntry)
	w.Empty(g.uses)
	w.NoError(g.Close())
	w.ErrorIs(g.Close(), link.ErrClosed)
	w.ErrorIs(g.Claim(port4000), link.ErrClosed)
	w.ErrorIs(g.Check(), link.ErrClosed)
	w.Empty(g.Counters(nil))
}

// Two guards on one interface do not disturb each other.
func TestTwoGuards(t *testing.T) {
	modes(t, func(t *testing.T, c Config) {
		w := newWorld(t)
		a, b := w.guarded(c), w.guarded(c)
		w.NoError(a.Claim(port4000))
		w.NoError(b.Claim(link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:4001")}))
		w.dial(ap("10.0.0.1:4000"))
		w.dial(ap("10.0.0.1:4001"))
		w.until("both drop", func() bool { return w.count(a, "guard.syn") > 0 && w.count(b, "guard.syn") > 0 })
		w.NoError(a.Close())
		w.NoError(b.Check())
		dropped := w.count(b, "guard.syn")
		w.dial(ap("10.0.0.1:4001"))
		w.until("the other one still drops", func() bool { return w.count(b, "guard.syn") > dropped })
	})
}

// When the guard is taken off, or the interface goes, Check tells.
func TestCheck(t *testing.T) {
	modes(t, func(t *testing.T, c Config) {
		w := newWorld(t)
		g := w.guarded(c)
		w.NoError(g.Check())
		l, err := netlink.LinkByIndex(w.index)
		w.NoError(err)
		if c.Clsact {
			w.NoError(netlink.QdiscDel(clsactOf(w.index)))
			w.ErrorIs(g.Check(), link.ErrDetached)
		}
		w.NoError(netlink.LinkDel(l))
		w.ErrorIs(g.Check(), link.ErrDetached)
		w.NoError(g.Close())
	})
}

// listing is traffic control whose lists of filters fail with its errors, one after the other, and then have the filter.
type listing struct {
	trafficControl
	errs    []error
	filter  *netlink.BpfFilter
	deleted int
}

func (l *listing) FilterList(netlink.Link, uint32) ([]netlink.Filter, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return []netlink.Filter{l.filter}, nil
}

func (l *listing) FilterDel(netlink.Filter) error { l.deleted++; return nil }
func (l *listing) Close()                         {}

// Where the kernel does not list the filters, nobody has taken the guard off, and Close says that the filter may be there still. A list that
// other changes interrupt is asked for again.
func TestFiltersThatAreNotListed(t *testing.T) {
	guarded := func(errs ...error) (*Guard, *listing) {
		h := &listing{errs: errs, filter: &netlink.BpfFilter{Name: programName, Id: 7}}
		c := &clsact{handle: h, device: &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 3}}, program: 7, stop: make(chan struct{})}
		return &Guard{config: Config{Index: 3, Clsact: true}, attachment: c}, h
	}
	g, _ := guarded(unix.ENOBUFS, unix.ENOBUFS)
	err := g.Check()
	require.ErrorIs(t, err, unix.ENOBUFS)
	require.NotErrorIs(t, err, link.ErrDetached)
	require.ErrorIs(t, g.Close(), unix.ENOBUFS)

	g, h := guarded(netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted)
	require.NoError(t, g.Check())
	h.errs = []error{netlink.ErrDumpInterrupted}
	require.NoError(t, g.Close())
	require.Equal(t, 1, h.deleted)
}

// guards are the filters of guards on an interface.
func (w *world) guards(h trafficControl, l netlink.Link) []*netlink.BpfFilter {
	list, err := guards(h, l)
	w.NoError(err)
	return list
}

// hasQdisc reports whether an interface has a clsact qdisc.
func (w *world) hasQdisc(h trafficControl, l netlink.Link) bool {
	has, err := hasClsact(h, l)
	w.NoError(err)
	return has
}

// A guard leaves nothing behind, and leaves the qdisc of others.
func TestQdisc(t *testing.T) {
	w := newWorld(t)
	l, err := netlink.LinkByIndex(w.index)
	w.NoError(err)
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	w.NoError(err)
	defer h.Close()
	g := w.guarded(Config{Clsact: true})
	w.True(w.hasQdisc(h, l))
	w.NoError(g.Close())
	w.False(w.hasQdisc(h, l))
	w.NoError(h.QdiscAdd(clsactOf(w.index)))
	g = w.guarded(Config{Clsact: true})
	w.NoError(g.Close())
	w.True(w.hasQdisc(h, l))
	w.NoError(h.QdiscDel(clsactOf(w.index)))
	w.NoError(h.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: w.index, Parent: netlink.HANDLE_INGRESS}}))
	_, err = Open(Config{Index: w.index, Clsact: true})
	var r *link.Refusal
	w.ErrorAs(err, &r)
	w.Equal(ReasonBusy, r.Reason.Code)
	w.ErrorContains(err, "v0")
}

func TestArguments(t *testing.T) {
	for want, c := range map[string]Config{
		"Index is 0, must be":    {},
		"Index is -3, must be":   {Index: -3},
		"Entries is -1, must be": {Index: 1, Entries: -1},
	} {
		_, err := Open(c)
		require.ErrorContains(t, err, want)
	}
	_, err := Open(Config{Index: 1 << 30})
	var r *link.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, ReasonNoDevice, r.Reason.Code)
	g := &Guard{}
	for want, f := range map[string]link.Flow{
		"Protocol 17: only TCP (6) is guarded":    {Protocol: link.UDP, Local: ap("10.0.0.1:1")},
		"Local 10.0.0.1:0: port 0":                {Protocol: link.TCP, Local: ap("10.0.0.1:0")},
		"Local [::1]:5: not an IPv4 address":      {Protocol: link.TCP, Local: ap("[::1]:5")},
		"VLAN 4095: must be":                      {Protocol: link.TCP, Local: ap("10.0.0.1:1"), VLAN: 4095},
		"Remote 10.0.0.2:0: not the address":      {Protocol: link.TCP, Local: ap("10.0.0.1:1"), Remote: ap("10.0.0.2:0")},
		"a connection has an address":             {Protocol: link.TCP, Local: ap("0.0.0.0:1"), Remote: ap("10.0.0.2:1")},
		"Local 239.1.1.1:5: not an IPv4 address ": {Protocol: link.TCP, Local: ap("239.1.1.1:5")},
	} {
		require.ErrorContains(t, g.Claim(f), want)
	}
	require.ErrorContains(t, g.Pass(port4000), "Remote is missing")
	require.ErrorContains(t, g.AcceptAfter(link.Flow{Protocol: link.TCP, Local: ap("10.0.0.1:1"), Remote: ap("10.0.0.2:2")}, 0), "Remote is set")
	require.ErrorContains(t, g.AddAddr(netip.Addr{}, 0), "not one of an IPv4 interface")
}

// Without privileges there is a reason.
func TestNoCapability(t *testing.T) {
	w := newWorld(t)
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread without privileges ends here
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := errors.Join(w.net.Enter(), unix.Capset(&header, &none[0])); err != nil {
			refused <- err
			return
		}
		_, err := Open(Config{Index: w.index})
		refused <- err
	}()
	err := <-refused
	var r *link.Refusal
	w.ErrorAs(err, &r)
	w.Equal(ReasonNoCapability, r.Reason.Code)
	w.ErrorContains(err, "CAP_BPF and CAP_NET_ADMIN")
}

// An entry that is removed is not counted any more, also where the program cannot be told that it was the last of its kind.
func TestRemovedEntryIsNotCounted(t *testing.T) {
	w := newWorld(t)
	g := w.guarded(Config{})
	w.NoError(g.Claim(port4000))
	k, err := keyOf(port4000)
	w.NoError(err)
	kinds := g.kinds
	g.kinds, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1, Flags: unix.BPF_F_RDONLY})
	w.NoError(err)
	defer kinds.Close()
	w.Error(g.Release(port4000))
	w.Zero(g.each[k.kind()])
	w.NoError(g.kinds.Close())
	g.kinds = kinds
	w.NoError(g.Claim(port4000))
	w.Equal(1, g.each[k.kind()])
	w.NoError(g.Release(port4000))
	w.Zero(g.each[k.kind()])
}
