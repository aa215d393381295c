package xtreme_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What a slow queueing discipline drops is a send without room with VMA_TX_NONBLOCKED_EAGAINS=1, and nothing that anybody learns of without, as
// for every program of the system.
func TestSendsWithoutRoomBySetting(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, setting := range []string{"0", "1"} {
			for _, how := range []string{"unconnected", "connected", "connected without having been bound"} {
				t.Run(setting+" "+how, func(t *testing.T) {
					connected := how != "unconnected"
					n, link := slowPair(t)
					t.Setenv("VMA_TX_NONBLOCKED_EAGAINS", setting)
					w := byEnvironment(t, kind)
					peer := n.Listen(netip.AddrPortFrom(n.Peer(0), 0))
					to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
					var c xtreme.UDPConfig
					if connected {
						c.Remote = to
					}
					local := netip.AddrPortFrom(n.Local(0), 0)
					if how == "connected without having been bound" {
						local = netip.AddrPort{}
					}
					s := w.udp(local, c)
					var err error
					const sends = 500
					good, refused := uint64(0), uint64(0)
					for range sends {
						if connected {
							_, err = s.Send(make([]byte, 100))
						} else {
							_, err = s.SendTo(make([]byte, 100), to)
						}
						switch {
						case err == nil:
							good++
						case errors.Is(err, ring.ErrWouldBlock):
							refused++
						default:
							w.NoError(err)
						}
					}
					drops := dropsOf(t, link)
					w.Greater(drops, uint64(sends/2), "the discipline drops most")
					if setting == "0" {
						w.Zero(refused)
					} else {
						w.LessOrEqual(refused, drops)
						w.LessOrEqual(drops-refused, uint64(8), "others of the device's, such as MLD reports")
						w.event(s, xtreme.EventOut) // as after each send without room
					}
					w.Equal(good, s.Stats().SentMessages)
					w.Equal(refused, s.Stats().ShortSends)
					w.close(s)
				})
			}
		}
	})
}

// A packet that the discipline drops ends with SENT and ENOBUFS, which is counted; with 0 it ends as if it had left.
func TestPacketsWithoutRoomBySetting(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, setting := range []string{"0", "1"} {
			n, link := slowPair(t)
			t.Setenv("VMA_TX_NONBLOCKED_EAGAINS", setting)
			w := byEnvironment(t, kind)
			to := n.Listen(netip.AddrPortFrom(n.Peer(0), 0)).LocalAddr().(*net.UDPAddr).AddrPort()
			s := w.udp(netip.AddrPortFrom(n.Local(0), 0))
			const sends = 200
			failed := uint64(0)
			for i := range uint64(sends) {
				p, err := w.poller.Pool().Alloc(100)
				w.NoError(err)
				w.NoError(s.SendPacket(p, to, i+1))
				if err := w.event(s, xtreme.EventSent).Err; err != nil {
					w.ErrorIs(err, unix.ENOBUFS)
					failed++
				}
			}
			drops := dropsOf(t, link)
			w.Greater(drops, uint64(sends/2), "the discipline drops most")
			if setting == "0" {
				w.Zero(failed)
			} else {
				w.LessOrEqual(failed, drops)
				w.LessOrEqual(drops-failed, uint64(8), "others of the device's, such as MLD reports")
			}
			w.Equal(failed, s.Stats().SendErrors)
			w.close(s)
		}
	})
}

// slowPair is a pair of interfaces of which the first sends a kilobyte a second.
func slowPair(t *testing.T) (*testnet.Net, netlink.Link) {
	t.Helper()
	n := testnet.New(t, testnet.Pair{})
	link, err := netlink.LinkByName(n.Device(0))
	require.NoError(t, err)
	require.NoError(t, netlink.QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       1000, Buffer: netlink.Xmittime(1000, 1600), Limit: 3000}))
	return n, link
}

// byEnvironment is a world whose engine has what the environment says.
func byEnvironment(t *testing.T, kind conf.RingKind) *world {
	s := conf.FromEnvironment()
	require.Empty(t, s.Warnings)
	return worldWith(t, func(c *conf.Settings) {
		*c = s
		c.Ring, c.SmallBuffers, c.LargeBuffers = kind, 512, 16
	})
}

func dropsOf(t *testing.T, link netlink.Link) (drops uint64) {
	t.Helper()
	list, err := netlink.QdiscList(link)
	require.NoError(t, err)
	for _, q := range list {
		drops += uint64(q.Attrs().Statistics.Queue.Drops)
	}
	return drops
}

// sendingToNobody runs a test on each ring with either setting and over IPv4 and IPv6. Nobody has the port of the address.
func sendingToNobody(t *testing.T, test func(w *world, setting string, at, nobody netip.AddrPort)) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, setting := range []string{"0", "1"} {
			t.Setenv("VMA_TX_NONBLOCKED_EAGAINS", setting)
			for _, at := range []netip.AddrPort{loopback, loopback6} {
				w := byEnvironment(t, kind)
				// A connected socket has the port, so that nobody else gets it, and takes nothing of what is sent there by others.
				holder, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(at), net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), 9)))
				w.NoError(err)
				test(w, setting, at, holder.LocalAddr().(*net.UDPAddr).AddrPort())
				w.NoError(holder.Close())
			}
		}
	})
}

// Errors of the network stay what they are with VMA_TX_NONBLOCKED_EAGAINS=1: events of connected sockets, nothing of others; and the error queue
// that it opens does not keep a ring awake.
func TestSendsWithoutRoomAndErrorsOfTheNetwork(t *testing.T) {
	sendingToNobody(t, func(w *world, setting string, at, nobody netip.AddrPort) {
		one, connected := w.udp(at), w.udp(at, xtreme.UDPConfig{Remote: nobody})
		for range 3 { // what the first one brings is not told by the next
			_, err := one.SendTo([]byte("x"), nobody)
			w.NoError(err, "setting %s, %v", setting, at)
		}
		peer, err := net.Dial("udp", one.LocalAddr().String())
		w.NoError(err)
		w.write(peer, "and it lives")
		w.NoError(peer.Close())
		w.Equal("and it lives", w.text(one))
		_, err = connected.Send([]byte("x"))
		w.NoError(err)
		w.ErrorIs(w.event(connected, xtreme.EventErr).Err, unix.ECONNREFUSED)
		w.poll()
		w.Empty(w.kept)
		for _, s := range []*xtreme.Socket{one, connected} {
			fds := []unix.PollFd{{Fd: int32(s.ID()), Events: unix.POLLIN}}
			_, err = unix.Poll(fds, 0)
			w.NoError(err)
			w.Zero(fds[0].Revents, "setting %s, %v: nothing keeps the socket ready", setting, at)
			w.close(s)
		}
	})
}

// What a datagram to nobody brings is not told by a packet to somebody else, and that packet is not lost for it, however many are under way.
func TestPacketsAreNotLostForErrorsOfOthers(t *testing.T) {
	sendingToNobody(t, func(w *world, setting string, at, nobody netip.AddrPort) {
		s, peer := w.udp(at), w.udp(at)
		const rounds = 20
		for i := range uint64(2 * rounds) {
			to := nobody
			if i%2 == 1 {
				to = peer.LocalAddr()
			}
			p, err := w.poller.Pool().Alloc(8)
			w.NoError(err)
			w.NoError(s.SendPacket(p, to, i+1))
		}
		for i := range uint64(2 * rounds) {
			c := w.event(s, xtreme.EventSent)
			w.NoError(c.Err, "setting %s, %v, packet %d", setting, at, i)
		}
		for range rounds {
			w.NoError(w.event(peer, xtreme.EventPacket).Packet.Release())
		}
		w.Zero(s.Stats().SendErrors)
		w.close(s)
		w.close(peer)
	})
}

// What datagrams to nobody bring is no failure of the next send of a socket that asks for transmit stamps, or that is paced: its sends go by the
// shaper, and reports of sends and of errors wait in one queue.
func TestShapedSendsDoNotFailForErrorsOfOthers(t *testing.T) {
	for name, c := range map[string]xtreme.UDPConfig{
		"stamped": {TxTimestamps: true},
		"paced":   {IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 100_000_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			sendingToNobody(t, func(w *world, setting string, at, nobody netip.AddrPort) {
				s, peer := w.udp(at, c), w.udp(at)
				const sends, burst = 600, 200
				for i := range sends {
					to := nobody
					if i%2 == 1 {
						to = peer.LocalAddr()
					}
					_, err := s.SendTo([]byte("x"), to)
					w.NoError(err, "setting %s, %v, datagram %d", setting, at, i)
					if i%burst == burst-1 {
						for range burst / 2 {
							w.NoError(w.event(peer, xtreme.EventPacket).Packet.Release())
						}
					}
				}
				w.Zero(s.Stats().SendErrors)
				w.close(s)
				w.close(peer)
			})
		})
	}
}

// A datagram that Send has queued because of the pacing is lost where the discipline drops it: no call is there to refuse it any more.
func TestQueuedSendsWithoutRoomBySetting(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, setting := range []string{"0", "1"} {
			for _, connected := range []bool{false, true} {
				t.Run(fmt.Sprint(setting, " connected: ", connected), func(t *testing.T) {
					n, link := slowPair(t)
					t.Setenv("VMA_TX_NONBLOCKED_EAGAINS", setting)
					w := byEnvironment(t, kind)
					to := addr(n.Listen(netip.AddrPortFrom(n.Peer(0), 0)).LocalAddr())
					c := xtreme.UDPConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 40_000, Burst: 200, Packet: 100}}}
					if connected {
						c.Remote = to
					}
					s := w.udp(netip.AddrPortFrom(n.Local(0), 0), c)
					const most = 100
					r, refused := s.Ring(), uint64(0)
					// A slow machine queues few of them. Nothing is queued while the discipline is full, which takes one in 140 ms.
					for sends, end := 0, time.Now().Add(10*time.Second); sends < most || r.Stats().Paced == 0 && time.Now().Before(end); sends++ {
						var err error
						if connected {
							_, err = s.Send(make([]byte, 100))
						} else {
							_, err = s.SendTo(make([]byte, 100), to)
						}
						if setting == "1" && errors.Is(err, ring.ErrWouldBlock) { // nothing waited: this one was not queued
							refused++
							continue
						}
						w.NoError(err)
					}
					w.Positive(r.Stats().Paced)
					w.until("many are dropped", func() bool { return dropsOf(t, link) > most/2 })
					w.Equal(r.Stats().LostSends, s.Stats().SendErrors)
					w.Equal(refused, s.Stats().ShortSends)
					if setting == "1" {
						w.ErrorIs(w.event(s, xtreme.EventErr).Err, unix.ENOBUFS)
					}
					w.NoError(s.Close()) // waits for what is queued
					w.until("all have left", func() bool {
						return len(w.kept) > 0 && w.kept[len(w.kept)-1].Events.Has(xtreme.EventClosed)
					})
					w.kept = nil
					if setting == "0" {
						w.Zero(r.Stats().LostSends)
					} else {
						w.LessOrEqual(dropsOf(t, link)-r.Stats().LostSends-refused, uint64(8), "others of the device's, such as MLD reports")
					}
				})
			}
		}
	})
}

// What the network answers to a datagram that is too long for a link on its way (RFC 1191) is no failure of the next one of an unconnected
// socket either.
func TestSendsDoNotFailForANarrowPathOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, setting := range []string{"0", "1"} {
			n := testnet.New(t, testnet.Pair{})
			t.Setenv("VMA_TX_NONBLOCKED_EAGAINS", setting)
			w := byEnvironment(t, kind)
			peer := n.Listen(netip.AddrPortFrom(n.Peer(0), 0))
			to := addr(peer.LocalAddr())
			s := w.udp(netip.AddrPortFrom(n.Local(0), 0))
			for i, send := range []func(){
				func() {
					_, err := s.SendTo([]byte("x"), to)
					w.NoError(err, "setting %s", setting)
				},
				func() {
					p, err := w.poller.Pool().Alloc(8)
					w.NoError(err)
					w.NoError(s.SendPacket(p, to, 1))
					w.NoError(w.event(s, xtreme.EventSent).Err, "setting %s", setting)
				},
			} {
				tooLong(t, n, s.LocalAddr(), to)
				if setting == "1" { // the answer is there
					fds := []unix.PollFd{{Fd: int32(s.ID())}}
					_, err := unix.Poll(fds, 10_000)
					w.NoError(err)
					w.EqualValues(unix.POLLERR, fds[0].Revents)
				}
				send()
				w.Equal(uint64(i+1), s.Stats().SentMessages)
			}
			w.Zero(s.Stats().SendErrors)
			w.close(s)
		}
	})
}

// tooLong has the peer answer that a datagram which went to it was too long for a link with an MTU of 1,400 bytes.
func tooLong(t *testing.T, n *testnet.Net, from, to netip.AddrPort) {
	t.Helper()
	m := make([]byte, 8+20+8)
	m[0], m[1] = 3, 4 // destination unreachable, fragmentation needed
	binary.BigEndian.PutUint16(m[6:], 1400)
	header := m[8:]
	header[0], header[6], header[8], header[9] = 0x45, 0x40, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(header[2:], 1500)
	source, target := from.Addr().As4(), to.Addr().As4()
	copy(header[12:], source[:])
	copy(header[16:], target[:])
	binary.BigEndian.PutUint16(header[20:], from.Port())
	binary.BigEndian.PutUint16(header[22:], to.Port())
	binary.BigEndian.PutUint16(header[24:], 1480)
	sum := uint32(0)
	for i := 0; i < len(m); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(m[i:]))
	}
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum+sum>>16))
	n.InPeer(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		require.NoError(t, err)
		require.NoError(t, unix.Sendto(fd, m, 0, &unix.SockaddrInet4{Addr: source}))
		require.NoError(t, unix.Close(fd))
	})
}

// An offloaded socket has nothing of VMA_TX_NONBLOCKED_EAGAINS, whose reports the kernel makes of its own datagrams: what a datagram to nobody
// brings is no failure of the next one that the kernel sends for the socket, and what the discipline drops nobody learns of.
func TestOffloadedSendsAreAsWithoutTheSetting(t *testing.T) {
	for _, report := range []bool{false, true} {
		for name, c := range map[string]struct {
			config  xtreme.UDPConfig
			packets bool
		}{
			"SendTo":       {},
			"paced SendTo": {config: xtreme.UDPConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 100_000_000}}}},
			"SendPacket":   {packets: true},
		} {
			t.Run(fmt.Sprint(name, " ", report), func(t *testing.T) {
				w := newCabled(t)
				w.engine = w.newEngine(func(s *conf.Settings) { s.ReportDrops = report })
				x := w.other(w.newPoller("reports"))
				const sends = 100
				send := func(s *xtreme.Socket, n, i int, to netip.AddrPort) {
					t.Helper()
					if !c.packets {
						_, err := s.SendTo(make([]byte, n), to)
						x.NoError(err, "datagram %d", i)
						x.until("it has left", func() bool { return !s.Sending() })
						return
					}
					p, err := x.poller.Pool().Alloc(n)
					x.NoError(err)
					x.NoError(s.SendPacket(p, to, uint64(i+1)))
					x.NoError(x.event(s, xtreme.EventSent).Err, "packet %d", i)
				}
				// To this host: the kernel sends.
				s, live := x.udp(w.at(0), c.config), w.listenHere()
				x.Equal("bypass", s.Path().Tier, s.Path())
				nobody, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(w.at(0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(w.net.Local(0), 9)))
				x.NoError(err)
				defer nobody.Close()
				for i := range sends {
					if i%2 == 0 {
						send(s, 1, i, addr(nobody.LocalAddr()))
					} else {
						send(s, 1, i, addr(live.LocalAddr()))
					}
				}
				for i := range sends / 2 {
					_, err := live.Read(make([]byte, 8))
					x.NoError(err, "datagram %d of those to somebody", i)
				}
				x.Equal(uint64(sends), s.Stats().SentMessages)
				x.Zero(s.Stats().SendErrors)
				x.Zero(s.Ring().Stats().LostSends)
				// Datagrams that are longer than the MTU: the kernel makes their fragments, and the discipline drops most of them.
				link, err := netlink.LinkByName(w.net.Device(0))
				x.NoError(err)
				x.NoError(netlink.QdiscAdd(&netlink.Tbf{
					QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
					Rate:       1000, Buffer: netlink.Xmittime(1000, 1600), Limit: 3000}))
				to := addr(w.net.Listen(netip.AddrPortFrom(w.net.Peer(0), 0)).LocalAddr())
				for i := range sends {
					send(s, 4000, i, to)
				}
				x.Greater(dropsOf(t, link), uint64(sends/2), "the discipline drops most")
				x.Equal(uint64(2*sends), s.Stats().SentMessages)
				x.Zero(s.Stats().ShortSends)
				x.Zero(s.Stats().SendErrors)
				x.Zero(s.Ring().Stats().LostSends)
				x.Empty(x.kept)
				x.close(s)
			})
		}
	}
}

// listenHere is a socket of the kernel's at the first address of this end; reading it waits a second at the most.
func (w *cabled) listenHere() *net.UDPConn {
	w.t.Helper()
	l, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(w.at(0)))
	w.NoError(err)
	w.t.Cleanup(func() { _ = l.Close() })
	w.NoError(l.SetReadDeadline(time.Now().Add(time.Second)))
	return l
}
