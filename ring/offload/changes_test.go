package offload_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// The MTU is followed down and up, but not beyond what the link was opened with; what is longer is refused, or cut by the kernel.
func TestMTUChanges(t *testing.T) { mtuChanges(t, faultConfig{device: "v0"}) }

func mtuChanges(t *testing.T, c faultConfig) {
	for _, fragment := range []bool{false, true} {
		t.Run(fmt.Sprint("fragment ", fragment), func(t *testing.T) {
			n := testnet.New(t, testnet.Pair{})
			c.fragment = fragment
			f := newFaulty(t, c)
			s := f.bind("10.0.0.1:7000", ring.Config{})
			peer := n.Dial(s.LocalAddr())
			write(t, peer, "x")
			f.next(s)
			var sent []string // what may arrive: a datagram that the kernel has cut may come behind the link's mark
			for i, mtu := range []int{1500, 1000, 1500, 9000, 1200, 1500} {
				f.NoError(netlink.LinkSetMTU(linkOf(t, "v0"), mtu))
				largest := min(mtu, 1500) - 28
				whole, longer := strings.Repeat("w", largest), strings.Repeat("l", largest+1)
				if sent = append(sent, whole, longer); !fragment {
					sent = []string{whole, longer}
				}
				var heard []string
				if fragment {
					before := f.counter("offload.os_sends")
					f.until("cut by the kernel", func() bool {
						f.NoError(f.send(s, addrOf(peer), longer))
						heard = append(heard, f.heard(peer)...)
						return f.counter("offload.os_sends") > before
					})
				} else {
					f.until("the new MTU", func() bool {
						err := f.send(s, addrOf(peer), longer)
						if err != nil {
							f.ErrorIs(err, unix.EMSGSIZE)
						}
						heard = append(heard, f.heard(peer)...)
						return err != nil && f.send(s, addrOf(peer), whole) == nil
					})
				}
				f.NoError(f.send(s, addrOf(peer), whole))
				heard = append(heard, f.mark(s, peer, fmt.Sprint("mark ", i))...)
				f.Contains(heard, whole)
				for _, text := range heard {
					f.True(slices.Contains(sent, text), "%d bytes", len(text))
				}
				in := fmt.Sprint("received ", i)
				write(t, peer, in)
				got, os := f.next(s)
				f.Equal(in, got)
				f.False(os)
			}
			f.Empty(f.errs)
		})
	}
}

// An address that is removed under traffic: its frames still come to the link, are dropped and counted; what is sent from it is refused with
// EADDRNOTAVAIL. When it is back, so is the traffic.
func TestAddressRemovedAndAdded(t *testing.T) { addressRemovedAndAdded(t, faultConfig{device: "v0"}) }

func addressRemovedAndAdded(t *testing.T, c faultConfig) {
	n := testnet.New(t, testnet.Pair{})
	f := newFaulty(t, c)
	s, other := f.bind("10.0.0.77:7000", ring.Config{}), f.bind("10.0.0.1:7000", ring.Config{})
	peer, second := n.Dial(s.LocalAddr()), n.Dial(other.LocalAddr())
	addr, err := netlink.ParseAddr("10.0.0.77/24")
	f.NoError(err)
	for range 2 {
		write(t, peer, "x")
		f.next(s)
		dropped := f.counter("ipv4.not_ours")
		f.NoError(netlink.AddrDel(linkOf(t, "v0"), addr))
		f.until("dropped", func() bool {
			write(t, peer, "gone")
			return f.counter("ipv4.not_ours") > dropped
		})
		f.ErrorIs(f.send(s, addrOf(peer), "x"), unix.EADDRNOTAVAIL)
		f.drop(s) // those that came before the news
		write(t, second, "the others have theirs")
		got, _ := f.next(other)
		f.Equal("the others have theirs", got)
		f.NoError(f.send(other, addrOf(second), "and send"))
		f.Equal("and send", reads(t, second))

		f.NoError(netlink.AddrAdd(linkOf(t, "v0"), addr))
		f.until("back", func() bool {
			write(t, peer, "x")
			f.poll()
			return f.drop(s) > 0
		})
		f.until("sends", func() bool { return f.send(s, addrOf(peer), "x") == nil })
		f.Equal("x", reads(t, peer))
		f.drainSelf(s, peer)
	}
	f.Empty(f.errs)
}

// drainSelf reads until a mark of the peer has come.
func (f *faulty) drainSelf(s *ring.Socket, peer *net.UDPConn) {
	write(f.t, peer, "mark")
	for text := ""; text != "mark"; {
		text, _ = f.next(s)
	}
}

// A route that is replaced takes the next datagram with it: to an interface that is no link of the ring through the kernel, and back.
func TestRouteReplaced(t *testing.T) { routeReplaced(t, faultConfig{device: "v0"}) }

func routeReplaced(t *testing.T, c faultConfig) {
	n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
	far := netip.MustParseAddrPort("198.51.100.1:9000")
	n.InPeer(func() {
		a, err := netlink.ParseAddr("198.51.100.1/32")
		require.NoError(t, err)
		require.NoError(t, netlink.AddrAdd(linkOf(t, "lo"), a))
	})
	_, subnet, err := net.ParseCIDR("198.51.100.0/24")
	require.NoError(t, err)
	route := func(i int) {
		require.NoError(t, netlink.RouteReplace(&netlink.Route{Dst: subnet, LinkIndex: linkOf(t, n.Device(i)).Attrs().Index,
			Gw: n.Peer(i).AsSlice()}))
	}
	route(0)
	f := newFaulty(t, c)
	s := f.bind("10.0.0.1:7000", ring.Config{})
	peer := n.Listen(far)
	sent, heard := 0, []string(nil)
	send := func() {
		f.NoError(f.send(s, far, fmt.Sprint(sent)))
		sent++
		heard = append(heard, f.heard(peer)...) // or its receive buffer would overflow
	}
	for round := range 3 {
		route(round % 2)
		frames, moved := uint64(1-round%2), uint64(0) // of a datagram, over the link
		f.until("the other way", func() bool {
			before := f.counter("v0.tx_frames")
			send()
			moved = f.counter("v0.tx_frames") - before
			return moved == frames
		})
		before := f.counter("v0.tx_frames")
		for range 10 {
			send()
		}
		f.Equal(before+10*frames, f.counter("v0.tx_frames"))
	}
	f.NoError(netlink.RouteDel(&netlink.Route{Dst: subnet}))
	f.until("no route", func() bool {
		_, err := s.SendTo([]byte(fmt.Sprint(sent)), far)
		if err == nil {
			sent++
			heard = append(heard, f.heard(peer)...)
			return false
		}
		f.ErrorIs(err, unix.ENETUNREACH)
		return true
	})
	f.until("all sent", func() bool { return f.ring.Ledger().Transmitting == 0 })
	f.until("all heard", func() bool {
		heard = append(heard, f.heard(peer)...)
		return len(heard) >= sent-int(f.counter("offload.lost_sends"))
	})
	for i, text := range heard {
		f.Equal(fmt.Sprint(i), text, "nothing lost, nothing out of order")
	}
}

// A new MAC address of ours is known at once: frames for the old one are somebody else's and counted, ours leave with the new one. A new one
// of the peer's is that of the next frame.
func TestMACChanges(t *testing.T) { macChanges(t, faultConfig{device: "v0"}) }

func macChanges(t *testing.T, c faultConfig) {
	n := testnet.New(t, testnet.Pair{})
	f := newFaulty(t, c)
	s := f.bind("10.0.0.1:7000", ring.Config{})
	peer := n.Dial(s.LocalAddr())
	write(t, peer, "x")
	f.next(s)
	mac, err := net.ParseMAC("02:00:00:aa:bb:01")
	f.NoError(err)
	f.NoError(netlink.LinkSetHardwareAddr(linkOf(t, "v0"), mac))
	f.until("the old address dropped", func() bool {
		write(t, peer, "to the old address")
		f.poll()
		f.drop(s)
		return f.counter("eth.not_ours") > 0
	})
	n.InPeer(func() { neighbour(t, "p0", n.Local(0), mac) })
	write(t, peer, "to the new address")
	got, os := f.next(s)
	f.Equal("to the new address", got)
	f.False(os)
	frames := newFrameSocket(t, n)
	f.mark(s, peer, "from the new address") // the kernel forgot the neighbour: it is asked for
	f.Equal(mac.String(), frames.source("from the new address").String())

	theirs, err := net.ParseMAC("02:00:00:aa:bb:02")
	f.NoError(err)
	n.InPeer(func() { f.NoError(netlink.LinkSetHardwareAddr(linkOf(t, "p0"), theirs)) })
	neighbour(t, "v0", n.Peer(0), theirs)
	f.until("the peer's new address", func() bool {
		f.NoError(f.send(s, addrOf(peer), "x"))
		return len(f.heard(peer)) > 0
	})
	f.Empty(f.errs)
}
