package xtreme_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// SX_OFFLOAD_GATHER lets answers wait for each other while requests come one after the other; without it they leave with the next Poll.
func TestAnswersGatherBySetting(t *testing.T) {
	for _, gather := range []int{0, 18} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Gather = gather })
		x := w.other(w.newPoller("answers"))
		s := x.udp(w.at(0))
		peer := w.net.Dial(s.LocalAddr())
		w.NoError(peer.SetWriteBuffer(1 << 16))
		var asked []xtreme.Completion
		for range 2 {
			x.write(peer, "request")
			asked = append(asked, x.event(s, xtreme.EventPacket))
		}
		w.False(asked[0].ViaKernel || asked[1].ViaKernel, "both are frames")
		sent := counter(s.Ring(), "v0.tx_frames")
		for _, c := range asked {
			_, err := s.SendTo([]byte("answer"), c.Source)
			w.NoError(err)
			w.NoError(c.Packet.Release())
		}
		x.poll()
		if got := counter(s.Ring(), "v0.tx_frames") - sent; gather > 0 {
			w.Zero(got)
		} else {
			w.EqualValues(2, got)
		}
		b := make([]byte, 64)
		for range 2 { // and leave soon
			x.poll()
			w.NoError(x.poller.Flush())
			_, err := peer.Read(b)
			w.NoError(err)
		}
		x.close(s)
	}
}

// SX_OFFLOAD_XDP_MODE says where the XDP program runs; by itself a veth has it behind the driver.
func TestXDPModeBySetting(t *testing.T) {
	for mode, want := range map[conf.XDPMode]string{"": "generic", conf.XDPAuto: "generic", conf.XDPGeneric: "generic", conf.XDPNative: "native"} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Mode = mode })
		x := w.other(w.newPoller("mode"))
		s := x.udp(w.at(0))
		w.Contains(s.Path().Explain(), want, "%q", mode)
		peer := w.net.Dial(s.LocalAddr())
		x.write(peer, "datagram")
		c := x.event(s, xtreme.EventPacket)
		w.False(c.ViaKernel, "%q", mode)
		w.NoError(c.Packet.Release())
		x.close(s)
	}
}

// An interface whose driver refuses the program, as a bridge does, is not opened where native is asked for; auto has it behind.
func TestNativeWhereTheDriverRefusesIt(t *testing.T) {
	for mode, want := range map[conf.XDPMode]string{conf.XDPNative: "kernel", conf.XDPAuto: "bypass"} {
		w := newCabled(t)
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br9"}}
		if err := netlink.LinkAdd(bridge); errors.Is(err, unix.EOPNOTSUPP) {
			testnet.Missing(t, "bridge", err)
		} else {
			w.NoError(err)
		}
		w.NoError(netlink.LinkSetUp(bridge))
		address, err := netlink.ParseAddr("10.99.0.1/24")
		w.NoError(err)
		w.NoError(netlink.AddrAdd(bridge, address))
		w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Mode = mode })
		x := w.other(w.newPoller("mode"))
		s := x.udp(netip.MustParseAddrPort("10.99.0.1:0"))
		w.Equal(want, s.Path().Tier, s.Path().Explain())
		w.Equal(mode == conf.XDPNative, has(s.Path(), "xdp.no_native"), s.Path().Explain())
		x.close(s)
	}
}

// SX_OFFLOAD_BUSY_POLL makes a ring that finds nothing ask for the driver's poll, or the path says why not; after the first frames, which tell
// the kernel the queue.
func TestBusyPollBySetting(t *testing.T) {
	const turns = 100
	for _, on := range []bool{false, true} {
		w := newCabled(t)
		w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.BusyPoll = on })
		x := w.other(w.newPoller("spins"))
		s := x.udp(w.at(0))
		x.write(w.net.Dial(s.LocalAddr()), "first")
		w.Equal("first", x.text(s))
		for range 3 {
			x.poll()
		}
		before := counter(s.Ring(), "v0.kicks")
		for range turns {
			x.poll()
		}
		kicks := counter(s.Ring(), "v0.kicks") - before
		switch {
		case !on:
			w.False(has(s.Path(), "xdp.no_busy_poll"))
			w.Less(kicks, uint64(turns))
		case has(s.Path(), "xdp.no_busy_poll"):
			w.Less(kicks, uint64(turns))
		default:
			w.GreaterOrEqual(kicks, uint64(turns))
		}
		t.Logf("busy polling %v: %d system calls in %d turns, %v", on, kicks, turns, s.Path())
		x.close(s)
	}
}
