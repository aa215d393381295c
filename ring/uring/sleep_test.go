package uring_test

import (
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

// waitFD waits on a descriptor with an epoll of its own, as an application would.
func waitFD(t *testing.T, fd int) func(time.Duration) bool {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(ep) })
	require.NoError(t, unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
	return func(d time.Duration) bool {
		var events [1]unix.EpollEvent
		for end := time.Now().Add(d); ; {
			n, err := unix.EpollWait(ep, events[:], max(int(time.Until(end).Milliseconds()), 0))
			if err != unix.EINTR {
				require.NoError(t, err)
				return n > 0
			}
		}
	}
}

const sleeps = 2000

// No wake-up is lost: by Wake, by a datagram to a directly read socket, by one to a multishot socket, by stream data; while the
// ring falls asleep, while it sleeps, and before.
func TestWakeUps(t *testing.T) {
	for name, byFD := range map[string]bool{"Wait": false, "FD": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			hot := w.udp()
			for range 3 {
				w.udp()
			}
			cold := w.udp()
			s, conn := w.pair()
			r := hot.Ring()
			fdReady := waitFD(t, r.FD())
			hotPeer, coldPeer := w.peerOf(hot), w.peerOf(cold)
			request := make(chan int)
			defer close(request)
			go func() {
				for i := range request {
					switch {
					case i%7 == 3:
						time.Sleep(20 * time.Microsecond)
					case i%31 == 5:
						time.Sleep(500 * time.Microsecond)
					}
					switch i % 4 {
					case 0:
						_, _ = hotPeer.Write([]byte("h"))
					case 1:
						_, _ = coldPeer.Write([]byte("c"))
					case 2:
						_, _ = conn.Write([]byte("s"))
					case 3:
						r.Wake()
					}
				}
			}()
			source := []*ring.Socket{hot, cold, s, nil}
			for i := range sleeps {
				request <- i
				begin := time.Now()
				for came := false; !came; {
					if byFD {
						pending, err := r.Arm()
						w.NoError(err)
						if !pending {
							w.True(fdReady(patience), "lost wake-up %d", i)
						}
					} else {
						w.NoError(r.Wait(patience))
					}
					w.Less(time.Since(begin), patience/2, "lost wake-up %d", i)
					w.poll()
					came = i%4 == 3
					if !came {
						var c ring.Completion
						c, came = w.take(func(c *ring.Completion) bool { return c.Socket == source[i%4] })
						_ = c.Packet.Release()
					}
				}
			}
			w.Empty(w.kept)
		})
	}
}

func TestArmIsQuietWhenNothingHappens(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair()
	u := w.udp()
	r := s.Ring()
	r.Wake()
	w.NoError(r.Wait(patience)) // answered at once: Wake came before
	w.poll()
	ready := waitFD(t, r.FD())
	for range 20 {
		for {
			pending, err := r.Arm()
			w.NoError(err)
			if !pending {
				break
			}
			w.poll()
		}
		w.False(ready(3*time.Millisecond), "readable for nothing")
		w.poll()
	}
	// A suspended and a starved socket with data waiting keep it quiet as well.
	w.NoError(s.Suspend())
	w.NoError(u.Suspend())
	w.write(peer, []byte("x"))
	w.write(w.peerOf(u), []byte("x"))
	for {
		pending, err := r.Arm()
		w.NoError(err)
		if !pending {
			break
		}
		w.poll()
	}
	ready(3 * time.Millisecond) // polls armed before the suspension may fire once
	w.poll()
	for range 3 {
		pending, err := r.Arm()
		w.NoError(err)
		w.False(pending)
		w.False(ready(3*time.Millisecond), "readable though nothing can be delivered")
		w.poll()
	}
	w.Empty(w.kept)
}

func TestDeadlineWakes(t *testing.T) {
	w := newWorld(t)
	s, _ := w.pair()
	r := s.Ring()
	w.poll()
	ready := waitFD(t, r.FD())
	expect := func(d time.Duration) {
		t.Helper()
		begin := time.Now()
		w.NoError(s.SetReadDeadline(begin.Add(d)))
		for {
			pending, err := r.Arm()
			w.NoError(err)
			if !pending {
				w.True(ready(patience))
			}
			w.poll()
			if c, ok := w.take(func(c *ring.Completion) bool { return c.Socket == s }); ok {
				w.ErrorIs(c.Err, ring.ErrDeadline)
				break
			}
			w.Less(time.Since(begin), patience)
		}
		w.GreaterOrEqual(time.Since(begin), d)
		w.Less(time.Since(begin), d+2*time.Second)
	}
	expect(20 * time.Millisecond)
	// Moved forward and back between sleeps: a timeout is under way that is later, then one that is earlier.
	w.NoError(s.SetReadDeadline(time.Now().Add(time.Hour)))
	_, err := r.Arm()
	w.NoError(err)
	w.poll()
	expect(20 * time.Millisecond)
	w.NoError(s.SetReadDeadline(time.Now().Add(10 * time.Millisecond)))
	_, err = r.Arm()
	w.NoError(err)
	w.poll()
	expect(40 * time.Millisecond)
	expect(5 * time.Millisecond)
}

// Wake against Close: it must neither hit an external descriptor nor disturb.
func TestWakeWhileClosing(t *testing.T) {
	l := buffers.DefaultLayout()
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	for range 50 {
		d, err := uring.New(ring.DriverConfig{Pool: pool})
		require.NoError(t, err)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						d.Wake()
					}
				}
			})
		}
		runtime.Gosched()
		require.NoError(t, d.Close())
		// The numbers are free now: what gets them must not be written to.
		other, err := unix.Eventfd(0, unix.EFD_NONBLOCK)
		require.NoError(t, err)
		for range 20 {
			d.Wake()
		}
		close(stop)
		wg.Wait()
		_, err = unix.Read(other, make([]byte, 8))
		require.ErrorIs(t, err, syscall.EAGAIN)
		require.NoError(t, unix.Close(other))
	}
	require.Equal(t, pool.Ledger().Total, pool.Ledger().Free)
}

func TestOtherThread(t *testing.T) {
	l := buffers.DefaultLayout()
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	d, err := uring.New(ring.DriverConfig{Pool: pool})
	require.NoError(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pending, err := d.Arm(clock.Never, 0)
	require.NoError(t, err)
	require.True(t, pending, "before Bind only a Poll can start it")
	require.NoError(t, d.Wait(time.Hour))
	require.NoError(t, d.Bind())
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // and ended with: this thread is not used again
		errs <- d.Flush()
	}()
	err = <-errs
	require.ErrorIs(t, err, uring.ErrThread)
	require.ErrorIs(t, err, syscall.EEXIST)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
}
