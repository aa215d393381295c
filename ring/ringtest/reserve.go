package ringtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// reserves are pools of which receiving may take little: counts of small and of large buffers, and how many of each are kept for sending.
var reserves = []struct{ small, large, forSmall, forLarge int }{
	{1280, 32, 1024, 4}, {256, 40, 192, 32}, {968, 32, 768, 28}, {64, 8, 8, 1}, {64, 8, 60, 6}, {64, 8, 62, 6}, {64, 8, 63, 6}, {1, 2, 0, 0},
}

// besideReserve: sockets receive although most of the pool is kept for sending. What a driver takes ahead is measured by the rest.
func besideReserve(t *testing.T, b Backend) {
	for _, r := range reserves {
		if b.Open != nil && r.small-r.forSmall < 4 {
			continue // all that receiving may take lies ready for the cards: no other socket can have any
		}
		t.Run(fmt.Sprintf("%d of %d small, %d of %d large", r.forSmall, r.small, r.forLarge, r.large), func(t *testing.T) {
			b.reserve = [buffers.NumClasses]int{buffers.Small: r.forSmall, buffers.Large: r.forLarge}
			w := newWorld(t, b, func(l *buffers.Layout, _ *ring.SetConfig) { l.SmallCount, l.LargeCount = r.small, r.large })
			if !b.Streams {
				small, large := w.udp(w.local, ring.Config{LargestDatagram: 1500}), w.udp(w.local)
				for i := range 5 {
					for _, u := range []*ring.Socket{small, large} {
						w.write(w.udpPeer(u.LocalAddr()), []byte{byte(i)})
						c := w.event(u, ring.EventPacket, nil)
						w.Equal([]byte{byte(i)}, c.Packet.Bytes())
						w.release(c)
					}
				}
			}
			if !b.Datagrams {
				small, toSmall := w.pair()
				large, toLarge := w.pair()
				w.NoError(large.SetLargeStream(true))
				for i := range 5 {
					w.write(toSmall, []byte{byte(i)})
					w.Equal([]byte{byte(i)}, w.read(small, 1))
					w.write(toLarge, []byte{byte(i)})
					w.Equal([]byte{byte(i)}, w.read(large, 1))
				}
			}
		})
	}
}

// oneHolderBesideReserve: a socket whose packets are held leaves buffers to another one although most of the pool is kept for sending.
func oneHolderBesideReserve(t *testing.T, b Backend) {
	b.reserve[buffers.Small] = 192
	w := newWorld(t, b, func(l *buffers.Layout, _ *ring.SetConfig) { l.SmallCount = 256 })
	greedy := w.udp(w.local, ring.Config{LargestDatagram: 1500})
	modest := w.udp(w.local, ring.Config{LargestDatagram: 1500})
	w.NoError(greedy.SetReceiveBuffer(1 << 20))
	toGreedy, toModest := w.udpPeer(greedy.LocalAddr()), w.udpPeer(modest.LocalAddr())
	for i := range 200 {
		w.write(toGreedy, []byte("hoard"))
		w.poll()
		if i%10 == 0 {
			got := false
			for end := time.Now().Add(patience); !got; {
				w.True(time.Now().Before(end), "nothing for the modest socket beside %d held packets: %v", len(w.kept), w.pool.Ledger())
				w.write(toModest, []byte("pass")) // again: a card without a free buffer loses it
				for turn := 0; turn < 100 && !got; turn++ {
					w.poll()
					time.Sleep(20 * time.Microsecond)
					if k := slices.IndexFunc(w.kept, func(c ring.Completion) bool { return c.Socket == modest }); k >= 0 {
						got = true
						w.release(w.kept[k])
						w.kept = slices.Delete(w.kept, k, k+1)
					}
				}
			}
		}
	}
	w.Less(len(w.kept), 64)
}
