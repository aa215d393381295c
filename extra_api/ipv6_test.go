package extraapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

var (
	here6  = netip.MustParseAddr("fd00:57::1")
	there6 = netip.MustParseAddr("fd00:57::2")
	group6 = netip.MustParseAddr("ff15::db8:57") // transient, site-local (RFC 4291 section 2.7)
)

// give6 gives an interface of the present namespace an address of IPv6 that is good at once.
func give6(t *testing.T, name string, a netip.Addr) int {
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	x, err := netlink.ParseAddr(a.String() + "/64")
	require.NoError(t, err)
	x.Flags = unix.IFA_F_NODAD
	if err := netlink.AddrAdd(l, x); err != nil {
		testnet.Missing(t, "ipv6", err)
	}
	return l.Attrs().Index
}

// A poller of kind offload carries IPv6 by its kernel ring, and says so; all calls are there: datagrams, groups, streams, the callback and the
// zero-copy receive of VMA's Extra API, in turns with an offloaded socket of IPv4, in one Poll. (VMA leaves IPv6 to the kernel, beside its API.)
func TestIPv6BesideAnOffloadedSocket(t *testing.T) {
	n, _, p := cabled(t)
	give6(t, n.Device(0), here6)
	far := 0
	n.InPeer(func() { far = give6(t, "p0", there6) })
	w := &poller{t: t, p: p}

	four, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{})
	require.NoError(t, err)
	require.Equal(t, "bypass", four.Path().Tier)
	six, err := p.OpenUDP(netip.AddrPortFrom(here6, 0), xtreme.UDPConfig{})
	require.NoError(t, err)
	line, err := p.OpenUDP(netip.AddrPortFrom(group6, 5657), xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: n.Device(0)}}})
	require.NoError(t, err)
	pulled, err := p.OpenUDP(netip.AddrPortFrom(here6, 0), xtreme.UDPConfig{SocketConfig: extraapi.RecvCallback(keep, true)})
	require.NoError(t, err)
	listener, err := p.ListenTCP(netip.AddrPortFrom(here6, 0), xtreme.ListenConfig{})
	require.NoError(t, err)
	for _, s := range []*xtreme.Socket{six, line, pulled} {
		require.Equal(t, "kernel", s.Path().Tier)
		require.Contains(t, codes(s), "offload.no_ipv6", s.Path())
	}
	require.Contains(t, codes(listener), "offload.no_tcp")

	to4, to6, toPulled := n.Dial(four.LocalAddr()), dialPeer(t, n, six), dialPeer(t, n, pulled)
	var sender net.PacketConn
	n.InPeer(func() { sender, err = net.ListenPacket("udp6", netip.AddrPortFrom(there6, 0).String()) })
	require.NoError(t, err)
	defer sender.Close()
	ifi := &net.Interface{Index: far}
	require.NoError(t, ipv6.NewPacketConn(sender).SetMulticastInterface(ifi))
	var stream net.Conn
	n.InPeer(func() {
		stream, err = (&net.Dialer{Timeout: patience}).DialContext(context.Background(), "tcp6", listener.LocalAddr().String())
	})
	require.NoError(t, err)
	defer stream.Close()
	child := w.next(func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventNewConnection) }).Socket
	require.Equal(t, stream.LocalAddr().String(), child.RemoteAddr().String())

	for i := range 20 {
		text := fmt.Sprint("number ", i)
		write := func(c io.Writer) {
			_, err := io.WriteString(c, text)
			require.NoError(t, err)
		}
		write(to4)
		c := w.packet(four)
		require.False(t, c.ViaKernel)
		require.Equal(t, text, w.text(&c))
		write(to6)
		c = w.packet(six)
		require.Equal(t, to6.LocalAddr().String(), c.Source.String())
		require.Equal(t, text, w.text(&c))
		_, err = six.SendTo([]byte(text), c.Source)
		require.NoError(t, err)
		require.Equal(t, text, answer(t, to6, len(text)))
		_, err = sender.WriteTo([]byte(text), net.UDPAddrFromAddrPort(line.LocalAddr()))
		require.NoError(t, err)
		c = w.packet(line)
		require.Equal(t, netip.AddrPortFrom(group6, 5657), c.Destination)
		require.Equal(t, text, w.text(&c))
		write(stream)
		c = w.packet(child)
		require.Equal(t, text, w.text(&c))
		_, err = child.Send([]byte(text))
		require.NoError(t, err)
		require.Equal(t, text, answer(t, stream, len(text)))
		write(toPulled)
		done := make([]xtreme.Completion, 4)
		w.until(func() bool { k, _ := pulled.Waiting(); return k > 0 })
		k, sum, err := extraapi.RecvFromZeroCopy(pulled, done, 0, 0)
		require.NoError(t, err)
		require.Equal(t, []int{1, len(text)}, []int{k, sum})
		require.Equal(t, text, string(done[0].Packet.Bytes()))
		_, err = extraapi.FreeCompletions(pulled, done[:k])
		require.NoError(t, err)
		require.NoError(t, extraapi.DummySend(six, []byte("warm"), netip.AddrPortFrom(there6, 9)))
	}
	require.NoError(t, stream.Close())
	w.next(func(c *xtreme.Completion) bool { return c.Socket == child && c.Events.Has(xtreme.EventRdHup) })
}

func dialPeer(t *testing.T, n *testnet.Net, s *xtreme.Socket) (c *net.UDPConn) {
	n.InPeer(func() {
		var err error
		c, err = net.DialUDP("udp6", nil, net.UDPAddrFromAddrPort(s.LocalAddr()))
		require.NoError(t, err)
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func answer(t *testing.T, c net.Conn, n int) string {
	b := make([]byte, n)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return string(b)
}

// poller polls a poller and keeps what nobody has asked for yet.
type poller struct {
	t    *testing.T
	p    *xtreme.Poller
	kept []xtreme.Completion
}

func (w *poller) poll() {
	var dst [16]xtreme.Completion
	n, err := w.p.Poll(dst[:])
	require.NoError(w.t, err)
	if w.kept = append(w.kept, dst[:n]...); n == 0 {
		time.Sleep(10 * time.Microsecond)
	}
}

func (w *poller) next(match func(*xtreme.Completion) bool) (found xtreme.Completion) {
	w.t.Helper()
	w.until(func() bool {
		for i := range w.kept {
			if match(&w.kept[i]) {
				found = w.kept[i]
				w.kept = append(w.kept[:i:i], w.kept[i+1:]...)
				return true
			}
		}
		return false
	})
	return found
}

func (w *poller) until(holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); w.poll() {
		require.True(w.t, time.Now().Before(end), "%d completions nobody asked for", len(w.kept))
	}
}

func (w *poller) packet(s *xtreme.Socket) xtreme.Completion {
	w.t.Helper()
	return w.next(func(c *xtreme.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventPacket) })
}

func (w *poller) text(c *xtreme.Completion) string {
	b := string(c.Packet.Bytes())
	require.NoError(w.t, c.Packet.Release())
	return b
}
