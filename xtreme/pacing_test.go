package xtreme_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/pace/pacetest"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// stampedPeer is a kernel socket that asks the kernel when each datagram came.
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
	testnet.Stamped(t, c)
	return &stampedPeer{t: t, conn: c}
}

func (p *stampedPeer) addr() netip.AddrPort { return addr(p.conn.LocalAddr()) }

// read takes the next datagram that came, with its stamp; the first ones after stamping was switched on may have none.
func (p *stampedPeer) read(wait time.Duration) (data []byte, stamp int64, ok bool) {
	require.NoError(p.t, p.conn.SetReadDeadline(time.Now().Add(wait)))
	n, k, _, _, err := p.conn.ReadMsgUDP(p.data[:], p.info[:])
	if err != nil {
		return nil, 0, false
	}
	return p.data[:n], sys.ParseControl(p.info[:k]).Stamp, true
}

// ready waits until the kernel stamps.
func (p *stampedPeer) ready() {
	for end := time.Now().Add(10 * time.Second); ; {
		_, err := p.conn.WriteToUDPAddrPort([]byte("x"), p.addr())
		require.NoError(p.t, err)
		if _, at, ok := p.read(time.Second); ok && at != 0 {
			return
		}
		require.True(p.t, time.Now().Before(end), "the kernel does not stamp")
	}
}

// pacedRound sends without pause for d, and reports what came.
func pacedRound(w *world, r pacetest.Rule, d time.Duration) (all []pacetest.Arrival, notes *pacetest.Notes) {
	w.t.Helper()
	const queue = 64
	peer := newStampedPeer(w.t)
	peer.ready()
	s := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{SendQueue: queue},
		IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: r.Rate, Burst: r.Burst}}})
	done := make(chan []pacetest.Arrival, 1)
	go func() {
		var all []pacetest.Arrival
		for {
			data, stamp, ok := peer.read(200 * time.Millisecond)
			if !ok {
				done <- all
				return
			}
			all = append(all, pacetest.Arrival{Number: int(binary.LittleEndian.Uint32(data)), At: stamp})
		}
	}()
	realtime := func() int64 { // the clock of the kernel's stamps
		var now unix.Timespec
		w.NoError(unix.ClockGettime(unix.CLOCK_REALTIME, &now))
		return now.Nano()
	}
	notes = pacetest.NewNotes(r)
	data, given := make([]byte, r.Size), 0
	for begin := realtime(); ; {
		now := realtime()
		if now-begin > int64(d) {
			break
		}
		for {
			binary.LittleEndian.PutUint32(data, uint32(given))
			if _, err := s.SendTo(data, peer.addr()); err != nil {
				w.ErrorIs(err, xtreme.ErrWouldBlock)
				break
			}
			given++
		}
		notes.Turn(now, given-queue)
		w.poll()
		for _, c := range w.kept {
			w.Equal(xtreme.EventOut, c.Events)
		}
		w.kept = w.kept[:0]
	}
	w.NoError(s.Abort()) // what still waits is not looked at
	w.event(s, xtreme.EventClosed)
	all = <-done
	for i := range all {
		all[i].Since = notes.Since(all[i].Number)
	}
	return all, notes
}

// The receiver sees the rate, in no time more than rate × time + burst, and on the average the rate, of the time in which the sender could run:
// see package pacetest for how it is judged, and for the long form.
func TestPacingSeenByTheReceiver(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, megabits := range []uint64{1, 10, 100} {
			t.Run(fmt.Sprintf("%d Mbit/s", megabits), func(t *testing.T) {
				rate := megabits * 125_000
				r := pacetest.Rule{Rate: rate, Burst: max(int(rate/100), 3000), Size: 1000, Drift: pacetest.SystemClocks}
				w := newWorld(t, kind)
				r.Keeps(t, 400*time.Millisecond, func(d time.Duration) ([]pacetest.Arrival, *pacetest.Notes) { return pacedRound(w, r, d) })
			})
		}
	})
}

// A bad rate refuses the socket, and is named.
func TestPacingOption(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	_, err := w.poller.OpenUDP(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 1 << 41}}})
	w.ErrorIs(err, unix.EINVAL)
	w.ErrorContains(err, "2199023255552")
	_, err = w.poller.ListenTCP(loopback, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 1000, Burst: 9000}}})
	w.ErrorIs(err, xtreme.ErrNotSupported)
	l := w.listen(xtreme.ListenConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 70_000}}})
	s, _ := w.pair(l)
	w.Equal(70_000, w.sockopt(s, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE))
	w.Equal(xtreme.PacingRate{Rate: 70_000}, s.Pacing())
}

// On a ring that sends without a copy the path says that a paced socket does not.
func TestPacingPath(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		plain, paced := w.udp(loopback), w.udp(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 1000}}})
		has := func(s *xtreme.Socket) bool {
			return slices.ContainsFunc(s.Path().Reasons, func(r xtreme.Reason) bool { return r.Code == "pace.copies" })
		}
		w.False(has(plain))
		w.Equal(kind == conf.RingUring, has(paced))
	})
}

// The longest datagram of IPv6 is 20 bytes longer than that of IPv4, whether it leaves at once or waits for its time; one more is refused.
func TestPacingOfTheLongestDatagrams(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, c := range []struct {
			local netip.AddrPort
			most  int
		}{{loopback, 65507}, {loopback6, 65527}} {
			w := newWorld(t, kind)
			peer := w.peer(c.local)
			w.NoError(peer.SetReadBuffer(1 << 20))
			to := addr(peer.LocalAddr())
			s := w.udp(c.local, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: 1 << 20, Burst: 70_000}}})
			for range 2 { // at once, and later
				n, err := s.SendTo(make([]byte, c.most), to)
				w.NoError(err)
				w.Equal(c.most, n)
				_, err = s.SendTo(make([]byte, c.most+1), to)
				w.ErrorIs(err, unix.EMSGSIZE)
				w.ErrorIs(s.WarmSend(make([]byte, c.most+1), to), unix.EMSGSIZE)
			}
			w.Equal(uint64(1), s.Ring().Stats().Paced)
			w.until("the second", func() bool { w.poll(); return s.Stats().SentMessages == 2 && s.Ring().Ledger().Transmitting == 0 })
			for range 2 {
				n, err := peer.Read(make([]byte, 1<<16))
				w.NoError(err)
				w.Equal(c.most, n)
			}
			w.close(s)
		}
	})
}

// Empty datagrams are charged a byte each: a rate bounds how many of them leave too.
func TestPacingOfEmptyDatagrams(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		const rate, burst = 1000, 10
		w := newWorld(t, kind)
		peer := newStampedPeer(t)
		s := w.udp(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: rate, Burst: burst, Packet: 1}}})
		begin := time.Now()
		for time.Since(begin) < 50*time.Millisecond || s.Ring().Stats().SentMessages <= burst { // more than the burst, on a busy machine too
			w.Less(time.Since(begin), patience)
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
		w.event(s, xtreme.EventClosed)
	})
}
