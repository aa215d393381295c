package xtreme_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// ownTCP asks for TCP by our own stack.
func ownTCP(s *conf.Settings) { s.Offload.TCP = true }

// newTCPCabled is newCabled with SX_OFFLOAD_TCP=1.
func newTCPCabled(t *testing.T, change func(*conf.Settings), pairs ...testnet.Pair) *cabled {
	w := newCabled(t, pairs...)
	w.engine = w.newEngine(ownTCP, change)
	w.poller = w.newPoller("own TCP")
	return w
}

func unchanged(*conf.Settings) {}

// beside runs f on another goroutine and polls until it returns.
func (w *world) beside(f func() error) {
	w.t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	var err error
	w.until("the peer is done", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	w.NoError(err)
}

// dialFromPeer connects a socket of the peer's kernel to an address.
func (w *cabled) dialFromPeer(x *world, to netip.AddrPort) *net.TCPConn {
	w.t.Helper()
	var peer net.Conn
	x.beside(func() (err error) {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err = w.net.EnterPeer(); err == nil {
			peer, err = net.DialTimeout("tcp4", to.String(), patience)
		}
		return err
	})
	w.NoError(peer.SetDeadline(time.Now().Add(3 * patience)))
	w.t.Cleanup(func() { _ = peer.Close() })
	return peer.(*net.TCPConn)
}

// tryFromPeer connects a socket of the peer's kernel to an address, and returns the error.
func (w *cabled) tryFromPeer(x *world, to netip.AddrPort) (refused error) {
	w.t.Helper()
	x.beside(func() error {
		runtime.LockOSThread()
		if err := w.net.EnterPeer(); err != nil {
			return err
		}
		var c net.Conn
		if c, refused = net.DialTimeout("tcp4", to.String(), patience); refused == nil {
			return c.Close()
		}
		return nil
	})
	return refused
}

// listenInPeer makes a listener of the peer's kernel.
func (w *cabled) listenInPeer() *net.TCPListener {
	w.t.Helper()
	var l net.Listener
	var err error
	w.net.InPeer(func() { l, err = net.Listen("tcp4", netip.AddrPortFrom(w.net.Peer(0), 0).String()) })
	w.NoError(err)
	w.t.Cleanup(func() { _ = l.Close() })
	w.NoError(l.(*net.TCPListener).SetDeadline(time.Now().Add(3 * patience)))
	return l.(*net.TCPListener)
}

// listenTCP makes a listener of our own stack.
func (w *cabled) listenTCP(x *world, at netip.AddrPort) *xtreme.Socket {
	w.t.Helper()
	l, err := x.poller.ListenTCP(at, xtreme.ListenConfig{})
	w.NoError(err)
	w.Equal("bypass", l.Path().Tier, l.Path().Explain())
	w.Empty(l.Path().Lost)
	return l
}

// echo lets c answer n messages of the peer.
func (w *world) echo(c *xtreme.Socket, peer net.Conn, n int) {
	w.t.Helper()
	for i := range n {
		text := fmt.Sprintf("message %d", i)
		w.write(peer, text)
		got := w.text(c)
		w.Equal(text, got)
		_, err := c.Send([]byte(got))
		w.NoError(err)
		b := make([]byte, len(text))
		w.beside(func() error { _, err := io.ReadFull(peer, b); return err })
		w.Equal(text, string(b))
	}
}

// kernelConnections counts the TCP connections that this thread's kernel has.
func (w *world) kernelConnections() int {
	w.t.Helper()
	list, err := netlink.SocketDiagTCP(2)
	w.NoError(err)
	n := 0
	for _, s := range list {
		if s.State == netlink.TCP_ESTABLISHED {
			n++
		}
	}
	return n
}

// With the setting a listener and its connections are carried by our own stack: the kernel of this host has none of them.
func TestOffloadedTCPListener(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l := w.listenTCP(w.world, w.at(0))
	w.Equal("offload", l.Path().Kind)
	w.Contains(l.Path().Explain(), "xdp v0/0 (generic, copy")
	for range 3 {
		peer := w.dialFromPeer(w.world, l.LocalAddr())
		c := w.accept(l)
		w.Equal("bypass", c.Path().Tier, c.Path().Explain())
		w.Equal(peer.LocalAddr().String(), c.RemoteAddr().String())
		w.Equal(l.LocalAddr(), c.LocalAddr())
		w.echo(c, peer, 20)
		w.Zero(w.kernelConnections())
		w.NoError(peer.CloseWrite())
		w.event(c, xtreme.EventIn|xtreme.EventRdHup)
		w.close(c)
		w.beside(func() error {
			n, err := peer.Read(make([]byte, 1))
			if n != 0 || err != io.EOF {
				return fmt.Errorf("read %d, %w", n, err)
			}
			return nil
		})
	}
	w.NotZero(counter(l.Ring(), "tcp.partial_sums"))
	w.Zero(counter(l.Ring(), "tcp.sum"))
	w.close(l)
}

// So is a connection to a server of another host: the kernel has a socket that reserves the port, and no connection.
func TestOffloadedTCPDial(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l := w.listenInPeer()
	for name, c := range map[string]xtreme.DialConfig{
		"": {}, "bound": {Local: w.at(0)}, "device": {SocketConfig: xtreme.SocketConfig{RequireOffload: true}, IPConfig: xtreme.IPConfig{BindToDevice: "v0"}},
	} {
		s, err := w.poller.DialTCP(addr(l.Addr()), c)
		w.NoError(err, name)
		w.Equal("bypass", s.Path().Tier, s.Path().Explain())
		w.event(s, xtreme.EventOut)
		var peer net.Conn
		w.beside(func() (err error) { peer, err = l.Accept(); return err })
		w.NoError(peer.SetDeadline(time.Now().Add(3 * patience)))
		w.Equal(s.LocalAddr().String(), peer.RemoteAddr().String())
		w.Zero(w.kernelConnections())
		w.echo(s, peer, 20)
		w.NoError(peer.Close())
		w.event(s, xtreme.EventIn|xtreme.EventRdHup)
		w.close(s)
	}
	// A port without a listener refuses.
	at := addr(l.Addr())
	w.NoError(l.Close())
	s, err := w.poller.DialTCP(at, xtreme.DialConfig{})
	w.NoError(err)
	w.ErrorIs(w.event(s, xtreme.EventIn|xtreme.EventErr|xtreme.EventHup).Err, unix.ECONNREFUSED)
	w.close(s)
}

// An IPv4 address in its IPv6 form, as net.TCPAddr.AddrPort gives it, is the IPv4 address.
func TestOffloadedConnectTo4In6(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	to := addr(w.listenInPeer().Addr())
	mapped := netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	s, err := w.poller.DialTCP(mapped, xtreme.DialConfig{})
	w.NoError(err)
	w.Equal("bypass", s.Path().Tier, s.Path().Explain())
	w.Equal(to, s.RemoteAddr())
	w.event(s, xtreme.EventOut)
	w.close(s)
	u, err := w.poller.OpenUDP(netip.AddrPort{}, xtreme.UDPConfig{Remote: mapped})
	w.NoError(err)
	w.Equal("bypass", u.Path().Tier, u.Path().Explain())
	w.Equal(to, u.RemoteAddr())
	w.close(u)
}

// Large transfers in both directions at once: the kernel sends frames of up to 64 KiB (TSO).
func TestOffloadedTCPBulk(t *testing.T) {
	const size = 8 << 20
	w := newTCPCabled(t, unchanged)
	l := w.listenTCP(w.world, w.at(0))
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	c := w.accept(l)
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	sent, received := 0, sha256.New()
	got, longest, back := 0, 0, make(chan [32]byte, 1)
	failed := make(chan error, 2)
	go func() {
		_, err := peer.Write(data)
		failed <- err
	}()
	go func() {
		h := sha256.New()
		_, err := io.CopyN(h, peer, size)
		failed <- err
		back <- [32]byte(h.Sum(nil))
	}()
	w.until("all is there", func() bool {
		for sent < size {
			n, err := c.Send(data[sent:])
			if n == 0 {
				w.ErrorIs(err, xtreme.ErrWouldBlock)
				break
			}
			sent += n
		}
		for i := range w.kept {
			x := &w.kept[i]
			w.NoError(x.Err)
			if x.Events.Has(xtreme.EventPacket) {
				longest = max(longest, x.Packet.Len())
				for b := range x.Packet.Segments() {
					received.Write(b)
					got += len(b)
				}
				w.NoError(x.Packet.Release())
			}
		}
		w.kept = w.kept[:0]
		return sent == size && got == size && len(back) == 1
	})
	w.NoError(<-failed)
	w.NoError(<-failed)
	w.Equal(sha256.Sum256(data), <-back)
	w.Equal(sha256.Sum256(data), [32]byte(received.Sum(nil)))
	if !has(l.Path(), "xdp.no_jumbo") {
		w.Greater(longest, 4*1460, "no frame was of several segments")
	}
	w.Zero(w.kernelConnections())
	w.close(c)
}

// What our own TCP does not carry the kernel does, and the path says why.
func TestWhyTCPIsNotOffloaded(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	w.NoError(w.engine.AddRule("use os tcp_server *:7070", true))
	listen := func(a netip.AddrPort, c xtreme.ListenConfig) *xtreme.Socket {
		s, err := w.poller.ListenTCP(a, c)
		w.NoError(err)
		return s
	}
	local0, err := w.poller.ListenUnix("@"+t.Name(), xtreme.UnixListenConfig{})
	w.NoError(err)
	own := w.listenTCP(w.world, w.at(0))
	local, err := w.poller.DialTCP(listen(w.at(0), xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{KernelOnly: true}}).LocalAddr(),
		xtreme.DialConfig{})
	w.NoError(err)
	w.event(local, xtreme.EventOut)
	for code, s := range map[string]*xtreme.Socket{
		"link.loopback":    listen(loopback, xtreme.ListenConfig{}),
		"offload.no_ipv6":  listen(loopback6, xtreme.ListenConfig{}),
		"offload.declined": listen(w.at(0), xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{KernelOnly: true}}),
		"rule.os":          listen(netip.AddrPortFrom(w.net.Local(0), 7070), xtreme.ListenConfig{}),
		"offload.no_unix":  local0,
		"tcp.same_host":    local,
	} {
		w.Equal("kernel", s.Path().Tier, code)
		w.Equal(code, codes(s.Path())[0], "%v", s.Path())
		w.Equal(code, s.Path().Lost)
	}
	// The first poller has the interface's only queue, until it is closed.
	x := w.other(w.newPoller("second"))
	second, err := x.poller.ListenTCP(w.at(0), xtreme.ListenConfig{})
	w.NoError(err)
	w.Equal("ring.no_queue", codes(second.Path())[0])
	_, err = x.poller.ListenTCP(w.at(0), xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	w.ErrorContains(err, "[ring.no_queue]")
	peer := w.dialFromPeer(x, second.LocalAddr())
	x.echo(x.accept(second), peer, 3)
	for _, s := range []*xtreme.Socket{own, local} {
		w.close(s)
	}
	for i := range w.kept {
		_ = w.kept[i].Packet.Release()
	}
	w.kept = nil
	w.NoError(w.poller.Close())
	var third *xtreme.Socket
	x.until("the second poller has taken over the queue", func() bool {
		var err error
		third, err = x.poller.ListenTCP(w.at(0), xtreme.ListenConfig{})
		w.NoError(err)
		if third.Path().Tier == "bypass" {
			return true
		}
		x.close(third)
		return false
	})
	peer = w.dialFromPeer(x, third.LocalAddr())
	x.echo(x.accept(third), peer, 3)
}

// Of listeners that share a port (ReusePort) the one of our own TCP has every client of its interfaces: the kernel, which would spread them,
// sees none of them. A ring takes one such listener on an address.
func TestListenersThatShareAPortBesideOwnTCP(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	share := xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}}
	l, err := w.poller.ListenTCP(w.at(0), share)
	w.NoError(err)
	w.Equal("bypass", l.Path().Tier, l.Path().Explain())
	_, err = w.poller.ListenTCP(l.LocalAddr(), share)
	w.ErrorIs(err, unix.EADDRINUSE)
	second := w.other(w.newPoller("second"))
	other, err := second.poller.ListenTCP(l.LocalAddr(), share)
	w.NoError(err)
	w.Equal("ring.no_queue", codes(other.Path())[0])
	w.beforePoll = func() { second.poll() }
	for range 16 {
		peer := w.dialFromPeer(w.world, l.LocalAddr())
		c := w.accept(l)
		w.Equal("bypass", c.Path().Tier, c.Path().Explain())
		w.echo(c, peer, 1)
	}
	w.Empty(second.list())
	w.beforePoll = nil
}

// Rules are asked for the address that a connection will have, before it has one.
func TestRulesOfOffloadedTCPClients(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	w.NoError(w.engine.AddRule("use os tcp_client 10.0.0.2/32:*:10.0.0.1/32:*", true))
	l := w.listenInPeer()
	for _, c := range []struct {
		local netip.AddrPort
		tier  string
	}{{netip.AddrPort{}, "kernel"}, {w.at(0), "kernel"}, {netip.AddrPortFrom(w.net.Other(0), 0), "bypass"}} {
		s, err := w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{Local: c.local})
		w.NoError(err)
		w.Equal(c.tier, s.Path().Tier, s.Path().Explain())
		w.event(s, xtreme.EventOut)
		w.close(s)
	}
}

// A segment that comes in on the queue of another ring is handed over: on a veth in generic mode all come in on queue 0.
func TestOffloadedTCPOverAnotherRingsQueue(t *testing.T) {
	w := newTCPCabled(t, unchanged, testnet.Pair{Queues: 2})
	queue := func(n int) xtreme.PollerConfig {
		return xtreme.PollerConfig{Interfaces: []conf.Interface{{Name: "v0", Queues: []int{n}}}}
	}
	first := w.other(w.newPoller("queue 0", queue(0)))
	first.udp(w.at(0))
	p := w.newPoller("queue 1", queue(1))
	w.poller = p
	both := func() { // one goroutine may poll both: each poller is its
		_, err := first.poller.Poll(make([]xtreme.Completion, 8))
		w.NoError(err)
	}
	l := w.listenTCP(w.world, w.at(0))
	w.beforePoll = both
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	c := w.accept(l)
	w.echo(c, peer, 50)
	given := counter(first.poller.Rings()[1], "handover.given")
	w.GreaterOrEqual(given, uint64(50))
	w.Equal(given, counter(l.Ring(), "handover.taken"))
	data := strings.Repeat("0123456789abcdef", 64<<10)
	written := make(chan error, 1)
	go func() { _, err := io.WriteString(peer, data[:512<<10]); written <- err }()
	for got := 0; got < 512<<10; { // meanwhile: the window opens with what is released
		got += len(w.text(c))
	}
	w.NoError(<-written)
	w.Zero(w.kernelConnections())
	w.close(c)
}

// A ring without a queue of the interface cannot answer there: the kernel carries its TCP, and the path says so.
func TestNoTCPWithoutAQueue(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	w.udp(w.at(0)) // takes the only queue
	x := w.other(w.newPoller("without a queue"))
	l, err := x.poller.ListenTCP(w.at(0), xtreme.ListenConfig{})
	w.NoError(err)
	w.Equal("kernel", l.Path().Tier)
	w.Equal("ring.no_queue", codes(l.Path())[0], l.Path().Explain())
	peer := w.dialFromPeer(x, l.LocalAddr())
	x.echo(x.accept(l), peer, 3)
}

// A listener on all addresses of both families is ours for IPv4 and the kernel's for IPv6.
func TestDualStackListenerOfOwnTCP(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l := w.listenTCP(w.world, netip.AddrPortFrom(netip.IPv6Unspecified(), 0))
	four := w.dialFromPeer(w.world, netip.AddrPortFrom(w.net.Local(0), l.LocalAddr().Port()))
	c := w.accept(l)
	w.Equal("bypass", c.Path().Tier, c.Path().Explain())
	w.echo(c, four, 5)
	w.Zero(w.kernelConnections())
	six := w.dial(netip.AddrPortFrom(netip.IPv6Loopback(), l.LocalAddr().Port()))
	k := w.accept(l)
	w.Equal("kernel", k.Path().Tier, k.Path().Explain())
	w.echo(k, six, 5)
	only, err := w.poller.ListenTCP(netip.AddrPortFrom(netip.IPv6Unspecified(), 0), xtreme.ListenConfig{IPConfig: xtreme.IPConfig{V6Only: true}})
	w.NoError(err)
	w.Equal("offload.no_ipv6", codes(only.Path())[0])
	for _, s := range []*xtreme.Socket{c, k, only, l} {
		w.close(s)
	}
}

// An interface that is opened after a wildcard listener has its flow claimed too.
func TestTCPListenerOnALaterInterface(t *testing.T) {
	w := newTCPCabled(t, unchanged, testnet.Pair{}, testnet.Pair{})
	v1, err := netlink.LinkByName("v1")
	w.NoError(err)
	w.NoError(netlink.LinkSetDown(v1))
	l := w.listenTCP(w.world, netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	w.False(program(t, "v1"))
	w.NoError(netlink.LinkSetUp(v1))
	w.until("v1 is open", func() bool {
		s, err := w.poller.OpenUDP(w.at(1), xtreme.UDPConfig{})
		w.NoError(err)
		return s.Path().Tier == "bypass"
	})
	peer := w.dialFromPeer(w.world, netip.AddrPortFrom(w.net.Local(1), l.LocalAddr().Port()))
	c := w.accept(l)
	w.echo(c, peer, 10)
	w.Zero(w.kernelConnections())
	w.Contains(c.Path().Explain(), "xdp v1/0")
}

// A connection whose interface goes down and comes back goes on, and is told both.
func TestOffloadedTCPOutlivesItsInterface(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l := w.listenTCP(w.world, w.at(0))
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	c := w.accept(l)
	w.echo(c, peer, 3)
	v0, err := netlink.LinkByName("v0")
	w.NoError(err)
	w.NoError(netlink.LinkSetDown(v0))
	w.event(c, xtreme.EventPath)
	w.Equal("link.down", c.Path().Lost, c.Path().Explain())
	w.Contains(c.Path().String(), "(lost: link.down)")
	_, err = c.Send([]byte("while it is down"))
	w.NoError(err)
	w.NoError(netlink.LinkSetUp(v0))
	w.until("it is back", func() bool { return c.Path().Lost == "" })
	w.event(c, xtreme.EventPath)
	b := make([]byte, len("while it is down"))
	w.beside(func() error { _, err := io.ReadFull(peer, b); return err })
	w.Equal("while it is down", string(b))
	w.echo(c, peer, 3)
	second := w.dialFromPeer(w.world, l.LocalAddr())
	w.echo(w.next("a second connection", func(x *xtreme.Completion) bool { return x.Events.Has(xtreme.EventNewConnection) }).Socket, second, 3)
	w.Zero(w.kernelConnections())
}

// Segments longer than a small buffer, of more connections than there are large buffers, arrive when the application holds what it received:
// none is lost, and the bytes come in order.
func TestLongSegmentsWithoutLargeBuffers(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	w.poller = w.newPoller("few large buffers", xtreme.PollerConfig{LargeBuffers: 8})
	l := w.listenTCP(w.world, w.at(0))
	// Two whole segments: what a peer's kernel sends behind a frame that lies in a large buffer waits until that is released, because the
	// socket's budget is spent.
	const connections, length = 40, 2 * 1448
	peers := map[netip.AddrPort]*net.TCPConn{}
	for range connections {
		peer := w.dialFromPeer(w.world, l.LocalAddr())
		peers[w.accept(l).RemoteAddr()] = peer
	}
	r := l.Ring()
	gathered := counter(r, "stack.gathered")
	for _, peer := range peers {
		_, err := peer.Write(patternOf(peer, length)) // one frame: the peer's kernel leaves its division to the interface
		w.NoError(err)
	}
	got := map[netip.AddrPort][]byte{}
	var held []xtreme.Completion
	w.until("all has come", func() bool {
		all := 0
		for _, c := range w.kept {
			w.True(c.Events.Has(xtreme.EventPacket))
			w.Equal(1, c.Packet.NumBuffers())
			from := c.Socket.RemoteAddr()
			got[from] = append(got[from], c.Packet.Bytes()...)
			held = append(held, c)
		}
		w.kept = w.kept[:0]
		for _, b := range got {
			all += len(b)
		}
		return all == connections*length
	})
	for from, peer := range peers {
		w.Equal(patternOf(peer, length), got[from])
	}
	w.Positive(counter(r, "stack.gathered")-gathered, "no frame had several buffers")
	w.Zero(counter(r, "stack.no_buffer"))
	for i := range held {
		w.NoError(held[i].Packet.Release())
	}
}

// patternOf is what a connection sends.
func patternOf(c net.Conn, length int) []byte {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(i) + byte(i>>8) + byte(addr(c.LocalAddr()).Port())
	}
	return b
}
