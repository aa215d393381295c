package xtreme_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A firewall that drops what is new to the connection tracker: answers to what left by a link are new to it. Those that come by the link pass it
// by, those that come by the shadow (fragments) are dropped, and a socket of the kernel gets both, as docs/offload.md says.
func TestConnectionTrackingSeesNoFrames(t *testing.T) {
	w := newCabled(t, testnet.Pair{})
	dropNew(t)
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

	nftables(t, false, nftMessage(2, unix.NLM_F_ACK, nftAttr(1, "sx\x00"))) // NFT_MSG_DELTABLE
	answer(long, ours)
	c := w.event(s, xtreme.EventPacket)
	w.True(c.ViaKernel)
	w.Equal(len(long), c.Packet.Len())
	w.NoError(c.Packet.Release())
}

// dropNew makes the rule "udp ct state new drop" for what comes in to this host, in the thread's network namespace.
func dropNew(t *testing.T) {
	be := func(v uint32) string { return string(binary.BigEndian.AppendUint32(nil, v)) }
	native := func(v uint32) string { return string(binary.NativeEndian.AppendUint32(nil, v)) }
	value := func(typ int, v string) []byte { return nftNest(typ, nftAttr(1, v)) } // NFTA_DATA_VALUE
	expression := func(name string, list ...[]byte) []byte {
		return nftNest(1, nftAttr(1, name+"\x00"), nftNest(2, list...))
	}
	const create = unix.NLM_F_CREATE | unix.NLM_F_ACK
	nftables(t, true,
		nftMessage(0, create, nftAttr(1, "sx\x00")),
		nftMessage(3, create, nftAttr(1, "sx\x00"), nftAttr(3, "in\x00"), nftNest(4, nftAttr(1, be(1)), nftAttr(2, be(0))), nftAttr(7, "filter\x00")),
		nftMessage(6, create|unix.NLM_F_APPEND, nftAttr(1, "sx\x00"), nftAttr(2, "in\x00"), nftNest(4,
			expression("meta", nftAttr(1, be(1)), nftAttr(2, be(16))), // NFT_META_L4PROTO
			expression("cmp", nftAttr(1, be(1)), nftAttr(2, be(0)), value(3, string([]byte{unix.IPPROTO_UDP}))),
			// NFT_CT_STATE.
			expression("ct", nftAttr(1, be(1)), nftAttr(2, be(0))),
			expression("bitwise", nftAttr(1, be(1)), nftAttr(2, be(1)), nftAttr(3, be(4)), value(4, native(8)), value(5, native(0))), // new
			expression("cmp", nftAttr(1, be(1)), nftAttr(2, be(1)), value(3, native(0))),
			expression("immediate", nftAttr(1, be(0)), nftNest(2, nftNest(2, nftAttr(1, be(0))))), // NF_DROP
		)))
}

func nftAttr(typ int, v string) []byte { return nl.NewRtAttr(typ, []byte(v)).Serialize() }

func nftNest(typ int, list ...[]byte) []byte {
	var all []byte
	for _, a := range list {
		all = append(all, a...)
	}
	return nl.NewRtAttr(typ|unix.NLA_F_NESTED, all).Serialize()
}

// nftMessage is a message of nf_tables for IPv4.
func nftMessage(typ, flags uint16, attributes ...[]byte) []byte {
	const subsystem = 10 // NFNL_SUBSYS_NFTABLES
	return nfnlMessage(subsystem<<8|typ, flags, unix.AF_INET, 0, attributes...)
}

func nfnlMessage(typ, flags uint16, family byte, resource uint16, attributes ...[]byte) []byte {
	b := make([]byte, 20)
	binary.NativeEndian.PutUint16(b[4:], typ)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	b[16] = family
	binary.BigEndian.PutUint16(b[18:], resource)
	for _, a := range attributes {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	return b
}

// nftables sends messages as one batch; a kernel without what they need skips the test, if it may.
func nftables(t *testing.T, maySkip bool, messages ...[]byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if maySkip && errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip("missing: nf_tables in this kernel")
	}
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	batch := nfnlMessage(unix.NFNL_MSG_BATCH_BEGIN, 0, 0, 10)
	for _, m := range messages {
		batch = append(batch, m...)
	}
	batch = append(batch, nfnlMessage(unix.NFNL_MSG_BATCH_END, 0, 0, 10)...)
	require.NoError(t, unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	b := make([]byte, 8192)
	for acks := 0; acks < len(messages); {
		n, err := unix.Read(fd, b)
		require.NoError(t, err)
		for m := b[:n]; len(m) >= 20; acks++ {
			e := unix.Errno(-int32(binary.NativeEndian.Uint32(m[16:])))
			if maySkip && (e == unix.EOPNOTSUPP || e == unix.ENOENT) {
				t.Skipf("missing: nf_tables with ct in this kernel: %v", e)
			}
			require.Zero(t, int(e), "message %d: %v", acks, e)
			m = m[min((binary.NativeEndian.Uint32(m)+3)&^3, uint32(len(m))):]
		}
	}
}
