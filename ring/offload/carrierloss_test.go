package offload_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/ring"
)

// returned polls until all that was sent by SendPacket has come back, and reports how many of them with an error.
func (w *watcher) returned(packets int) (failed int) {
	w.t.Helper()
	sent := 0
	for end := time.Now().Add(patience); sent < packets; {
		require.True(w.t, time.Now().Before(end), "%d of %d; %v", sent, packets, w.s.Ring().Stats().Driver)
		n, err := w.s.Ring().Poll(w.dst)
		require.NoError(w.t, err, "a lost interface is told by SENT and by the path")
		for i := range w.dst[:n] {
			c := &w.dst[i]
			if c.Events.Has(ring.EventPath) {
				w.path++
			}
			if c.Events.Has(ring.EventSent) {
				sent++
				if c.Err != nil {
					failed++
				}
			}
		}
	}
	return failed
}

func (w *watcher) sendPackets(n int, to netip.AddrPort, text string) {
	w.t.Helper()
	for i := range n {
		b := fmt.Appendf(nil, "%s %d", text, i)
		p, err := w.s.Ring().Pool().Alloc(len(b))
		require.NoError(w.t, err)
		copy(p.Bytes(), b)
		require.NoError(w.t, w.s.SendPacket(p, to, uint64(i)))
	}
}

// The cable is pulled: what is sent until the ring knows is lost, counted and told as such; then the path says that there is no carrier.
func TestCarrierLost(t *testing.T) {
	s := newShared(t, 1)
	w := watch(t, s)
	peer := s.Listen(netip.AddrPortFrom(s.Peer(0), 0))
	to := addrOf(peer)
	w.sendPackets(1, to, "before")
	require.Zero(t, w.returned(1))
	frames := counter(w.s.Ring(), "v0.tx_frames")
	set := func(change func(netlink.Link) error) {
		s.InPeer(func() { require.NoError(t, change(linkOf(t, "p0"))) })
	}
	set(netlink.LinkSetDown)
	const packets = 10
	w.sendPackets(packets, to, "lost")
	require.NoError(t, w.s.Ring().Flush())
	require.Equal(t, packets, w.returned(packets), "SENT without an error")
	require.Equal(t, frames, counter(w.s.Ring(), "v0.tx_frames"))
	require.EqualValues(t, packets, counter(w.s.Ring(), "v0.tx_lost"))
	require.EqualValues(t, packets, counter(w.s.Ring(), "v0.xdp.tx_no_carrier"))
	w.until("no carrier", func() bool { return w.s.Path().Tier == "kernel" })
	require.Contains(t, w.s.Path().Explain(), "link.no_carrier")
	w.until("told", func() bool { return w.path == 1 })
	set(netlink.LinkSetUp)
	w.until("carrier", func() bool { return w.s.Path().Tier == "bypass" })
	w.until("told again", func() bool { return w.path == 2 })
	require.NotContains(t, w.s.Path().Explain(), "link.no_carrier")
}

// What an interface had no chance to send before it went down does not leave when it is up again: the sender is notified that it is lost.
func TestQueuedBeforeDownIsLost(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		t.Run(map[bool]string{false: "up again at once", true: "down for a while"}[noticed], func(t *testing.T) {
			s := newShared(t, 1)
			w := watch(t, s)
			peer := s.Listen(netip.AddrPortFrom(s.Peer(0), 0))
			to := addrOf(peer)
			require.NoError(t, w.s.Prepare(to))
			const packets = 10
			for i := range packets { // straight to the stack, whatever the mirror tells meanwhile
				_, err := w.s.SendTo(fmt.Appendf(nil, "too late, a copy %d", i), to)
				require.NoError(t, err)
			}
			w.sendPackets(packets, to, "too late")
			require.NoError(t, netlink.LinkSetDown(linkOf(t, "v0")))
			require.NoError(t, w.s.Ring().Flush())
			if noticed {
				w.until("down", func() bool { return w.s.Path().Tier == "kernel" })
			}
			require.NoError(t, netlink.LinkSetUp(linkOf(t, "v0")))
			if !noticed {
				require.Equal(t, packets, w.returned(packets))
			}
			w.until("up", func() bool { return w.s.Path().Tier == "bypass" })
			w.until("a mark", func() bool {
				_, err := w.s.SendTo([]byte("mark"), to)
				if err == nil {
					err = w.s.Ring().Flush()
				}
				require.NoError(t, peer.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
				b := make([]byte, 64)
				n, e := peer.Read(b)
				if e == nil {
					require.Equal(t, "mark", string(b[:n]), "it was sent before the interface went down")
				}
				return errors.Join(err, e) == nil
			})
			w.until("the buffers", func() bool { return w.s.Ring().Ledger().Transmitting == 0 })
		})
	}
}

// An interface is deleted and made again while its queues are closed, because it went down with frames in them. The device that was opened
// on the deleted interface is given up, and the new interface is opened.
func TestMadeAgainWhileItsQueuesAreClosed(t *testing.T) {
	s := newShared(t, 1)
	w := watch(t, s)
	peer := s.Listen(netip.AddrPortFrom(s.Peer(0), 0))
	w.sendPackets(10, addrOf(peer), "too late")
	require.NoError(t, netlink.LinkSetDown(linkOf(t, "v0")))
	require.NoError(t, w.s.Ring().Flush())
	w.until("the packets", func() bool { return w.sent == 10 }) // their queue is closed
	w.until("down", func() bool { return w.s.Path().Tier == "kernel" })
	require.NoError(t, netlink.LinkDel(linkOf(t, "v0")))
	s.Again(0)
	w.until("the new interface", func() bool { return w.s.Path().Tier == "bypass" })
}
