package xdp

import (
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Frames that are sent while there is no carrier are lost in the kernel (EBUSY): they count as lost, not as sent, and Flush says so. With the
// carrier back what is sent then arrives, and nothing of before.
func TestSendWithoutCarrier(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{})
	q := w.open(d, 0)
	peer := w.peer("10.0.0.2:5000")
	w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", "before", 0)
	w.Equal("before", w.read(peer))
	w.complete(q)
	set := func(change func(netlink.Link) error) {
		w.inPeer(func() {
			l, err := netlink.LinkByName("v1")
			w.NoError(err)
			w.NoError(change(l))
		})
	}
	set(netlink.LinkSetDown)
	const lost = 40
	for i := range lost {
		w.True(w.trySend(q, "10.0.0.1:4000", "10.0.0.2:5000", fmt.Sprint("lost ", i), uint64(i%2)))
	}
	w.Error(q.Flush())
	done := 0
	var list [16]link.Done
	for end := time.Now().Add(patience); q.Unsent() > 0; {
		w.True(time.Now().Before(end), "%d frames unsent", q.Unsent())
		_ = q.Flush()
		for _, x := range list[:q.Complete(list[:])] {
			w.NoError(x.Packet.Release())
			done++
		}
	}
	w.Equal(lost/2, done)
	w.EqualValues(1, q.Stats().TxFrames)
	w.EqualValues(lost, q.Stats().TxLost)
	w.EqualValues(lost, w.counter(q, "xdp.tx_no_carrier"))

	set(netlink.LinkSetUp)
	w.inPeer(func() { w.neighbour("v1", ours, w.mac) })
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		l, err := netlink.LinkByName("v0")
		w.NoError(err)
		if l.Attrs().RawFlags&(1<<16) != 0 { // IFF_LOWER_UP
			break
		}
		w.True(time.Now().Before(end), "no carrier")
	}
	for i := range 3000 { // more than the ring has entries: those of the lost frames are free
		text := fmt.Sprint("after ", i)
		w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", text, 0)
		w.Equal(text, w.read(peer))
		q.Complete(nil)
	}
	w.complete(q)
	w.EqualValues(3001, q.Stats().TxFrames)
	w.EqualValues(lost, q.Stats().TxLost)
}
