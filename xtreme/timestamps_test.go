package xtreme_test

import (
	"encoding/binary"
	"net"
	"slices"
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

func median(all []int64) int64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// Arrival less send time, which is in the payload: the ring's stamps agree with those that a kernel socket gets by SO_TIMESTAMPING, within
// a microsecond in the middle, in alternating rounds. Also when nobody polls for 5 ms: the stamp is the kernel's, not the poll's. A busy
// machine may come between the two, so that a few tries are allowed.
func TestArrivalTimes(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, stopped := range []bool{false, true} {
			apart := int64(0)
			for range 5 {
				ours, theirs := arrivalTimes(newWorld(t, kind), stopped)
				t.Logf("p50: %d ns here, %d ns at the kernel socket; stopped: %v", ours, theirs, stopped)
				require.Less(t, ours, int64(5*time.Millisecond), "the time of the poll, not of the arrival")
				if apart = max(ours-theirs, theirs-ours); apart <= 1000 {
					break
				}
			}
			require.LessOrEqual(t, apart, int64(1000))
		}
	})
}

// arrivalTimes is the median of arrival less send time, by the ring's stamps and by a kernel socket's.
func arrivalTimes(w *world, stopped bool) (here, there int64) {
	t := w.t
	s := w.udp(loopback, xtreme.Timestamps(), xtreme.LargestDatagram(2048))
	kernel := newStampedPeer(t)
	send := func(c *net.UDPConn) {
		_, err := c.Write(binary.LittleEndian.AppendUint64(nil, uint64(realtime(t))))
		w.NoError(err)
	}
	toRing, toKernel := w.peer(s.LocalAddr()), w.peer(kernel.addr())
	rounds, each := 20, 50
	if stopped {
		rounds, each = 10, 20
	}
	// The kernel begins to stamp some time after it is asked; until then a datagram has no stamp, or that of its being read.
	for end := time.Now().Add(patience); ; {
		send(toKernel)
		if _, stamp, ok := kernel.read(patience); ok && stamp != 0 {
			break
		}
		w.True(time.Now().Before(end), "the kernel does not stamp")
	}
	var ours, theirs []int64
	for round := range rounds {
		for i := range each {
			if (i+round)%2 == 0 {
				send(toKernel)
			}
			send(toRing)
			if !stopped {
				w.poll()
			}
			if (i+round)%2 == 1 {
				send(toKernel)
			}
		}
		if stopped {
			time.Sleep(5 * time.Millisecond) // nobody polls
		}
		for range each {
			c := w.event(s, xtreme.EventPacket)
			w.Equal(ring.StampSoftware, c.Time.Source)
			data, stamp, ok := kernel.read(patience)
			w.True(ok)
			if round > 0 { // in the first one caches are filled
				w.NotZero(stamp)
				ours = append(ours, c.Time.Nanos-int64(binary.LittleEndian.Uint64(c.Packet.Bytes())))
				theirs = append(theirs, stamp-int64(binary.LittleEndian.Uint64(data)))
			}
			w.NoError(c.Packet.Release())
		}
	}
	return median(ours), median(theirs)
}

// When each datagram left, by the option's name; where the card cannot help, the path says so.
func TestTxTimestamps(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		s := w.udp(loopback, xtreme.TxTimestamps(), xtreme.HardwareTimestamps(ring.HardwareTimestampsSync, 0))
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
		w.Contains(s.Path().String(), "card.no_stamps")
		w.Equal(uint64(2), s.Ring().Stats().Stamped)

		_, err := w.poller.OpenUDP(loopback, xtreme.HardwareTimestamps(7, 0))
		w.ErrorContains(err, "card time 7")
		_, err = w.poller.ListenTCP(loopback, xtreme.TxTimestamps())
		w.ErrorContains(err, "TxTimestamps")
	})
}

// Far more sends than the socket's receive buffer has room for stamps, without a Poll between them: all are stamped, and what the socket
// receives meanwhile finds room.
func TestTxTimestampsWithoutPolling(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		const sends = 2000
		w := newWorld(t, kind)
		s := w.udp(loopback, xtreme.TxTimestamps(), xtreme.ReceiveBuffer(64<<10))
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
