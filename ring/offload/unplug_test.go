package offload_test

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The device is pulled out and put back under load, again and again: a real card fifty times (testnet.CableVariable), a veth pair three times.
// The sockets live on and say link.gone, a send fails with its errno, and all that was under way comes back as SENT; with the device the traffic
// comes by the link again, the group's too. newPool holds the ledger against what is left at the end.
func TestUnplugged(t *testing.T) {
	s := newShared(t, 1)
	rounds := 3
	if s.IsCable() {
		rounds = 50
	}
	w := watch(t, s)
	group := netip.MustParseAddr("239.1.2.3")
	m := s.openGroup(w, group)
	r := w.s.Ring()
	peer, member := s.Dial(w.s.LocalAddr()), s.Dial(netip.AddrPortFrom(group, 7001))
	require.NoError(t, peer.SetDeadline(time.Time{}))
	require.NoError(t, member.SetDeadline(time.Time{}))
	to := netip.MustParseAddrPort("10.0.0.2:9")
	handed, number := 0, uint64(1<<40) // packets that were to be sent; the number of the group's last datagram, beside those of the stream
	traffic := newStream(peer, 100*time.Microsecond)
	defer traffic.end()
	for range rounds {
		frames := counter(r, "v0.rx_frames")
		w.until("frames", func() bool { return counter(r, "v0.rx_frames") > frames+10 })
		for range 10 {
			p, err := r.Pool().Alloc(8)
			require.NoError(t, err)
			require.NoError(t, w.s.SendPacket(p, to, uint64(handed)))
			handed++
		}
		s.Unplug()
		w.until("gone", func() bool { return strings.Contains(w.s.Path().Explain(), "link.gone") })
		require.Equal(t, "kernel", w.s.Path().Tier)
		require.Contains(t, m.Path().Explain(), "link.gone")
		w.until("SENT", func() bool { return w.sent == handed })
		w.until("the buffers of its rings, but for one that shadows are read into", func() bool { return r.Ledger().Filling <= 1 })
		var err error
		w.until("no address", func() bool { err = w.s.Prepare(to); return err != nil })
		require.ErrorIs(t, err, unix.EADDRNOTAVAIL)
		_, err = w.s.SendTo([]byte("x"), to)
		require.ErrorIs(t, err, unix.EADDRNOTAVAIL)

		s.Replug()
		w.until("back", func() bool { return w.s.Path().Tier == "bypass" && m.Path().Tier == "bypass" })
		require.NotContains(t, m.Path().Explain(), "link.not_joined")
		w.until("the group, by the link", func() bool { // the first of these may come before the card's filter knows the group
			number++
			os := w.os
			_, err := member.Write(binary.LittleEndian.AppendUint64(nil, number))
			require.NoError(t, err)
			for end := time.Now().Add(20 * time.Millisecond); !w.seen[number] && time.Now().Before(end); w.poll() {
			}
			return w.seen[number] && w.os == os
		})
	}
	t.Logf("%d times: %d datagrams by the link, %d PATH", rounds, counter(r, "v0.rx_frames"), w.path)
}
