package xtreme_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func realtime(t *testing.T) int64 {
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_REALTIME, &now))
	return now.Nano()
}

// The kernel stamps a datagram over loopback inside the call that sends it. So a stamp lies between the beginning and the end of that call, on
// the ring as on a kernel socket that has SO_TIMESTAMPING and gets the same traffic; also when nobody polls for 5 ms, because the stamp is the
// kernel's and not the poll's. A stamp outside is a fault where the kernel socket has none. Loopback is no card that stamps: where one is asked
// for, by VMA_HW_TS_CONVERSION or by the configuration, the stamps are the same, and the path says that there is none.
func TestArrivalTimes(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, c := range []struct {
			stopped  bool
			cardTime int
			socket   xtreme.UDPConfig
			asked    bool
		}{
			{}, {stopped: true}, {cardTime: 3, asked: true}, {socket: xtreme.UDPConfig{HardwareTimestamps: xtreme.Ptr(ring.HardwareTimestampsSync)}, asked: true},
			{cardTime: 3, socket: xtreme.UDPConfig{HardwareTimestamps: xtreme.Ptr(ring.HardwareTimestampsOff)}},
		} {
			c.socket.Timestamps, c.socket.LargestDatagram = true, 2048
			w := worldWith(t, func(s *conf.Settings) { s.CardTime = c.cardTime })
			s := w.udp(loopback, c.socket)
			require.Equal(t, c.asked, has(s.Path(), "card.no_stamps"), "%v", s.Path())
			ours, theirs, all := stampsOutside(w, s, c.stopped)
			t.Logf("outside of their send: %d of %d here, %d at the kernel socket; %+v", ours, all, theirs, c)
			if c.cardTime == 0 && !c.asked {
				require.LessOrEqual(t, ours, theirs)
			}
			require.Less(t, ours, all/2)
			require.Less(t, theirs, all/2, "the kernel socket's stamps say nothing here")
		}
	})
}

// stampsOutside counts the stamps of the ring and of a kernel socket that lie outside of the call that sent their datagram.
func stampsOutside(w *world, s *xtreme.Socket, stopped bool) (here, there, all int) {
	t := w.t
	kernel := newStampedPeer(t)
	type interval struct{ begin, end int64 }
	send := func(c *net.UDPConn) (call interval) {
		call.begin = realtime(t)
		_, err := c.Write([]byte("stamp"))
		call.end = realtime(t)
		w.NoError(err)
		return call
	}
	isOutside := func(stamp int64, call interval) int {
		if stamp < call.begin || stamp > call.end {
			return 1
		}
		return 0
	}
	toRing, toKernel := w.peer(s.LocalAddr()), w.peer(kernel.addr())
	rounds, each := 20, 50
	if stopped {
		rounds, each = 10, 20
	}
	// The kernel begins to stamp some time after it is asked; until then a datagram has no stamp, or that of its being read.
	kernel.ready()
	for range rounds {
		var ours, theirs []interval
		for i := range each {
			if i%2 == 0 {
				theirs = append(theirs, send(toKernel))
			}
			ours = append(ours, send(toRing))
			if !stopped {
				w.poll()
			}
			if i%2 == 1 {
				theirs = append(theirs, send(toKernel))
			}
		}
		if stopped {
			time.Sleep(5 * time.Millisecond) // nobody polls
		}
		for i := range each {
			c := w.event(s, xtreme.EventPacket)
			w.Equal(ring.StampSoftware, c.Time.Source)
			here += isOutside(c.Time.Nanos, ours[i])
			w.NoError(c.Packet.Release())
			_, stamp, ok := kernel.read(patience)
			w.True(ok)
			there += isOutside(stamp, theirs[i])
		}
	}
	return here, there, rounds * each
}

// When each datagram left, by the configuration; where the card cannot help, the path says so.
func TestTxTimestamps(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		s := w.udp(loopback, xtreme.UDPConfig{TxTimestamps: true, HardwareTimestamps: xtreme.Ptr(ring.HardwareTimestampsSync)})
		peer := newStampedPeer(t)
		before := realtime(t)
		w.sendTo(s, "a", peer.addr())
		w.sendTo(s, "b", peer.addr())
		for i := range uint64(2) {
			c := w.event(s, xtreme.EventTxTimestamp)
			w.Equal(i, c.Token)
			w.GreaterOrEqual(c.Time.Nanos, before)
			w.LessOrEqual(c.Time.Nanos, realtime(t))
			w.Equal(ring.StampSoftware, c.Time.Source)
		}
		w.Contains(s.Path().Explain(), "card.no_stamps")
		w.Equal(uint64(2), s.Ring().Stats().Stamped)

		_, err := w.poller.OpenUDP(loopback, xtreme.UDPConfig{HardwareTimestamps: xtreme.Ptr[ring.HardwareTimestamps](7)})
		w.ErrorContains(err, "card time 7")
	})
}

// Far more sends than the socket's receive buffer has room for stamps, without a Poll between them: all are stamped, and what the socket
// receives meanwhile finds room.
func TestTxTimestampsWithoutPolling(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		const sends = 2000
		w := newWorld(t, kind)
		s := w.udp(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 64 << 10}, TxTimestamps: true})
		peer := w.peer(s.LocalAddr())
		to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
		for i := range sends {
			_, err := s.SendTo([]byte("x"), to)
			w.NoError(err, "send %d", i)
		}
		w.write(peer, "not lost")
		for i := range uint64(sends) {
			c := w.event(s, xtreme.EventTxTimestamp)
			w.NoError(c.Err)
			w.Equal(i, c.Token)
		}
		w.Equal("not lost", w.text(s))
		w.Zero(s.Ring().Stats().StampsMissing)
	})
}
