package xtreme_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/testnet/firewall"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A firewall that drops what is new to the connection tracker: answers to what left by a link are new to it. Those that come by the link pass it
// by, those that come by the shadow (fragments) are dropped, and a socket of the kernel gets both, as docs/offload.md says.
func TestConnectionTrackingSeesNoFrames(t *testing.T) {
	w := newCabled(t, testnet.Pair{})
	const table = "sx"
	switch err := firewall.DropNewUDP(table); {
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		testnet.Missing(t, "nf_tables", fmt.Sprintf("with ct in this kernel: %v", err))
	default:
		w.NoError(err)
	}
	s := w.udp(w.at(0))
	kernel, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(w.at(0)))
	w.NoError(err)
	defer kernel.Close()
	peer := w.net.Listen(netip.MustParseAddrPort(w.net.Peer(0).String() + ":0"))
	to := netip.MustParseAddrPort(peer.LocalAddr().String())
	small, long := "small", strings.Repeat("l", 3000)
	b := make([]byte, 4096)
	answer := func(text string, ask func() error) {
		w.NoError(ask())
		_, from, err := peer.ReadFromUDPAddrPort(b)
		w.NoError(err)
		_, err = peer.WriteToUDPAddrPort([]byte(text), from)
		w.NoError(err)
	}
	byKernel := func() error {
		_, err := kernel.WriteToUDPAddrPort([]byte("ask"), to)
		return err
	}
	ours := func() error {
		_, err := s.SendTo([]byte("ask"), to)
		return errors.Join(err, w.poller.Flush())
	}
	arrives := func(text string) {
		answer(text, byKernel)
		w.NoError(kernel.SetReadDeadline(time.Now().Add(patience)))
		n, err := kernel.Read(b)
		w.NoError(err)
		w.Equal(text, string(b[:n]))
	}
	arrives(small)
	answer(small, ours)
	text, _ := fast(w.world, s)
	w.Equal(small, text)
	w.Zero(counter(s.Ring(), "offload.os_sends"))
	answer(long, ours)
	arrives(long) // later than ours would have come
	for range 200 {
		w.poll()
	}
	w.Empty(w.kept, "the firewall lets it pass")

	w.NoError(firewall.Remove(table))
	answer(long, ours)
	c := w.event(s, xtreme.EventPacket)
	w.True(c.ViaKernel)
	w.Equal(len(long), c.Packet.Len())
	w.NoError(c.Packet.Release())
}
