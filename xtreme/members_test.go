package xtreme_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// member is a kernel socket on a port of this host that shares it, and a member of groups on our end of pair 0.
func (w *cabled) member(port uint16, groups ...netip.Addr) *net.UDPConn {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { w.NoError(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)) })
	}}
	p, err := c.ListenPacket(context.Background(), "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), port).String())
	w.NoError(err)
	ifi, err := net.InterfaceByName(w.net.Device(0))
	w.NoError(err)
	for _, g := range groups {
		w.NoError(ipv4.NewPacketConn(p).JoinGroup(ifi, &net.UDPAddr{IP: g.AsSlice()}))
	}
	w.NoError(p.SetReadDeadline(time.Now().Add(patience)))
	w.t.Cleanup(func() { _ = p.Close() })
	return p.(*net.UDPConn)
}

func (w *cabled) heard(c *net.UDPConn, text string) {
	w.t.Helper()
	b := make([]byte, 64)
	n, err := c.Read(b)
	w.NoError(err)
	w.Equal(text, string(b[:n]))
}

func (w *world) changed(s *xtreme.Socket) {
	w.t.Helper()
	w.next("PATH", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventPath) })
}

// A group that another program's socket on this host has joined, on the same port, is given to all by the kernel, and the path says so; when
// it has left the group is taken from the interface again. With VMA the other program receives nothing.
func TestAGroupThatOthersOfThisHostHear(t *testing.T) {
	w := newCabled(t)
	g := netip.AddrPortFrom(group(9), 7300)
	s := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: w.net.Device(0)}}})
	send := func(text string, to netip.AddrPort) {
		c := w.net.Dial(to)
		w.write(c, text)
		w.NoError(c.Close())
	}
	receive := func(text string, os bool) {
		w.t.Helper()
		c := w.next("a packet", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventPacket) })
		w.Equal(text, string(c.Packet.Bytes()))
		w.Equal(os, c.ViaKernel, "by the kernel: %v", s.Path())
		w.NoError(c.Packet.Release())
	}
	send("alone", g)
	receive("alone", false)
	w.Equal("bypass", s.Path().Tier)

	for range 2 {
		other := w.member(7300, group(9))
		w.changed(s)
		w.Equal("kernel", s.Path().Tier, s.Path())
		w.Contains(codes(s.Path()), "mcast.shared")
		for range 5 {
			send("both", g)
			receive("both", true)
			w.heard(other, "both")
		}
		w.NoError(other.Close())
		w.changed(s)
		w.Equal("bypass", s.Path().Tier, s.Path())
		w.NotContains(codes(s.Path()), "mcast.shared")
		send("again", g)
		receive("again", false)
	}

	// Who has joined the group on another port, or is on the port for another group, is none of it.
	for _, other := range []struct {
		port  uint16
		group netip.Addr
	}{{7301, group(9)}, {7300, group(10)}} {
		c := w.member(other.port, other.group)
		w.silent(600 * time.Millisecond) // more than two looks
		send("still", g)
		receive("still", false)
		w.NoError(c.Close())
		w.silent(300 * time.Millisecond)
	}
	w.close(s)
}

// One that must be offloaded keeps the group, and its path says who goes without. The engine's own sockets do not count, on whichever ring; one
// that sleeps is woken.
func TestAGroupThatIsKept(t *testing.T) {
	w := newCabled(t)
	g := netip.AddrPortFrom(group(11), 7302)
	open := func(x *world, c ...xtreme.SocketConfig) *xtreme.Socket {
		return x.udp(g, xtreme.UDPConfig{SocketConfig: append(c, xtreme.SocketConfig{})[0], IPConfig: xtreme.IPConfig{ReuseAddr: true},
			Groups: []xtreme.Group{{Interface: w.net.Device(0)}}})
	}
	must := open(w.world, xtreme.SocketConfig{RequireOffload: true})
	second := w.other(w.newPoller("second"))
	twin, triplet := open(second), open(second)
	time.Sleep(600 * time.Millisecond)
	for _, x := range []*world{w.world, second} {
		x.poll()
		x.Empty(x.list(), "they are not foreign to each other")
	}
	w.NotContains(codes(must.Path()), "mcast.kept")

	other := w.member(7302, group(11))
	w.changed(must)
	w.Contains(codes(must.Path()), "mcast.kept")
	w.Equal("bypass", must.Path().Tier)
	second.changed(twin)
	second.changed(triplet)
	w.Contains(codes(twin.Path()), "mcast.shared")
	c := w.net.Dial(g)
	w.write(c, "kept")
	got := w.next("a packet", func(c *ring.Completion) bool { return c.Socket == must && c.Events.Has(ring.EventPacket) })
	w.False(got.ViaKernel)
	w.NoError(got.Packet.Release())
	w.NoError(other.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
	_, err := other.Read(make([]byte, 8))
	w.Error(err, "it hears nothing")
	w.close(must)

	// The other ring sleeps while the last of them leaves.
	w.NoError(other.Close())
	told := false
	for end := time.Now().Add(patience); !told; {
		w.True(time.Now().Before(end))
		w.NoError(second.poller.WaitFor(patience))
		second.poll()
		for _, c := range second.kept {
			told = told || c.Socket == twin && c.Events.Has(ring.EventPath)
			_ = c.Packet.Release()
		}
		second.kept = nil
	}
	w.NotContains(codes(twin.Path()), "mcast.shared")
	second.close(twin)
	second.close(triplet)
}

// Sockets on the group's port that do not receive it, because they are of IPv6 alone or tied to another interface, take it from nobody,
// though the group has another member on this host.
func TestSocketsThatDoNotHearAGroup(t *testing.T) {
	w := newCabled(t)
	g := netip.AddrPortFrom(group(23), 7323)
	s := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: w.net.Device(0)}}})
	if six, err := net.ListenPacket("udp6", "[::]:7323"); err == nil { // package net sets IPV6_V6ONLY
		defer six.Close()
	}
	w.kernelSocket(7323, "lo", netip.Addr{}, "") // tied before it has a port: no look at the sockets of the host finds it otherwise
	w.member(7399, group(23))                    // on another port
	w.silent(600 * time.Millisecond)
	w.NotContains(codes(s.Path()), "mcast.shared")
	w.close(s)
}

// What was known of foreign members goes with the groups it was about, for the pollers that live on as well: one that takes such a group up when
// the others have long left has it from its interface.
func TestForeignMembersAreForgottenWithTheirGroup(t *testing.T) {
	w := newCabled(t)
	g := netip.AddrPortFrom(group(21), 7321)
	second := w.other(w.newPoller("second"))
	idle := second.udp(w.at(0))
	s := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: w.net.Device(0)}}})
	other := w.member(7321, group(21))
	w.changed(s)
	w.Contains(codes(s.Path()), "mcast.shared")
	second.until("it has heard of it", func() bool {
		second.poll()
		return counter(idle.Ring(), "offload.path_changes") > 0
	})

	w.NoError(w.poller.Close())
	w.NoError(other.Close())
	late := second.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: w.net.Device(0)}}})
	second.until("the group is ours alone", func() bool {
		second.poll()
		return !slices.Contains(codes(late.Path()), "mcast.shared")
	})
	w.Equal("bypass", late.Path().Tier, late.Path())
	second.kept = nil // PATH, perhaps
	second.close(late)
	second.close(idle)
}

// With the last poller nobody looks for members any more.
func TestNobodyLooksForMembersInTheEnd(t *testing.T) {
	w := newCabled(t)
	s := w.udp(netip.AddrPortFrom(group(12), 7303), xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: w.net.Device(0)}}})
	looking := func() bool {
		var b bytes.Buffer
		w.NoError(pprof.Lookup("goroutine").WriteTo(&b, 1))
		return strings.Contains(b.String(), "offload/shadow.repeatOnGoroutine")
	}
	w.until("somebody looks", looking)
	w.close(s)
	w.NoError(w.poller.Close())
	for end := time.Now().Add(patience); looking(); time.Sleep(time.Millisecond) {
		w.True(time.Now().Before(end))
	}
}
