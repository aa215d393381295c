package ringtest

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// pacingStream: TCP is paced by the kernel.
func pacingStream(t *testing.T, b Backend) {
	w := newWorld(t, b)
	rate := func(s *ring.Socket) uint64 {
		v, err := unix.GetsockoptUint64(s.ID(), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE)
		w.NoError(err)
		return v
	}
	l := w.listen()
	w.NoError(l.SetPacing(ring.Pacing{Rate: 5_000_000}))
	peer := w.dial(l)
	s := w.accept(l).Socket
	w.Equal(uint64(5_000_000), rate(s), "from the listener")
	w.Equal(uint64(5_000_000), s.Pacing().Rate)
	w.NoError(s.SetPacing(ring.Pacing{Rate: 5_000_000_000}), "more than 32 bits")
	w.Equal(uint64(5_000_000_000), rate(s))
	w.NoError(s.SetPacing(ring.Pacing{}))
	w.Equal(^uint64(0), rate(s))

	for _, p := range []ring.Pacing{{Rate: 1e6, Burst: 5000}, {Rate: 1e6, Packet: 500}, {Rate: 1e6, Overhead: 40}} {
		err := s.SetPacing(p)
		w.ErrorIs(err, ring.ErrNotSupported)
		w.ErrorContains(err, "rate only")
	}
	w.Zero(s.Pacing())

	const total = 3_000_000
	w.NoError(s.SetPacing(ring.Pacing{Rate: 20_000_000}))
	done := make(chan time.Duration, 1)
	begin := time.Now()
	go func() {
		b := make([]byte, 1<<16)
		n := 0
		for n < total {
			k, err := peer.Read(b)
			if err != nil {
				break
			}
			n += k
		}
		done <- time.Since(begin)
	}()
	data := make([]byte, total)
	for sent := 0; sent < total; {
		n, err := s.Send(data[sent:])
		if sent += n; err != nil {
			w.ErrorIs(err, ring.ErrWouldBlock)
			w.event(s, ring.EventOut, nil)
		}
	}
	took := <-done
	w.GreaterOrEqual(took, 60*time.Millisecond, "3 MB at 20 MB/s, less what TCP sends before it paces")
	w.Less(took, patience/2)
}

// pacingErrors: an ICMP error about an earlier datagram is reported, and no queued datagram is lost because of it.
func pacingErrors(t *testing.T, b Backend) {
	if b.Open != nil {
		t.Skip("only a kernel socket has an error that the next send is told of")
	}
	w := newWorld(t, b)
	u := w.udp(w.local)
	w.poll()
	gone := w.udpPeer(u.LocalAddr())
	to := gone.LocalAddr().(*net.UDPAddr).AddrPort()
	w.NoError(gone.Close())
	w.NoError(u.Connect(to))
	w.NoError(u.SetPacing(ring.Pacing{Rate: 100_000, Burst: 1000}))
	refused := 0
	for i := range 4 {
		_, err := u.Send(numbered(i, 1000))
		if errors.Is(err, unix.ECONNREFUSED) { // on a slow machine it is due at once, and its own call is told of the one before
			refused++
			_, err = u.Send(numbered(i, 1000))
		}
		w.NoError(err)
	}
	for end := time.Now().Add(patience); refused == 0 || w.set.Rings()[0].Stats().SentMessages < 4; {
		w.True(time.Now().Before(end))
		w.poll()
		for len(w.kept) > 0 {
			w.event(u, ring.EventErr, unix.ECONNREFUSED)
			refused++
		}
	}
	w.closeAndWait(u)
	w.Zero(w.set.Rings()[0].Stats().LostSends)
}

// pacingAllocation is the case "no allocation on the paced path".
func pacingAllocation(t *testing.T, b Backend) {
	switch {
	case raceEnabled:
		t.Skip("the race detector allocates by itself; the build without it asserts this")
	case b.Open != nil:
		t.Skip("the other end allocates; the driver's own tests assert this")
	}
	w := newWorld(t, b)
	u, _, to := w.paced(ring.Pacing{Rate: 50_000_000, Burst: 2000}, ring.Config{})
	r := u.Ring()
	data := make([]byte, 1000)
	dst := make([]ring.Completion, 8)
	turn := func() {
		for range 4 {
			if _, err := u.SendTo(data, to); err != nil {
				t.Fatal(err)
			}
		}
		for w.pool.Ledger().Transmitting > 0 {
			if _, err := r.Poll(dst); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A machine that takes longer for a datagram than the rate does has nothing to pace: it gets a lower rate.
	for rate := uint64(50_000_000); ; rate /= 4 {
		w.NoError(u.SetPacing(ring.Pacing{Rate: rate, Burst: 2000}))
		for range 100 {
			turn()
		}
		before := r.Stats().Paced
		w.Zero(testing.AllocsPerRun(200, turn))
		if r.Stats().Paced > before+200 {
			return
		}
		w.Greater(rate, uint64(100_000), "nothing was paced")
	}
}
