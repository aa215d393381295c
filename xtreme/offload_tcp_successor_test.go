package xtreme_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// successor is a listener of the kernel that shares a port, as the next process of a rolling restart has it. It answers each message with its
// own name in front.
func (w *cabled) successor(at netip.AddrPort) *net.TCPListener {
	w.t.Helper()
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, e)
	}}
	l, err := c.Listen(context.Background(), "tcp4", at.String())
	w.NoError(err)
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			go func() {
				defer func() { _ = c.Close() }()
				b := make([]byte, 64)
				n, err := c.Read(b)
				if err == nil {
					_, _ = fmt.Fprintf(c, "successor %s", b[:n]) // the client looks at what comes
				}
			}()
		}
	}()
	return l.(*net.TCPListener)
}

// served dials from the peer's kernel n times, and checks that the successor has answered each.
func (w *cabled) served(x *world, at netip.AddrPort, n int) {
	w.t.Helper()
	for range n {
		c := w.dialFromPeer(x, at)
		w.write(c, "who")
		var b []byte
		x.beside(func() (err error) { b, err = io.ReadAll(c); return err })
		w.Equal("successor who", string(b))
		w.NoError(c.Close())
	}
}

// lateSegment has the peer's host send a segment of a connection of which its kernel knows nothing any more.
func (w *cabled) lateSegment(local, remote netip.AddrPort) {
	w.t.Helper()
	h := layers.TCP{SrcPort: layers.TCPPort(local.Port()), DstPort: layers.TCPPort(remote.Port()), Seq: 1, ACK: true, FIN: true, Window: 1024}
	below := layers.IPv4{SrcIP: local.Addr().AsSlice(), DstIP: remote.Addr().AsSlice(), Protocol: layers.IPProtocolTCP}
	w.NoError(h.SetNetworkLayerForChecksum(&below))
	b := gopacket.NewSerializeBuffer()
	w.NoError(h.SerializeTo(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}))
	w.net.InPeer(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		w.NoError(err)
		w.NoError(errors.Join(unix.Sendto(fd, b.Bytes(), 0, &unix.SockaddrInet4{Addr: remote.Addr().As4()}), unix.Close(fd)))
	})
}

// A listener of our own TCP is closed while the kernel has another one on the port (SO_REUSEPORT), as in a rolling restart: its connections go
// on, and what connects from then on reaches the other one.
func TestClosedListenerLeavesItsPort(t *testing.T) {
	for name, any := range map[string]bool{"on an address": false, "on all addresses": true} {
		t.Run(name, func(t *testing.T) {
			w := newTCPCabled(t, unchanged)
			at := w.at(0)
			if any {
				at = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
			}
			l, err := w.poller.ListenTCP(at, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}})
			w.NoError(err)
			w.Equal("bypass", l.Path().Tier, l.Path().Explain())
			to := netip.AddrPortFrom(w.net.Local(0), l.LocalAddr().Port())
			w.successor(l.LocalAddr())
			idle, busy, ended := w.dialFromPeer(w.world, to), w.dialFromPeer(w.world, to), w.dialFromPeer(w.world, to)
			var children []*xtreme.Socket
			for range 3 {
				children = append(children, w.accept(l))
			}
			of := func(peer *net.TCPConn) *xtreme.Socket {
				for _, c := range children {
					if c.RemoteAddr() == addr(peer.LocalAddr()) {
						return c
					}
				}
				w.FailNow("no child of the peer")
				return nil
			}
			for _, peer := range []*net.TCPConn{idle, busy, ended} {
				w.echo(of(peer), peer, 2)
			}
			last := of(ended)
			w.NoError(last.CloseWrite())
			w.beside(func() error { _, err := io.ReadAll(ended); return errors.Join(err, ended.Close()) })
			w.event(last, xtreme.EventIn|xtreme.EventRdHup)
			w.close(last)
			w.until("TIME-WAIT", func() bool { return counter(l.Ring(), "tcp.time_wait") == 1 })

			// The peer sends without a pause while the listener is closed.
			data := strings.Repeat("0123456789abcdef", 16<<10)
			sent := make(chan error, 1)
			go func() { _, err := io.WriteString(busy, data); sent <- err }()
			got := w.text(of(busy))
			w.close(l)
			for len(got) < len(data) {
				got += w.text(of(busy))
			}
			w.Equal(data, got)
			w.NoError(<-sent)
			w.served(w.world, to, 8)
			for _, peer := range []*net.TCPConn{idle, busy} {
				w.echo(of(peer), peer, 5)
			}
			r := of(idle).Ring()
			segments := counter(r, "tcp.segments_in")
			w.lateSegment(addr(ended.LocalAddr()), to)
			w.until("the late segment comes to the ring", func() bool { return counter(r, "tcp.segments_in") == segments+1 })
			w.Zero(counter(r, "tcp.resets_sent"))
			w.Zero(counter(r, "tcp.resets_received"))
			w.Zero(counter(r, "tcp.ports_kept"))
			for _, peer := range []*net.TCPConn{idle, busy} {
				c := of(peer)
				w.close(c)
				w.beside(func() error { _, err := io.ReadAll(peer); return err })
			}
			w.served(w.world, to, 2)
		})
	}
}

// A listener of our own TCP is closed after connections of it went to another poller, which goes on serving them: the port is left to the kernel
// all the same. Those in TIME-WAIT at the other poller rest on claims of their own, too.
func TestClosedListenerLeavesThePortOfAdoptedConnections(t *testing.T) {
	for name, any := range map[string]bool{"on an address": false, "on all addresses": true} {
		t.Run(name, func(t *testing.T) {
			w, x := newTCPPollers(t)
			var taken []int
			at := w.at(0)
			if any {
				at = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
			}
			l, err := w.poller.ListenTCP(at, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true},
				AcceptTo: func(fd int, _ netip.AddrPort) bool { taken = append(taken, fd); return true }})
			w.NoError(err)
			w.Equal("bypass", l.Path().Tier, l.Path().Explain())
			w.NoError(x.poller.OpenInterface(w.net.Local(0))) // not while a connection is adopted: its path would change
			to := netip.AddrPortFrom(w.net.Local(0), l.LocalAddr().Port())
			w.successor(l.LocalAddr())
			w.beforePoll, x.beforePoll = func() { x.poll() }, nil
			adopt := func() (*net.TCPConn, *xtreme.Socket) {
				n := len(taken)
				peer := w.dialFromPeer(w.world, to)
				w.until("it is taken", func() bool { return len(taken) > n })
				s, err := x.poller.Adopt(taken[n], xtreme.AdoptConfig{})
				w.NoError(err)
				return peer, s
			}
			peer, s := adopt()
			ended, last := adopt()
			w.beforePoll, x.beforePoll = nil, func() { w.poll() }
			x.echo(s, peer, 2)
			w.NoError(last.CloseWrite())
			x.beside(func() error { _, err := io.ReadAll(ended); return errors.Join(err, ended.Close()) })
			x.event(last, xtreme.EventIn|xtreme.EventRdHup)
			x.close(last)
			r := s.Ring()
			x.until("TIME-WAIT", func() bool { return counter(r, "tcp.time_wait") == 1 })

			w.beforePoll, x.beforePoll = func() { x.poll() }, nil
			w.close(l)
			w.beforePoll, x.beforePoll = nil, func() { w.poll() }
			w.served(x, to, 8)
			x.echo(s, peer, 5)
			segments := counter(r, "tcp.segments_in")
			w.lateSegment(addr(ended.LocalAddr()), to)
			x.until("the late segment comes to the ring", func() bool { return counter(r, "tcp.segments_in") == segments+1 })
			w.Zero(counter(r, "tcp.resets_sent"))
			w.Zero(counter(r, "tcp.resets_received"))
			w.Zero(counter(r, "tcp.ports_kept"))
			x.close(s)
			x.beside(func() error { _, err := io.ReadAll(peer); return err })
			w.served(x, to, 2)
		})
	}
}

// VMA_TCP_3T_RULES is of connections that are opened here: those of a closed listener rest on claims of their own all the same.
func TestClosedListenerLeavesItsPortWithThreeTupleRules(t *testing.T) {
	w := newTCPCabled(t, func(s *conf.Settings) { s.OwnTCP.ConnectionThreeTuple = true })
	l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}})
	w.NoError(err)
	to := l.LocalAddr()
	w.successor(to)
	peer := w.dialFromPeer(w.world, to)
	c := w.accept(l)
	w.echo(c, peer, 2)
	w.close(l)
	w.served(w.world, to, 8)
	w.echo(c, peer, 5)
}

// A connection that is between AcceptTo and Adopt while the listener is closed lives on at the poller that adopts it then.
func TestConnectionAdoptedAfterItsListener(t *testing.T) {
	w, x := newTCPPollers(t)
	taken := -1
	l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{AcceptTo: func(fd int, _ netip.AddrPort) bool { taken = fd; return true }})
	w.NoError(err)
	w.NoError(x.poller.OpenInterface(w.net.Local(0))) // not while the connection is adopted: its path would change
	w.beforePoll = func() { x.poll() }
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	w.until("it is taken", func() bool { return taken >= 0 })
	r := l.Ring()
	w.close(l)
	w.EqualValues(1, counter(r, "tcp.ports_kept"))
	s, err := x.poller.Adopt(taken, xtreme.AdoptConfig{})
	w.NoError(err)
	w.beforePoll, x.beforePoll = nil, func() { w.poll() }
	x.echo(s, peer, 5)
	w.Zero(counter(s.Ring(), "tcp.ports_kept"))
}
