package sys

import (
	"math"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newEpoll(t *testing.T) (Epoll, EventFD) {
	t.Helper()
	p, err := NewEpoll()
	require.NoError(t, err)
	bell, err := NewEventFD()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, bell.Close())
		require.NoError(t, p.Close())
	})
	return p, bell
}

func TestEpollReportsTheKeyItWasGiven(t *testing.T) {
	p, bell := newEpoll(t)
	var events [4]EpollEvent
	const slot, gen = math.MaxUint32 - 1, math.MaxUint32
	require.Zero(t, p.Control(unix.EPOLL_CTL_ADD, bell.FD(), unix.EPOLLIN, slot, gen))

	n, e := p.Poll(events[:])
	require.Zero(t, e)
	require.Zero(t, n)

	bell.Signal()
	n, e = p.Poll(events[:])
	require.Zero(t, e)
	require.Equal(t, 1, n)
	s, g := events[0].Key()
	require.EqualValues(t, uint32(slot), s)
	require.EqualValues(t, uint32(gen), g)
	require.EqualValues(t, unix.EPOLLIN, events[0].Events)

	require.Zero(t, p.Control(unix.EPOLL_CTL_DEL, bell.FD(), 0, 0, 0))
	n, e = p.Poll(events[:])
	require.Zero(t, e)
	require.Zero(t, n)
	require.Equal(t, unix.ENOENT, p.Control(unix.EPOLL_CTL_MOD, bell.FD(), 0, 0, 0))
}

func TestEpollWaitsBothWays(t *testing.T) {
	p, bell := newEpoll(t)
	var events [4]EpollEvent
	require.Zero(t, p.Control(unix.EPOLL_CTL_ADD, bell.FD(), unix.EPOLLIN, 7, 8))
	for name, wait := range map[string]func([]EpollEvent, time.Duration) (int, error){
		"nanoseconds": func(ev []EpollEvent, d time.Duration) (int, error) { n, e := p.Wait(ev, d); return n, asError(e) },
		"ppoll": func(ev []EpollEvent, d time.Duration) (int, error) {
			n, e := p.WaitPpoll(ev, d)
			return n, asError(e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			// 1.2 s reaches both fields of the timespec.
			for _, d := range []time.Duration{0, 1, 1500 * time.Microsecond, 1200 * time.Millisecond} {
				start := time.Now()
				n, err := wait(events[:], d)
				if err != nil {
					require.ErrorIs(t, err, unix.EINTR)
					continue
				}
				require.Zero(t, n)
				require.GreaterOrEqual(t, time.Since(start), d, "must not end early")
			}
			bell.Signal()
			for _, d := range []time.Duration{0, time.Hour, math.MaxInt64, -1} {
				n, err := wait(events[:], d)
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}
			bell.Drain()
		})
	}
}

// Neither way rounds a short wait up.
func TestEpollShortWaits(t *testing.T) {
	p, bell := newEpoll(t)
	var events [4]EpollEvent
	require.Zero(t, p.Control(unix.EPOLL_CTL_ADD, bell.FD(), unix.EPOLLIN, 7, 8))
	for name, wait := range map[string]func(Epoll, []EpollEvent, time.Duration) (int, syscall.Errno){"epoll_pwait2": Epoll.Wait, "before it": Epoll.WaitPpoll} {
		shortest := time.Hour
		for range 200 {
			begin := time.Now()
			_, _ = wait(p, events[:], 50*time.Microsecond)
			shortest = min(shortest, time.Since(begin))
		}
		require.Less(t, shortest, time.Millisecond, "%s: the shortest of 200 waits of 50 µs", name)
	}
}

func TestEpollCallsDoNotAllocate(t *testing.T) {
	p, bell := newEpoll(t)
	timer, err := NewTimerFD()
	require.NoError(t, err)
	defer func() { require.NoError(t, timer.Close()) }()
	events := make([]EpollEvent, 4)
	require.Zero(t, p.Control(unix.EPOLL_CTL_ADD, bell.FD(), unix.EPOLLIN, 1, 1))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = p.Control(unix.EPOLL_CTL_MOD, bell.FD(), unix.EPOLLIN, 1, 1)
		_, _ = p.Poll(events)
		_, _ = p.Wait(events, 1)
		_, _ = p.WaitPpoll(events, 0)
		_ = timer.Start(time.Hour)
		_ = timer.Stop()
	}))
}

func TestTimerFD(t *testing.T) {
	p, err := NewEpoll()
	require.NoError(t, err)
	timer, err := NewTimerFD()
	require.NoError(t, err)
	var events [4]EpollEvent
	require.Zero(t, p.Control(unix.EPOLL_CTL_ADD, timer.FD(), unix.EPOLLIN, 1, 2))
	for _, d := range []time.Duration{-time.Second, 0, 1, 3 * time.Millisecond} {
		start := time.Now()
		require.Zero(t, timer.Start(d))
		n := 0
		for n == 0 {
			var e error
			n, e = func() (int, error) { n, e := p.Wait(events[:], time.Minute); return n, asError(e) }()
			if e != nil {
				require.ErrorIs(t, e, unix.EINTR)
			}
		}
		require.GreaterOrEqual(t, time.Since(start), d)
		require.Less(t, time.Since(start), 30*time.Second)
		// It stays readable until it is set again.
		n, e := p.Poll(events[:])
		require.Zero(t, e)
		require.Equal(t, 1, n)
		require.Zero(t, timer.Stop())
		n, e = p.Poll(events[:])
		require.Zero(t, e)
		require.Zero(t, n)
	}
	require.Zero(t, timer.Start(time.Millisecond))
	require.Zero(t, timer.Stop())
	time.Sleep(5 * time.Millisecond)
	n, e := p.Poll(events[:])
	require.Zero(t, e)
	require.Zero(t, n, "a stopped timer does not run out")
	require.NoError(t, timer.Close())
	require.NoError(t, p.Close())
}

func asError(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func TestRecvFrom(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	var a Sockaddr
	require.NoError(t, a.Set(netip.MustParseAddrPort("127.0.0.1:0"), unix.AF_INET))
	require.Zero(t, Bind(fd, &a))
	self := SockName(fd)
	require.NoError(t, a.Set(self, unix.AF_INET))
	var m Message
	b := make([]byte, 8)
	_, e := m.RecvFrom(fd, b)
	require.Equal(t, unix.EAGAIN, e)
	for _, sent := range []string{"", "short", "8 bytes.", "longer than that", ""} {
		_, e = SendTo(fd, []byte(sent), &a)
		require.Zero(t, e)
		n, e := m.RecvFrom(fd, b)
		require.Zero(t, e)
		require.Equal(t, sent[:min(len(sent), 8)], string(b[:n]))
		require.Equal(t, len(sent) > 8, m.Truncated())
		require.Equal(t, self, m.Source())
		require.Empty(t, m.Control())
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = SendTo(fd, b, &a)
		_, _ = m.RecvFrom(fd, b)
	}))
}
