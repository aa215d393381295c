package offload_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
)

// The group of the test, its members' interface, and the environment variable that makes this binary the other process.
const (
	sameHostGroup = "233.252.0.5:7100"
	sameHostChild = "OFFLOAD_TEST_SAME_HOST"
)

// receiver is a socket that may receive what is sent on its host.
type receiver struct {
	name string
	to   netip.AddrPort                  // unicast
	next func(*testing.T) (heard string) // what the unicast socket has next: "text os" or "text link"
	also func(*testing.T) (heard string) // and what the member of the group has next
}

// Which socket of a host receives from which: ours in one ring, in another ring of the process, in another process, and the kernel's
// sockets; unicast and multicast, IP_MULTICAST_LOOP on and off. Nothing of it may arrive as a frame: the kernel does not show an interface
// what its host sends to itself.
func TestSameHost(t *testing.T) {
	if os.Getenv(sameHostChild) != "" {
		sameHostOther(t)
		return
	}
	sameHost(t, faultConfig{device: "v0"})
}

func sameHost(t *testing.T, c faultConfig) {
	n := testnet.New(t, testnet.Pair{}, testnet.Pair{}, testnet.Pair{})
	a := newFaulty(t, c)
	c.device = "v1"
	b := newFaulty(t, c)
	group := netip.MustParseAddrPort(sameHostGroup)
	other := startChild(t, "TestSameHost", sameHostChild+"=1")
	kernel, kernelGroup := sameHostKernel(t, "10.0.0.1:7005"), sameHostMember(t)
	peer := n.Listen(group) // on the wire; a member by its own option
	n.InPeer(func() { joinKernel(t, peer, "p0") })

	ours := func(name string, f *faulty, at string) receiver {
		uni, member := f.bind(at, ring.Config{}), f.member("v0")
		text := func(s *ring.Socket) func(*testing.T) string {
			return func(*testing.T) string {
				text, os := f.next(s)
				return text + map[bool]string{true: " os", false: " link"}[os]
			}
		}
		return receiver{name, uni.LocalAddr(), text(uni), text(member)}
	}
	plain := func(c *net.UDPConn) func(*testing.T) string {
		return func(t *testing.T) string { return reads(t, c) + " os" }
	}
	receivers := []receiver{
		ours("the same ring", a, "10.0.0.1:7001"),
		ours("another ring", b, "10.0.1.1:7001"),
		{"another process", netip.MustParseAddrPort("10.0.2.1:7001"), other.next("uni"), other.next("group")},
		{"the kernel's sockets", addrOf(kernel), plain(kernel), plain(kernelGroup)},
	}

	own := a.bind("10.0.0.1:7000", ring.Config{})
	theirs := sameHostKernel(t, "10.0.0.1:7006")
	for _, sender := range []struct {
		name string
		send func(to netip.AddrPort, text string)
		loop func(on bool)
	}{
		{"ours", func(to netip.AddrPort, text string) { require.NoError(t, a.send(own, to, text)) },
			func(on bool) { require.NoError(t, own.SetMulticastLoop(on)) }},
		{"the kernel's", func(to netip.AddrPort, text string) {
			_, err := theirs.WriteToUDPAddrPort([]byte(text), to)
			require.NoError(t, err)
		}, func(on bool) { kernelOption(t, theirs, unix.IP_MULTICAST_LOOP, on) }},
	} {
		for _, r := range receivers {
			sender.send(r.to, "unicast")
			require.Equal(t, "unicast os", r.next(t), "%s to %s", sender.name, r.name)
		}
		// Each has every looped one and nothing between them: what was sent without IP_MULTICAST_LOOP, no member of this host receives.
		for _, text := range []string{"loop 1", "quiet 1", "loop 2", "quiet 2", "loop 3"} {
			sender.loop(strings.HasPrefix(text, "loop"))
			sender.send(group, text)
			require.Equal(t, text, reads(t, peer), "%s: it is on the wire in any case, and once", sender.name)
		}
		for _, r := range receivers {
			for _, want := range []string{"loop 1 os", "loop 2 os", "loop 3 os"} {
				require.Equal(t, want, r.also(t), "%s to members: %s", sender.name, r.name)
			}
		}
	}
	// Nobody has anything twice: a mark is the next datagram of each.
	require.NoError(t, own.SetMulticastLoop(true))
	require.NoError(t, a.send(own, group, "mark"))
	require.Equal(t, "mark", reads(t, peer))
	for _, r := range receivers {
		require.Equal(t, "mark os", r.also(t), r.name)
		require.NoError(t, a.send(own, r.to, "mark"))
		require.Equal(t, "mark os", r.next(t), r.name)
	}
	for _, f := range []*faulty{a, b} {
		for _, c := range f.dev.Counters(nil) {
			if c.Name == "steer.hit" {
				require.Zero(t, c.Value, "no frame of it came to the device")
			}
		}
		require.NotZero(t, f.counter("offload.os_packets"))
		require.Empty(t, f.errs)
	}
	other.end(t)
}

// member makes a member of the group on an interface, which need not be one of the ring's.
func (f *faulty) member(device string) *ring.Socket {
	f.t.Helper()
	group := netip.MustParseAddrPort(sameHostGroup)
	return f.bind(group.String(), ring.Config{}, func(s *ring.Socket) error { return s.SetReuseAddr(true) },
		func(s *ring.Socket) error { return s.JoinGroup(group.Addr(), device, netip.Addr{}) })
}

// sameHostKernel is a kernel's socket on the side of the test.
func sameHostKernel(t *testing.T, at string) *net.UDPConn {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// sameHostMember is one that is a member of the group on v0.
func sameHostMember(t *testing.T) *net.UDPConn {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }); e != nil {
			return e
		}
		return err
	}}
	p, err := c.ListenPacket(t.Context(), "udp4", sameHostGroup)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	joinKernel(t, p.(*net.UDPConn), "v0")
	return p.(*net.UDPConn)
}

func joinKernel(t *testing.T, c *net.UDPConn, device string) {
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	m := &unix.IPMreqn{Multiaddr: netip.MustParseAddrPort(sameHostGroup).Addr().As4(), Ifindex: int32(linkOf(t, device).Attrs().Index)}
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, m))
	}))
}

func kernelOption(t *testing.T, c *net.UDPConn, option int, on bool) {
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	value := 0
	if on {
		value = 1
	}
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, option, value))
	}))
}

// sameHostOther is the other process: a ring on v2 with a socket and a member, which writes a line for each datagram.
func sameHostOther(t *testing.T) {
	f := newFaulty(t, faultConfig{device: "v2"})
	sockets := map[*ring.Socket]string{f.bind("10.0.2.1:7001", ring.Config{}): "uni", f.member("v0"): "group"}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent closes it, or is gone
	}()
	fmt.Println("ready")
	for {
		select {
		case <-ended:
			return
		default:
		}
		f.poll()
		for s, name := range sockets {
			for c, ok := f.take(s); ok; c, ok = f.take(s) {
				fmt.Printf("%s %s %s\n", name, c.Packet.Bytes(), map[bool]string{true: "os", false: "link"}[c.ViaKernel])
				f.NoError(c.Packet.Release())
			}
		}
		f.NoError(f.ring.Wait(10 * time.Millisecond))
	}
}

// process is a child of the test.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	kept  []string
}

// startChild runs a test of this binary again, in the thread's network namespace, and waits until it is ready.
func startChild(t *testing.T, test, variable string) *process {
	p := &process{cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v=false"), lines: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), variable)
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	require.Equal(t, "ready", p.line(t))
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	select {
	case l, ok := <-p.lines:
		require.True(t, ok, "the other process has ended")
		return l
	case <-time.After(patience):
		require.FailNow(t, "the other process is silent")
		return ""
	}
}

// next is what a socket of the other process had next.
func (p *process) next(socket string) func(*testing.T) string {
	return func(t *testing.T) string {
		for i, l := range p.kept {
			if text, ok := strings.CutPrefix(l, socket+" "); ok {
				p.kept = append(p.kept[:i], p.kept[i+1:]...)
				return text
			}
		}
		for {
			l := p.line(t)
			if text, ok := strings.CutPrefix(l, socket+" "); ok {
				return text
			}
			p.kept = append(p.kept, l)
		}
	}
}

// end lets the process close its ring and wants it to have found nothing wrong.
func (p *process) end(t *testing.T) {
	require.NoError(t, p.in.Close())
	for range p.lines { // what the test binary says at its end
	}
	require.NoError(t, p.cmd.Wait())
	require.Empty(t, p.kept)
}

// On links without a kernel what a host sends to itself stays in its stack: it is never on the wire unless it is for a group, and is not
// marked OS.
func TestSameHostWithoutAKernel(t *testing.T) {
	e := newEnds(t, memory.Config{})
	from, to := e.udp(0, ring.Config{}), e.udp(0, ring.Config{})
	group := netip.MustParseAddrPort(sameHostGroup)
	member, err := e.sets[0].NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, member.Bind(group))
	require.NoError(t, member.JoinGroup(group.Addr(), "mem0", netip.Addr{}))
	e.poll(0)
	e.poll(1)
	frames := counter(from.Ring(), "mem0.tx_frames")
	for _, c := range []struct {
		to    netip.AddrPort
		loop  bool
		heard *ring.Socket
		wire  uint64
	}{{to.LocalAddr(), true, to, 0}, {to.LocalAddr(), false, to, 0}, {group, true, member, 1}, {group, false, nil, 1}} {
		require.NoError(t, from.SetMulticastLoop(c.loop))
		looped := counter(from.Ring(), "stack.looped")
		_, err := from.SendTo([]byte("x"), c.to)
		require.NoError(t, err)
		got := append(append([]ring.Completion(nil), e.poll(0)...), e.poll(0)...)
		if c.heard == nil {
			require.Empty(t, got)
		} else {
			require.Len(t, got, 1)
			require.Same(t, c.heard, got[0].Socket)
			require.False(t, got[0].ViaKernel)
			require.Equal(t, from.LocalAddr(), got[0].Source)
			require.NoError(t, got[0].Packet.Release())
			looped++
		}
		require.Equal(t, looped, counter(from.Ring(), "stack.looped"))
		frames += c.wire
		require.Equal(t, frames, counter(from.Ring(), "mem0.tx_frames"))
	}
}
