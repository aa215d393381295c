package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func pipe(t *testing.T) (read, write int) {
	t.Helper()
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	t.Cleanup(func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) })
	return p[0], p[1]
}

func TestExternalDescriptorsUnderEachRestPolicy(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for name, c := range map[string]Config{
			"spinning": {Rest: Spin}, "every turn": {Rest: Spin, OSRatio: 1}, "adaptive": {Rest: Adaptive, RxPoll: 10},
			"waiting": {Rest: Wait}, "waiting, looking after a sleep only": {Rest: Wait, OSRatio: -1},
		} {
			t.Run(name, func(t *testing.T) {
				read, write := pipe(t)
				got := make(chan string)
				r := launch(t, kind, nothing, c, func(l *Loop) {
					require.NoError(t, l.Watch(read, xtreme.EventIn, func(events xtreme.Event) {
						var b [64]byte
						n, err := unix.Read(read, b[:])
						if err != nil || !events.Has(xtreme.EventIn) {
							n = copy(b[:], "wrong")
						}
						got <- string(b[:n])
					}))
				})
				for i := range 50 {
					text := string(rune('a' + i%26))
					_, err := unix.Write(write, []byte(text))
					require.NoError(t, err)
					require.Equal(t, text, wait(t, got))
					if i%10 == 0 {
						time.Sleep(2 * time.Millisecond) // so that the adaptive one sleeps
					}
				}
				require.EqualValues(t, 50, r.snapshot(t).ExternalEvents)
				r.do(t, func() { require.NoError(t, r.Unwatch(read)) })
				_, err := unix.Write(write, []byte("unseen"))
				require.NoError(t, err)
				r.do(t, func() {})
				require.EqualValues(t, 50, r.snapshot(t).ExternalEvents)
			})
		}
	})
}

func TestWatchForWritingAndHangUp(t *testing.T) {
	read, write := pipe(t)
	events := make(chan xtreme.Event, 4)
	r := launch(t, conf.RingEpoll, nothing, Config{Rest: Wait}, func(l *Loop) {
		require.NoError(t, l.Watch(write, xtreme.EventOut, func(e xtreme.Event) {
			require.NoError(t, l.Unwatch(write))
			events <- e
		}))
	})
	require.Equal(t, xtreme.EventOut, wait(t, events))
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	other, gone := p[0], p[1]
	r.do(t, func() {
		require.NoError(t, r.Watch(other, xtreme.EventIn, func(e xtreme.Event) {
			require.NoError(t, r.Unwatch(other))
			events <- e
		}))
		require.NoError(t, r.Watch(read, xtreme.EventIn|xtreme.EventOut, func(xtreme.Event) {}))
	})
	require.NoError(t, unix.Close(gone))
	require.True(t, wait(t, events).Has(xtreme.EventHup))
	require.NoError(t, unix.Close(other))
}

// Two descriptors are ready at once, and the function of the first unwatches the second.
func TestUnwatchedDescriptorsAreNotHeardOf(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin, OSRatio: 1})
	var bells [2]sys.EventFD
	calls := 0
	for i := range bells {
		var err error
		bells[i], err = sys.NewEventFD()
		require.NoError(t, err)
		defer func() { require.NoError(t, bells[i].Close()) }()
		require.NoError(t, l.Watch(bells[i].FD(), xtreme.EventIn, func(xtreme.Event) {
			calls++
			require.NoError(t, l.Unwatch(bells[0].FD()))
			require.NoError(t, l.Unwatch(bells[1].FD()))
		}))
		bells[i].Signal()
	}
	l.turns(t, 3, 0)
	require.Equal(t, 1, calls)

	// The place is used again: an event for the one before does not reach the new one.
	require.NoError(t, l.Watch(bells[1].FD(), xtreme.EventIn, func(xtreme.Event) { calls += 10 }))
	require.Len(t, l.external.watches, 2)
	l.turns(t, 1, 0)
	require.Equal(t, 11, calls)
	require.NoError(t, l.Unwatch(bells[1].FD()))
}

func TestExternalDescriptorsAreLookedAtAtTheirRatio(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, test := range []struct {
			ratio      int
			calls, max int
		}{{1, 100, 100}, {10, 10, 10}, {100, 1, 1}, {-1, 1, 1}} {
			c := Config{Rest: Adaptive, OSRatio: test.ratio}
			l := turnByHand(t, kind, nothing, c)
			bell, err := sys.NewEventFD()
			require.NoError(t, err)
			bell.Signal()
			calls := 0
			require.NoError(t, l.Watch(bell.FD(), xtreme.EventIn, func(xtreme.Event) { calls++ }))
			l.turns(t, 100, 0) // always ready: it never sleeps
			require.Equal(t, test.calls, calls, "ratio %d", test.ratio)
			require.NoError(t, l.Unwatch(bell.FD()))
			require.NoError(t, bell.Close())
		}
	})
}

func TestWatchErrors(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{})
	read, _ := pipe(t)
	f := func(xtreme.Event) {}
	for want, err := range map[string]error{
		"events 0: want IN, OUT":     l.Watch(read, 0, f),
		"events PACKET|IN: want IN":  l.Watch(read, xtreme.EventPacket|xtreme.EventIn, f),
		"function nil":               l.Watch(read, xtreme.EventIn, nil),
		"watch descriptor -1: epoll": l.Watch(-1, xtreme.EventIn, f),
		"unwatch descriptor":         l.Unwatch(read),
	} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, l.Watch(-1, xtreme.EventIn, f), unix.EBADF)
	require.ErrorIs(t, l.Unwatch(read), unix.ENOENT)
	require.NoError(t, l.Watch(read, xtreme.EventIn, f))
	require.ErrorIs(t, l.Watch(read, xtreme.EventOut, f), unix.EEXIST)
	require.NoError(t, l.Unwatch(read))

	file, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.ErrorIs(t, l.Watch(file, xtreme.EventIn, f), unix.EPERM)
	require.NoError(t, unix.Close(file))

	closed, _ := pipe(t)
	copied, err := unix.FcntlInt(uintptr(closed), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, l.Watch(copied, xtreme.EventIn, f))
	require.NoError(t, unix.Close(copied))
	require.ErrorIs(t, l.Unwatch(copied), unix.EBADF)
	require.Zero(t, l.external.count(), "forgotten all the same")

	spinning := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin, OSRatio: -1})
	require.ErrorContains(t, spinning.Watch(read, xtreme.EventIn, f), "it would never be looked at")
}
