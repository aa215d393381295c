package epoll

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// readable waits on the ring's descriptor as an application with an epoll of its own would, and reports whether it became readable.
func readable(t testing.TB, fd int, limit time.Duration) bool {
	t.Helper()
	for end := time.Now().Add(limit); ; {
		left := max(time.Until(end), 0)
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, ptr(unix.NsecToTimespec(int64(left))), nil)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		return n > 0
	}
}

func ptr[T any](v T) *T { return &v }

// requireRests polls until nothing comes, then arms: FD must not be readable. A few events of no consequence are allowed before.
func requireRests(t testing.TB, w *world) {
	t.Helper()
	r := w.ring()
	for range 10 {
		for w.poll(16) > 0 {
		}
		pending, err := r.Arm()
		require.NoError(t, err)
		if pending {
			continue // an event that turned out to be of no consequence
		}
		if readable(t, r.FD(), 20*time.Millisecond) {
			continue // a late acknowledgement, say, which made room
		}
		require.Zero(t, w.poll(16))
		return
	}
	require.Fail(t, "the ring does not come to rest")
}

const sleeps = 2000

// sleepers are the two ways of an application to sleep.
var sleepers = map[string]func(t testing.TB, w *world){
	"Wait": func(t testing.TB, w *world) {
		start := time.Now()
		require.NoError(t, w.ring().Wait(patience))
		require.Less(t, time.Since(start), patience/2, "lost wake-up")
	},
	"Wait by ppoll": func(t testing.TB, w *world) {
		w.drv.usesPpoll = true
		start := time.Now()
		require.NoError(t, w.ring().Wait(patience))
		require.Less(t, time.Since(start), patience/2, "lost wake-up")
	},
	"FD": func(t testing.TB, w *world) {
		pending, err := w.ring().Arm()
		require.NoError(t, err)
		if !pending {
			require.True(t, readable(t, w.ring().FD(), patience), "lost wake-up")
		}
	},
}

func TestNoWakeUpIsLost(t *testing.T) {
	for how, sleep := range sleepers {
		t.Run(how+"/Wake", func(t *testing.T) {
			w := newWorld(t)
			w.udp(ring.Config{})
			w.poll(1)
			r := w.ring()
			var ran atomic.Int64
			go func() {
				for i := range sleeps {
					for ran.Load() < int64(i) {
						time.Sleep(time.Microsecond)
					}
					_ = r.Post(func() { ran.Add(1) })
				}
			}()
			for limit := time.Now().Add(12 * patience); ran.Load() < sleeps; {
				require.True(t, time.Now().Before(limit))
				sleep(t, w)
				w.poll(4)
			}
		})
		t.Run(how+"/packets", func(t *testing.T) {
			w := newWorld(t)
			s := w.udp(ring.Config{})
			peer := dialUDP(t, s.LocalAddr())
			require.NoError(t, peer.SetDeadline(time.Time{}))
			w.poll(1)
			var got atomic.Int64
			go func() {
				for i := range sleeps {
					for got.Load() < int64(i) {
						time.Sleep(time.Microsecond)
					}
					_, _ = peer.Write([]byte{1})
				}
			}()
			for got.Load() < sleeps {
				sleep(t, w)
				w.poll(4)
				for range w.kept {
					got.Add(1)
				}
				w.release()
			}
			w.close(s)
		})
	}
}

// TestNoEdgeIsLost sleeps in an epoll that watches FD edge-triggered, the way that forgives least.
func TestNoEdgeIsLost(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	peer := dialUDP(t, s.LocalAddr())
	require.NoError(t, peer.SetDeadline(time.Time{}))
	w.poll(1)
	outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(t, err)
	defer func() { _ = unix.Close(outer) }()
	require.NoError(t, unix.EpollCtl(outer, unix.EPOLL_CTL_ADD, w.ring().FD(),
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}))
	var got atomic.Int64
	go func() {
		for i := range sleeps {
			for got.Load() < int64(i) {
				time.Sleep(time.Microsecond)
			}
			_, _ = peer.Write([]byte{1})
		}
	}()
	var events [1]unix.EpollEvent
	for got.Load() < sleeps {
		pending, err := w.ring().Arm()
		require.NoError(t, err)
		if !pending {
			n, err := unix.EpollWait(outer, events[:], int(patience/time.Millisecond))
			if err != unix.EINTR {
				require.NoError(t, err)
				require.Equal(t, 1, n, "lost wake-up after %d", got.Load())
			}
		}
		w.poll(4)
		for range w.kept {
			got.Add(1)
		}
		w.release()
	}
}

func TestWakeBeforeTheFirstPoll(t *testing.T) {
	for how, sleep := range sleepers {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			w.udp(ring.Config{})
			w.drv.Wake()
			sleep(t, w)
			w.ring().Wake()
			sleep(t, w)
			w.poll(1)
		})
	}
}

func TestDeadlineMakesFDReadable(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	w.poll(1)
	for range 5 {
		const d = 20 * time.Millisecond
		start := time.Now()
		require.NoError(t, s.SetReadDeadline(start.Add(d)))
		for {
			pending, err := w.ring().Arm()
			require.NoError(t, err)
			if !pending {
				require.True(t, readable(t, w.ring().FD(), patience))
			}
			w.poll(4)
			if len(w.kept) > 0 {
				break
			}
		}
		require.Equal(t, ring.EventIn, w.kept[0].Events)
		require.ErrorIs(t, w.kept[0].Err, ring.ErrDeadline)
		require.GreaterOrEqual(t, time.Since(start), d)
		w.kept = nil
	}
	// The timer has nothing more to say.
	requireRests(t, w)
	// A deadline that was taken back does not wake later.
	require.NoError(t, s.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
	_, err := w.ring().Arm()
	require.NoError(t, err)
	w.poll(1)
	require.NoError(t, s.SetReadDeadline(time.Time{}))
	requireRests(t, w)
}

// TestDeadlineOfAnEarlierArm must not end a later Wait.
func TestDeadlineOfAnEarlierArm(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	w.poll(1)
	longest := time.Duration(0)
	for range 3 { // a signal may end one early
		require.NoError(t, s.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := w.ring().Arm()
		require.NoError(t, err)
		require.NoError(t, s.SetReadDeadline(time.Time{}))
		w.poll(1)
		start := time.Now()
		require.NoError(t, w.ring().Wait(200*time.Millisecond))
		longest = max(longest, time.Since(start))
		w.poll(1)
	}
	require.GreaterOrEqual(t, longest, 200*time.Millisecond)
}

// TestArmKeepsWhatItFetched: the error of a socket that is not read is reported once by epoll. When it is Arm who gets it, it must
// say so.
func TestArmKeepsWhatItFetched(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	require.NoError(t, s.Suspend())
	requireRests(t, w)
	reset(t, peer)
	time.Sleep(5 * time.Millisecond)
	pending, err := w.ring().Arm()
	require.NoError(t, err)
	require.True(t, pending)
	require.ErrorIs(t, w.next(s, ring.EventErr).Err, unix.ECONNRESET)
}

func TestWaitKeepsItsLimit(t *testing.T) {
	for _, ppoll := range []bool{false, true} {
		w := newWorld(t)
		w.udp(ring.Config{})
		w.poll(1)
		w.drv.usesPpoll = w.drv.usesPpoll || ppoll
		for _, d := range []time.Duration{0, 300 * time.Microsecond, 12 * time.Millisecond} {
			best := time.Hour
			for range 20 { // a signal may end one early
				start := time.Now()
				require.NoError(t, w.ring().Wait(d))
				took := time.Since(start)
				if took >= d {
					best = min(best, took)
				}
			}
			require.Less(t, best, d+50*time.Millisecond)
		}
	}
}

func TestWaitReturnsForWhatIsThere(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	peer := dialUDP(t, s.LocalAddr())
	w.poll(1)
	for range 3 {
		_, err := peer.Write([]byte("a"))
		require.NoError(t, err)
	}
	require.NoError(t, w.ring().Wait(-1))
	require.NoError(t, w.ring().Wait(-1), "what the first Wait fetched is still to be had")
	pending, err := w.ring().Arm()
	require.NoError(t, err)
	require.True(t, pending)
	for range 3 {
		w.bytes(s)
	}
	require.NoError(t, s.SendPacket(w.packet([]byte("b"), 10), peer.LocalAddr().(*net.UDPAddr).AddrPort(), 1))
	require.NoError(t, w.ring().Wait(-1), "a finished send is still to be told")
	pending, err = w.ring().Arm()
	require.NoError(t, err)
	require.True(t, pending)
	w.next(s, ring.EventSent)
}

func TestWakeAgainstClose(t *testing.T) {
	for range 200 {
		d, err := New(ring.DriverConfig{Pool: newTinyPool(t)})
		require.NoError(t, err)
		start, done := make(chan struct{}), make(chan struct{}, 2)
		for range 2 {
			go func() {
				<-start
				for range 50 {
					d.Wake()
				}
				done <- struct{}{}
			}()
		}
		close(start)
		require.NoError(t, d.Close())
		// Numbers that were the ring's are somebody else's now, and must not be written to.
		var files [4][2]int
		for i := range files {
			require.NoError(t, unix.Pipe2(files[i][:], unix.O_NONBLOCK|unix.O_CLOEXEC))
		}
		d.Wake()
		<-done
		<-done
		for i := range files {
			var b [8]byte
			_, err := unix.Read(files[i][0], b[:])
			require.Equal(t, unix.EAGAIN, err, "a wake-up went to a descriptor that is not the ring's")
			require.NoError(t, unix.Close(files[i][0]))
			require.NoError(t, unix.Close(files[i][1]))
		}
	}
}

// A deadline that is due keeps Arm from sleeping: the next Poll tells of it, and not one of the fifteen after it.
func TestPollAfterArmTellsOfADeadlineThatIsDue(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	for range 40 {
		w.poll(1)
		require.NoError(t, s.SetReadDeadline(time.Now().Add(-time.Second)))
		pending, err := w.ring().Arm()
		require.NoError(t, err)
		require.True(t, pending)
		require.Equal(t, 1, w.poll(1))
		require.NoError(t, s.SetReadDeadline(time.Time{}))
	}
}
