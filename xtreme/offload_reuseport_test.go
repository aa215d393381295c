package xtreme_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// reuseSocket is a UDP socket of the kernel, as another process might have it, with SO_REUSEPORT.
func (w *cabled) reuseSocket(at string) *net.UDPConn {
	w.t.Helper()
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		if err == nil {
			err = e
		}
		return err
	}}
	p, err := c.ListenPacket(context.Background(), "udp4", at)
	w.NoError(err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p.(*net.UDPConn)
}

// read is how many datagrams a kernel's socket has.
func (w *cabled) read(c *net.UDPConn) (n int) {
	w.t.Helper()
	b := make([]byte, 64)
	for {
		w.NoError(c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)))
		if _, err := c.Read(b); err != nil {
			return n
		}
		n++
	}
}

// A port that is shared with a socket of another program (SO_REUSEPORT) is not taken from it: the kernel spreads the datagrams as it does
// without offload, the path says so, and when the other one has gone they come by the link again.
func TestPortSharedWithAnotherProgram(t *testing.T) {
	for _, test := range []struct{ name, theirs, ours string }{
		{"the same address", "10.0.0.1:0", "10.0.0.1"}, {"all addresses", "0.0.0.0:0", "0.0.0.0"}, {"one of ours", "10.0.0.1:0", "0.0.0.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newCabled(t, testnet.Pair{})
			foreign := w.reuseSocket(test.theirs)
			port := foreign.LocalAddr().(*net.UDPAddr).AddrPort().Port()
			s, err := w.poller.OpenUDP(netip.AddrPortFrom(netip.MustParseAddr(test.ours), port),
				xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReusePort: true}, LargestDatagram: 2048})
			w.NoError(err)
			to := netip.AddrPortFrom(w.net.Local(0), port)
			for end := time.Now().Add(5 * time.Second); !has(s.Path(), "udp.port_shared"); w.poll() {
				w.True(time.Now().Before(end), "%v", s.Path())
			}
			w.Equal("kernel", s.Path().Tier)
			w.kept = nil
			const peers = 64
			for range peers {
				w.write(w.net.Dial(to), "one")
			}
			theirs, ours := w.read(foreign), 0
			w.Positive(theirs, "everything was taken")
			for end := time.Now().Add(patience); theirs+ours < peers; {
				w.True(time.Now().Before(end), "%d and %d of %d", theirs, ours, peers)
				w.poll()
				for _, c := range w.kept {
					if c.Events.Has(xtreme.EventPacket) {
						w.True(c.ViaKernel)
						w.NoError(c.Packet.Release())
						ours++
					}
				}
				w.kept = w.kept[:0]
			}
			if test.theirs != test.ours+":0" {
				w.Zero(ours, "who names the address has it")
			}

			w.NoError(foreign.Close())
			w.until("offloaded again", func() bool { return s.Path().Tier == "bypass" && !has(s.Path(), "udp.port_shared") })
			w.until("told", func() bool {
				for _, c := range w.kept {
					if c.Events.Has(xtreme.EventPath) {
						return true
					}
				}
				return false
			})
			w.kept = w.kept[:0]
			w.write(w.net.Dial(to), "by the link")
			text, _ := fast(w.world, s)
			w.Equal("by the link", text)
		})
	}
}

// With VMA_UDP_3T_RULES=1 a connected socket claims what other peers send to its address, too. The kernel would give that to another program's
// socket on all addresses, so it is left to the kernel.
func TestPortOfAConnectedSocketSharedWithAllAddresses(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint("VMA_UDP_3T_RULES ", all), func(t *testing.T) {
			w := newCabled(t, testnet.Pair{})
			w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.ThreeTuple = all })
			x := w.other(w.newPoller("connected"))
			foreign := w.reuseSocket("0.0.0.0:0")
			to := netip.AddrPortFrom(w.net.Local(0), addr(foreign.LocalAddr()).Port())
			peer, stranger := w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0)), w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0))
			s := x.udp(to, xtreme.UDPConfig{Remote: addr(peer.LocalAddr()), IPConfig: xtreme.IPConfig{ReusePort: true}})
			for end := time.Now().Add(2 * time.Second); all && !has(s.Path(), "udp.port_shared") && time.Now().Before(end); x.poll() {
			}
			w.Equal(all, has(s.Path(), "udp.port_shared"), "%v", s.Path().Explain())
			x.kept = nil
			for range 10 {
				_, err := stranger.WriteToUDPAddrPort([]byte("of a stranger"), to)
				w.NoError(err)
			}
			w.Equal(10, w.read(foreign))
			_, err := peer.WriteToUDPAddrPort([]byte("of the peer"), to)
			w.NoError(err)
			w.Equal("of the peer", x.text(s))
		})
	}
}

// A broadcast is for every socket that has its port. Where another program has the port on all addresses, a socket that is bound to the
// broadcast address leaves it to the kernel, which gives it to both.
func TestBroadcastsThatAnotherProgramReceives(t *testing.T) {
	w := newCabled(t, testnet.Pair{})
	foreign := w.member(7400)
	at := netip.MustParseAddrPort("10.0.0.255:7400")
	s := w.udp(at, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}})
	for end := time.Now().Add(5 * time.Second); !has(s.Path(), "udp.port_shared"); w.poll() {
		w.True(time.Now().Before(end), "%v", s.Path())
	}
	w.Equal("kernel", s.Path().Tier)
	w.kept = nil
	peer := w.broadcaster(0)
	for range 3 {
		_, err := peer.WriteToUDPAddrPort([]byte("to all"), at)
		w.NoError(err)
		w.Equal("to all", w.text(s))
		w.heard(foreign, "to all")
	}
	w.NoError(foreign.Close())
	w.until("offloaded again", func() bool { return s.Path().Tier == "bypass" })
	w.next("PATH", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventPath) })
	_, err := peer.WriteToUDPAddrPort([]byte("by the link"), at)
	w.NoError(err)
	text, _ := fast(w.world, s)
	w.Equal("by the link", text)
	w.close(s)
}

// Who requires offload keeps the port, and its path says what that does to the other.
func TestSharedPortThatIsKept(t *testing.T) {
	w := newCabled(t, testnet.Pair{})
	foreign := w.reuseSocket("10.0.0.1:0")
	at := foreign.LocalAddr().(*net.UDPAddr).AddrPort()
	s, err := w.poller.OpenUDP(at, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true},
		IPConfig: xtreme.IPConfig{ReusePort: true}})
	w.NoError(err)
	for end := time.Now().Add(5 * time.Second); !has(s.Path(), "udp.port_kept"); w.poll() {
		w.True(time.Now().Before(end), "%v", s.Path())
	}
	w.Equal("bypass", s.Path().Tier)
	w.kept = nil
	for range 16 {
		w.write(w.net.Dial(at), "kept")
		_, _ = fast(w.world, s)
	}
	w.Zero(w.read(foreign))
}
