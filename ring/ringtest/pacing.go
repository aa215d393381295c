package ringtest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// arrival is a numbered datagram at the other end.
type arrival struct {
	at     time.Time
	number uint32
	bytes  int
}

// arrivals reads n numbered datagrams of a peer on a goroutine of its own. One that is read late looks late, never early.
func (w *world) arrivals(p Peer, n int) chan []arrival {
	done := make(chan []arrival, 1)
	go func() {
		var all []arrival
		b := make([]byte, 65536)
		for len(all) < n {
			k, err := p.Read(b)
			if err != nil || k < 4 {
				break
			}
			all = append(all, arrival{time.Now(), binary.LittleEndian.Uint32(b), k})
		}
		done <- all
	}()
	return done
}

func numbered(i, size int) []byte {
	b := make([]byte, size)
	binary.LittleEndian.PutUint32(b, uint32(i))
	return b
}

// paced returns a paced socket and a peer of its own.
func (w *world) paced(p ring.Pacing, c ring.Config) (*ring.Socket, Peer, netip.AddrPort) {
	w.t.Helper()
	u := w.udp(w.local, c)
	w.poll()
	peer := w.udpPeer(u.LocalAddr())
	w.NoError(peer.SetReadBuffer(1 << 20))
	w.NoError(u.SetPacing(p))
	return u, peer, peer.LocalAddr().(*net.UDPAddr).AddrPort()
}

// within checks that no more arrived than rate × time + burst since begin, and that all arrived in order.
func (w *world) within(begin time.Time, p ring.Pacing, got []arrival, want int) {
	w.t.Helper()
	w.Len(got, want)
	bytes := 0
	for i, a := range got {
		w.Equal(uint32(i), a.number)
		bytes += a.bytes
		most := float64(p.Burst) + float64(p.Rate)*a.at.Sub(begin).Seconds()
		w.LessOrEqual(float64(bytes), most, "datagram %d after %v", i, a.at.Sub(begin))
	}
}

// pacing: what is sent at once leaves at the socket's rate, while the ring is polled and while it sleeps by Wait or on its descriptor; every way
// of sending waits its turn.
func pacing(t *testing.T, b Backend) {
	w := newWorld(t, b)
	p := ring.Pacing{Rate: 1_000_000, Burst: 3000}
	const n, size = 39, 1000
	for _, rest := range []string{"poll", "wait", "fd"} {
		u, peer, to := w.paced(p, ring.Config{})
		r := u.Ring()
		w.Equal(1500, u.Pacing().Packet)
		set, err := sys.NewPollSet()
		w.NoError(err)
		w.NoError(set.Add(r.FD()))
		before := r.Stats()
		done := w.arrivals(peer, n)
		begin := time.Now()
		for i := range n {
			data := numbered(i, size)
			switch i % 3 {
			case 0:
				_, err = u.SendTo(data, to)
			case 1:
				_, err = u.SendVector([][]byte{data[:100], data[100:]}, to)
			case 2:
				err = u.SendPacket(w.packet(data), to, uint64(i))
			}
			w.NoError(err)
		}
		w.GreaterOrEqual(r.Stats().Paced-before.Paced, uint64(n/2), rest)
		var got []arrival
		polls := 0
		for got == nil {
			select {
			case got = <-done:
			default:
				if polls++; rest == "wait" {
					w.NoError(r.Wait(patience))
				} else if rest == "fd" {
					if pending, err := r.Arm(); !pending {
						w.NoError(err)
						w.NoError(set.Wait(patience))
					}
				}
				w.poll()
				w.Less(time.Since(begin), patience/2, "%s: the ring does not wake for what waits", rest)
				if rest != "poll" && len(w.kept) == n/3 {
					got = <-done // the last one was SENT: nothing is left to wake for
				}
			}
		}
		w.within(begin, p, got, n)
		w.GreaterOrEqual(time.Since(begin), 35*time.Millisecond)
		for i := 2; i < n; i += 3 {
			c := w.event(u, ring.EventSent, nil)
			w.Equal(uint64(i), c.Token)
		}
		w.NoError(set.Close())
		w.closeAndWait(u)
	}
}

// pacingQueue: the queue of a paced socket has an end, and OUT says that half of it is free.
func pacingQueue(t *testing.T, b Backend) {
	w := newWorld(t, b)
	p := ring.Pacing{Rate: 100_000, Burst: 1000}
	const queue, size = 8, 1000
	u, peer, to := w.paced(p, ring.Config{SendQueue: queue})
	const each = 10 * time.Millisecond // of a datagram
	begin := time.Now()
	sent := 0
	// fill sends until the queue is full: room datagrams, and one more for each that has left meanwhile, if the machine was busy.
	fill := func(since time.Time, room int) {
		for n := 0; ; n++ {
			if _, err := u.SendTo(numbered(sent, size), to); err != nil {
				w.ErrorIs(err, ring.ErrWouldBlock)
				w.GreaterOrEqual(n, room)
				return
			}
			w.LessOrEqual(n+1, room+int(time.Since(since)/each), "a queue without an end")
			if sent++; sent == 1 {
				w.flush()
			}
		}
	}
	fill(begin, 1+queue)
	if time.Since(begin) < each/2 { // nothing has left
		extra := w.packet(numbered(0, size))
		w.ErrorIs(u.SendPacket(extra, to, 1), ring.ErrWouldBlock)
		w.NoError(extra.Release())
	}
	w.event(u, ring.EventOut, nil)
	w.GreaterOrEqual(time.Since(begin), 39*time.Millisecond, "four of them need 40 ms")
	fill(begin, queue/2)
	w.event(u, ring.EventOut, nil)
	done := w.arrivals(peer, sent)

	// A limit that is lifted lets go what waits.
	w.NoError(u.SetPacing(ring.Pacing{}))
	if b.Open == nil {
		w.Zero(w.pool.Ledger().Transmitting, "nothing is left to wait for")
	}
	w.flush()
	var got []arrival
	for got == nil {
		select {
		case got = <-done:
		default:
			w.poll()
		}
	}
	w.Len(got, sent)
	w.Zero(u.Pacing())
}

// pacingClose: what waits still goes out after Close, at its rate, until the close timeout.
func pacingClose(t *testing.T, b Backend) {
	w := newWorld(t, b)
	p := ring.Pacing{Rate: 200_000, Burst: 1000}
	const n, size = 12, 1000
	u, peer, to := w.paced(p, ring.Config{})
	done := w.arrivals(peer, n)
	begin := time.Now()
	for i := range n {
		_, err := u.SendTo(numbered(i, size), to)
		w.NoError(err)
	}
	w.NoError(u.Close())
	w.event(u, ring.EventClosed, nil)
	w.GreaterOrEqual(time.Since(begin), 54*time.Millisecond)
	w.within(begin, p, <-done, n)
	w.Zero(w.set.Rings()[0].Stats().LostSends)

	u, _, to = w.paced(p, ring.Config{CloseTimeout: 20 * time.Millisecond})
	for i := range n {
		_, err := u.SendTo(numbered(i, size), to)
		w.NoError(err)
	}
	w.NoError(u.SendPacket(w.packet(numbered(n, size)), to, 5))
	w.NoError(u.Close())
	c := w.event(u, ring.EventSent, ring.ErrClosed)
	w.Equal(uint64(5), c.Token)
	w.event(u, ring.EventClosed, nil)
	lost := w.set.Rings()[0].Stats().LostSends
	w.NotZero(lost, "what was given up is counted")
	w.Less(lost, uint64(n))
}

// pacingArguments is the case "pacing: bad arguments are named".
func pacingArguments(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	for _, test := range []struct {
		p     ring.Pacing
		names string
	}{
		{ring.Pacing{Rate: 1<<40 + 1}, "1099511627777"},
		{ring.Pacing{Rate: 1000, Burst: -1}, "burst -1"},
		{ring.Pacing{Rate: 1000, Burst: 1<<30 + 1}, "1073741825"},
		{ring.Pacing{Rate: 1000, Packet: -2}, "packet -2"},
		{ring.Pacing{Rate: 1000, Packet: 65536}, "65536"},
		{ring.Pacing{Rate: 1000, Overhead: 257}, "overhead 257"},
		{ring.Pacing{Rate: 1000, Overhead: -3}, "overhead -3"},
		{ring.Pacing{Rate: 1000, Burst: 900, Packet: 1000}, "900"},
		{ring.Pacing{Burst: 5000}, "without a rate"},
	} {
		err := u.SetPacing(test.p)
		w.ErrorIs(err, unix.EINVAL)
		w.ErrorContains(err, test.names)
		w.Zero(u.Pacing())
	}
	w.NoError(u.SetPacing(ring.Pacing{}), "nothing to end")
	// What is left to the library: a millisecond's worth, or two datagrams.
	w.NoError(u.SetPacing(ring.Pacing{Rate: 12_500_000}))
	w.Equal(ring.Pacing{Rate: 12_500_000, Burst: 12_500, Packet: 1500}, u.Pacing())
	w.NoError(u.SetPacing(ring.Pacing{Rate: 125_000, Packet: 100, Overhead: 42}))
	w.Equal(ring.Pacing{Rate: 125_000, Burst: 284, Packet: 100, Overhead: 42}, u.Pacing())
	// Before there is a ring it is only noted.
	early := w.socket(ring.KindDatagram, w.local)
	w.NoError(early.SetPacing(ring.Pacing{Rate: 1000}))
	w.NoError(early.Bind(w.local))
	w.Equal(uint64(1000), early.Pacing().Rate)
	w.closeAndWait(early)
	w.ErrorIs(early.SetPacing(ring.Pacing{Rate: 1000}), ring.ErrClosed)
	// A datagram that is too long is refused before it waits.
	to := w.peers.Nobody()
	for range 3 {
		_, _ = u.SendTo(make([]byte, 1000), to)
	}
	_, err := u.SendTo(make([]byte, 65600), to)
	w.ErrorIs(err, unix.EMSGSIZE)
}

// pacingLong: a longer datagram than the burst leaves when the whole burst may, and is paid for afterwards.
func pacingLong(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u, peer, to := w.paced(ring.Pacing{Rate: 200_000, Burst: 1000}, ring.Config{})
	done := w.arrivals(peer, 3)
	begin := time.Now()
	for i, size := range []int{8000, 4, 1000} {
		_, err := u.SendTo(numbered(i, size), to)
		w.NoError(err)
	}
	w.closeAndWait(u)
	got := <-done
	w.Len(got, 3)
	w.GreaterOrEqual(got[1].at.Sub(begin), 35*time.Millisecond, "7,004 bytes too many")
	w.GreaterOrEqual(got[2].at.Sub(begin), 40*time.Millisecond)
}
