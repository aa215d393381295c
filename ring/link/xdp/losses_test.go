package xdp

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// onlyCounted asserts that one of the queue's counters has a value, and the others none, but for those that do not count losses.
func (w *world) onlyCounted(q *Queue, name string, n uint64) {
	w.t.Helper()
	counted := map[string]uint64{}
	for _, c := range q.Counters(nil) {
		switch c.Name {
		case "xdp.rx_fill_ring_empty_descs", "xdp.tx_ring_empty_descs", "xdp.no_buffer": // how often, not what was lost
		default:
			if c.Value > 0 {
				counted[c.Name] = c.Value
			}
		}
	}
	w.Equal(map[string]uint64{name: n}, counted)
}

// burst has the peer send frames to a queue that nobody polls.
func (w *world) burst(d *Device, n int) {
	w.t.Helper()
	w.NoError(d.Claim(udp4000))
	peer := w.peer("10.0.0.2:5000")
	for i := range n {
		w.sendTo(peer, "10.0.0.1:4000", fmt.Sprint(i))
	}
	for end := time.Now().Add(patience); ; { // the kernel receives them in its own time
		for _, c := range d.Counters(nil) {
			if c.Name == "steer.hit" && c.Value == uint64(n) {
				return
			}
		}
		w.True(time.Now().Before(end), "%v", d.Counters(nil))
	}
}

// received takes all that waits.
func (w *world) received(q *Queue) (n int) {
	w.t.Helper()
	for {
		k := q.Receive(w.dst[:])
		if n += k; k == 0 {
			return n
		}
		for i := range w.dst[:k] {
			w.NoError(w.dst[i].Packet.Release())
		}
	}
}

// Each frame more is counted, by what is missing: room in the receive ring, or a buffer that lies ready.
func TestFramesWithoutRoomAreCounted(t *testing.T) {
	for counter, c := range map[string]Config{"xdp.rx_ring_full": {RxRing: 64, Fill: 256}, "xdp.rx_dropped": {RxRing: 256, Fill: 64}} {
		w := newWorld(t, 1, 1500)
		d := w.device(c)
		q := w.open(d, 0)
		w.burst(d, 100)
		w.onlyCounted(q, counter, 36)
		w.EqualValues(36, q.Stats().RxLost)
		w.Equal(64, w.received(q))
	}
}

// The kernel refuses an entry of the fill ring that is no buffer of the region, and takes the next one: no frame is lost by it. Linux 6.18 does
// not count it: rx_invalid_descs is read of the receive ring (xsk_getsockopt), and is counted in the fill ring (__xp_alloc).
func TestRefusedFillEntryLosesNoFrame(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0, func(l *buffers.Layout) { l.SmallCount = 8 })
	w.Zero(q.Receive(w.dst[:]))
	before := q.posted
	const refused = 3
	w.GreaterOrEqual(q.sock.fill.room(refused), uint32(refused))
	for range refused {
		q.sock.fill.put(uint64(len(q.pool.Region())))
	}
	q.sock.fill.publish()
	w.burst(d, before) // with the buffers in front of the refused entries
	w.Equal(before, w.received(q))
	w.sendTo(w.peer("10.0.0.2:5001"), "10.0.0.1:4000", "behind the refused entries")
	w.Equal("behind the refused entries", w.next(q))
	w.Contains([]uint64{0, refused}, w.counter(q, "xdp.rx_invalid_descs"))
	w.Zero(q.Stats().RxLost, "every frame that was sent was received")
}

// Where a kernel counts them, refused entries are no frames that were lost. The answer of the kernel is a made one: see the test above.
func TestRefusedFillEntryIsCounted(t *testing.T) {
	q, _ := fake(t, 0, fakeLayout)
	const refused = 3
	q.final.Rx_invalid_descs = refused
	w := &world{Assertions: require.New(t), t: t}
	w.onlyCounted(q, "xdp.rx_invalid_descs", refused)
	w.Zero(q.Stats().RxLost)
}

// The kernel refuses an entry of the transmit ring that is no buffer of the region: the frame is lost.
func TestRefusedTransmitEntryIsCounted(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	peer := w.peer("10.0.0.2:5000")
	const refused = 3
	w.GreaterOrEqual(q.sock.tx.room(refused), uint32(refused))
	for range refused {
		q.sock.tx.put(unix.XDPDesc{Addr: uint64(len(q.pool.Region())), Len: 60})
	}
	q.kick = true
	w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", "behind the refused entries", 0)
	w.Equal("behind the refused entries", w.read(peer))
	w.onlyCounted(q, "xdp.tx_invalid_descs", refused)
	w.EqualValues(refused, q.Stats().TxLost)
	w.complete(q)
}

// A frame longer than the interface takes is refused by the link, and counted.
func TestTooLongIsCounted(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	const refused = 5
	for i := range refused {
		frame := message(i, q.Info().MaxFrame+1+i)
		w.Equal(1, q.Send([]link.Out{{Packet: outgoing(t, q.pool, frame, 2048)}}))
	}
	w.NoError(q.Flush())
	w.onlyCounted(q, "xdp.tx_too_long", refused)
	w.EqualValues(refused, q.Stats().TxLost)
	w.Zero(q.Stats().TxFrames)
	w.Zero(q.Unsent())
}

// Frames that the kernel has not read when the link is closed are lost, and counted; those that it has read are not.
func TestUnreadAtCloseIsCounted(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(map[bool]string{false: "not flushed", true: "the interface is down"}[down], func(t *testing.T) {
			w := newWorld(t, 1, 1500)
			d := w.device(Config{})
			q := w.open(d, 0)
			peer := w.peer("10.0.0.2:5000")
			w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", "it leaves", 0)
			w.Equal("it leaves", w.read(peer))
			if down {
				l, err := netlink.LinkByName("v0")
				w.NoError(err)
				w.NoError(netlink.LinkSetDown(l))
			}
			const unread = 7
			for i := range unread {
				w.True(w.trySend(q, "10.0.0.1:4000", "10.0.0.2:5000", "too late", uint64(i%2)))
			}
			if down {
				w.ErrorIs(q.Flush(), unix.ENETDOWN)
			}
			w.NoError(q.Close())
			w.onlyCounted(q, "xdp.tx_closed", unread)
			w.EqualValues(unread, q.Stats().TxLost)
			w.EqualValues(1, q.Stats().TxFrames)
		})
	}
}
