package xtreme_test

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// stampedPeer is a kernel socket that hears from the kernel when each datagram came.
type stampedPeer struct {
	t    *testing.T
	conn *net.UDPConn
	data [65536]byte
	info [256]byte
}

func newStampedPeer(t *testing.T) *stampedPeer {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetReadBuffer(8<<20))
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING,
			unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
	}))
	require.NoError(t, failed)
	return &stampedPeer{t: t, conn: c}
}

func (p *stampedPeer) addr() netip.AddrPort { return addr(p.conn.LocalAddr()) }

// read takes the next datagram that was stamped; the first ones after stamping was switched on may not be.
func (p *stampedPeer) read(wait time.Duration) (data []byte, stamp int64, ok bool) {
	require.NoError(p.t, p.conn.SetReadDeadline(time.Now().Add(wait)))
	n, k, _, _, err := p.conn.ReadMsgUDP(p.data[:], p.info[:])
	if err != nil {
		return nil, 0, false
	}
	return p.data[:n], sys.ParseControl(p.info[:k]).Stamp, true
}

// pacedArrival is one datagram of a paced stream, as the receiver's kernel saw it.
type pacedArrival struct {
	at    int64
	bytes int
}

// pause is a time in which the machine did not let a sender run for longer than its burst lasts: what it was longer is lost to any pacer.
type pause struct {
	times int
	lost  time.Duration
}

// pacedRound sends without pause for d, and tells what came.
func pacedRound(w *world, p xtreme.PacingRate, d time.Duration) (all []pacedArrival, paused pause) {
	w.t.Helper()
	patient := time.Duration(p.Burst) * time.Second / time.Duration(p.Rate)
	const size = 1000
	peer := newStampedPeer(w.t)
	s := w.udp(loopback, xtreme.Pacing(p), xtreme.SendQueue(64))
	defer w.close(s)
	done := make(chan []pacedArrival, 1)
	go func() {
		var all []pacedArrival
		for {
			data, stamp, ok := peer.read(300 * time.Millisecond)
			if !ok {
				done <- all
				return
			}
			all = append(all, pacedArrival{stamp, len(data)})
		}
	}()
	data := make([]byte, size)
	room := true
	begin := time.Now()
	for last := begin; ; {
		now := time.Now()
		if more := now.Sub(last) - patient; more > 0 {
			paused.times++
			paused.lost += more
		}
		last = now
		if now.Sub(begin) > d {
			break
		}
		for room {
			if _, err := s.SendTo(data, peer.addr()); err != nil {
				w.ErrorIs(err, xtreme.ErrWouldBlock)
				room = false
			}
		}
		w.poll()
		for _, c := range w.kept {
			w.Equal(xtreme.Out, c.Events)
			room = true
		}
		w.kept = w.kept[:0]
	}
	return <-done, paused
}

// The receiver sees the rate: in 99 % of all windows of 10 ms not more than rate × 10 ms + burst, and on the average the rate within 1 %, of
// the time in which the sender could run. Other processes may come between its reading the clock and its sending: a few rounds are
// allowed for one that is right. Under the race detector the processor may be too slow for the rate: there only too much is wrong.
func TestPacingSeenByTheReceiver(t *testing.T) {
	d := 400 * time.Millisecond
	if text := os.Getenv("SOCKETXTREME_LONG"); text != "" {
		var err error
		d, err = time.ParseDuration(text)
		require.NoError(t, err, "SOCKETXTREME_LONG=%s", text)
	}
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, megabits := range []uint64{1, 10, 100} {
			t.Run(fmt.Sprintf("%d Mbit/s", megabits), func(t *testing.T) {
				rate := megabits * 125_000
				p := xtreme.PacingRate{Rate: rate, Burst: max(int(rate/100), 3000)}
				w := newWorld(t, kind)
				var wrong error
				for range 5 {
					all, paused := pacedRound(w, p, d)
					t.Logf("%d datagrams; the sender was stopped %d times, %v too long", len(all), paused.times, paused.lost)
					if wrong = judgePaced(all, p, paused); wrong == nil {
						break
					}
				}
				w.NoError(wrong)
			})
		}
	})
}

func judgePaced(all []pacedArrival, p xtreme.PacingRate, paused pause) error {
	const window = int64(10 * time.Millisecond)
	slices.SortStableFunc(all, func(a, b pacedArrival) int { return cmp.Compare(a.at, b.at) })
	for len(all) > 0 && all[0].at == 0 {
		all = all[1:] // under way when stamping was switched on
	}
	if len(all) < 20 {
		return fmt.Errorf("%d datagrams are too few to judge", len(all))
	}
	over, most := 0, float64(p.Rate)*0.010+float64(p.Burst)
	end, bytes := 0, 0
	for begin := range all {
		for end < len(all) && all[end].at < all[begin].at+window {
			bytes += all[end].bytes
			end++
		}
		if float64(bytes) > most {
			over++
		}
		bytes -= all[begin].bytes
	}
	if float64(over) > 0.01*float64(len(all)) {
		return fmt.Errorf("%d of %d windows have more than %.0f bytes", over, len(all), most)
	}

	// The average of what was sent after the burst it began with, to the last whole datagram.
	first, burst := 0, 0
	for burst < p.Burst {
		burst += all[first].bytes
		first++
	}
	last, total := len(all)-1, 0.0
	for _, a := range all[first+1 : last+1] {
		total += float64(a.bytes)
	}
	took := time.Duration(all[last].at - all[first].at)
	most = 1.01 * float64(p.Rate) * took.Seconds()
	// Where a pause began between two datagrams is not known.
	least := 0.99*float64(p.Rate)*(took-paused.lost).Seconds() - float64(paused.times*all[last].bytes)
	if total > most || total < least && !raceEnabled {
		return fmt.Errorf("%.0f bytes in %v after the first %d, want %.0f to %.0f", total, took, burst, least, most)
	}
	return nil
}

// A bad rate refuses the socket, and names the option.
func TestPacingOption(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	_, err := w.owner.OpenUDP(loopback, xtreme.Pacing(xtreme.PacingRate{Rate: 1 << 41}))
	w.ErrorIs(err, unix.EINVAL)
	w.ErrorContains(err, "2199023255552")
	_, err = w.owner.ListenTCP(loopback, xtreme.Pacing(xtreme.PacingRate{Rate: 1000, Burst: 9000}))
	w.ErrorIs(err, xtreme.ErrNotSupported)
	_, err = w.owner.ListenUnix("/nowhere", xtreme.Pacing(xtreme.PacingRate{Rate: 1000}))
	w.ErrorContains(err, "Pacing")
	l := w.listen(xtreme.Pacing(xtreme.PacingRate{Rate: 70_000}))
	s, _ := w.pair(l)
	w.Equal(70_000, w.sockopt(s, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE))
	w.Equal(xtreme.PacingRate{Rate: 70_000}, s.Pacing())
}

// On a ring that sends without a copy the path says that a paced socket does not.
func TestPacingPath(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		plain, paced := w.udp(loopback), w.udp(loopback, xtreme.Pacing(xtreme.PacingRate{Rate: 1000}))
		has := func(s *xtreme.Socket) bool {
			return slices.ContainsFunc(s.Path().Reasons, func(r xtreme.Reason) bool { return r.Code == "pace.copies" })
		}
		w.False(has(plain))
		w.Equal(kind == conf.RingUring, has(paced))
	})
}

// Empty datagrams are charged a byte each: a rate bounds how many of them leave too.
func TestPacingOfEmptyDatagrams(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		const rate, burst = 1000, 10
		w := newWorld(t, kind)
		peer := newStampedPeer(t)
		s := w.udp(loopback, xtreme.Pacing(xtreme.PacingRate{Rate: rate, Burst: burst, Packet: 1}))
		begin := time.Now()
		for time.Since(begin) < 50*time.Millisecond {
			if _, err := s.SendTo(nil, peer.addr()); err != nil {
				w.ErrorIs(err, ring.ErrWouldBlock)
			}
			w.poll()
		}
		most := burst + 1 + int(time.Since(begin)*rate/time.Second)
		got := 0
		for ; got <= most; got++ {
			if _, _, ok := peer.read(20 * time.Millisecond); !ok {
				break
			}
		}
		w.LessOrEqual(got, most)
		w.Greater(got, burst)
		w.NoError(s.Abort())
		w.event(s, xtreme.Closed)
	})
}
