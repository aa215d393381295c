package ringtest

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/pace/pacetest"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// pacingRule: at the sender the rule holds to the byte, over every stretch of time, and a socket that always has something gets the whole of its
// rate. The ring's time is the case's: it moves only between turns, so that no machine can be too slow for it, nor hide what is wrong.
func pacingRule(t *testing.T, b Backend) {
	// Time goes on from the present: the rest of the ring need not know.
	present, moved := clock.Now(), clock.Manual{}
	w := newWorld(t, b, func(_ *buffers.Layout, c *ring.SetConfig) {
		c.Clock = func() clock.Time { return present + moved.Now() }
	})
	rates := []uint64{125_000, 1_250_000, 12_500_000}
	if raceEnabled || testnet.IsSlow() {
		rates = rates[:2] // the last has ten times as many datagrams as both
	}
	for _, rate := range rates {
		r := pacetest.Rule{Rate: rate, Burst: max(int(rate/200), 3000), Size: 1000}
		asked := ring.Pacing{Rate: rate, Burst: r.Burst}
		all := w.pacedInTime(&moved, asked, r.Size)
		w.NoError(r.Check(all), "rate %d", rate)
		w.NoError(r.Least(all, 0), "rate %d", rate)
		w.Zero(r.Windows(all), "rate %d", rate)

		// The case would see a socket that does otherwise.
		fast, slow, large := asked, asked, asked
		fast.Rate, slow.Rate, large.Burst = rate*11/10, rate*9/10, 2*r.Burst
		w.Error(r.Check(w.pacedInTime(&moved, fast, r.Size)), "rate %d: a tenth too fast", rate)
		w.Error(r.Check(w.pacedInTime(&moved, large, r.Size)), "rate %d: a burst too large", rate)
		w.Error(r.Least(w.pacedInTime(&moved, slow, r.Size), 0), "rate %d: a tenth too slow", rate)
	}
}

// pacedInTime makes a socket send all that it may for 200 ms of the manual clock, and returns when each datagram arrived.
func (w *world) pacedInTime(moved *clock.Manual, p ring.Pacing, size int) (all []pacetest.Arrival) {
	w.t.Helper()
	const queue = 32
	u := w.udp(w.local, ring.Config{SendQueue: queue})
	w.poll()
	peer := w.udpPeer(u.LocalAddr())
	defer peer.Close()
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	data, in := make([]byte, size), make([]byte, size)
	given := 0
	fill := func() (gone int) {
		for {
			binary.LittleEndian.PutUint32(data, uint32(given))
			if _, err := u.SendTo(data, to); err != nil {
				w.ErrorIs(err, ring.ErrWouldBlock)
				return given - queue // it is full
			}
			given++
		}
	}
	w.NoError(peer.SetReadBuffer(1 << 20))
	w.NoError(u.SetPacing(p))
	random := rand.New(rand.NewPCG(p.Rate, uint64(p.Burst)))
	for end := moved.Now().Add(200 * time.Millisecond); moved.Now() < end; {
		for still := 0; still < 3; { // until nothing may leave any more at this time
			gone := fill()
			w.poll()
			w.kept = w.kept[:0] // OUT: there is room
			for still++; len(all) < gone; still = 0 {
				n, err := peer.Read(in)
				w.NoError(err, "datagram %d of %d", len(all), gone)
				w.Equal(size, n)
				at := int64(moved.Now())
				all = append(all, pacetest.Arrival{Number: int(binary.LittleEndian.Uint32(in)), At: at, Since: at})
			}
		}
		// The owner comes late now and then, by less than the least burst lasts.
		d := time.Duration(random.Int64N(int64(200 * time.Microsecond)))
		if random.IntN(50) == 0 {
			d += 4 * time.Millisecond
		}
		moved.Advance(d)
	}
	w.NoError(u.Abort())
	w.event(u, ring.EventClosed, nil)
	return all
}
