package reactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestEcho(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []Rest{Spin, Adaptive, Wait} {
			t.Run(rest.String(), func(t *testing.T) {
				var tcp, udp netip.AddrPort
				launch(t, kind, newEcho(), Config{Rest: rest}, func(l *Loop) {
					tcp = listen(t, l)
					s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
					require.NoError(t, err)
					udp = s.LocalAddr()
				})
				a, b, u := dial(t, tcp), dial(t, tcp), dialUDP(t, udp)
				for i := range 50 {
					pingPong(t, a, fmt.Sprint("first ", i))
					pingPong(t, b, fmt.Sprint("second ", i))
					pingPong(t, u, fmt.Sprint("datagram ", i))
				}
			})
		}
	})
}

func TestSeveralRings(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []Rest{Adaptive, Wait} {
			var addrs []netip.AddrPort
			r := launch(t, kind, newEcho(), Config{Rest: rest, RxPoll: 1}, func(l *Loop) {
				for range 3 {
					s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RingLogic: xtreme.Ptr(ring.PerSocket)}})
					require.NoError(t, err)
					addrs = append(addrs, s.LocalAddr())
				}
				require.GreaterOrEqual(t, len(l.Poller().Rings()), 3)
			})
			for i := range 30 {
				for _, a := range addrs {
					pingPong(t, dialUDP(t, a), fmt.Sprint("ring ", i))
				}
			}
			for range 20 {
				r.do(t, func() {})
				time.Sleep(time.Millisecond) // asleep by then: the wake-up must pass through ppoll
			}
			require.NotZero(t, r.snapshot(t).Sleeps)
			require.NoError(t, r.stop(t))
		}
	})
}

type starting struct {
	Handler
	f func(l *Loop) error
}

func (s starting) Start(l *Loop) error { return s.f(l) }

func TestStartRunsOnTheLoopBeforeTheFirstTurn(t *testing.T) {
	var loop *Loop
	r := launch(t, conf.RingEpoll, starting{nothing, func(l *Loop) error {
		loop = l
		require.Equal(t, sys.Goroutine(), l.self.Load())
		require.Zero(t, l.Stats().Turns)
		return nil
	}}, Config{}, nil)
	r.do(t, func() { require.Same(t, loop, r.Loop) })
}

func TestStartsErrorEndsRun(t *testing.T) {
	failed := errors.New("no market today")
	r := launch(t, conf.RingEpoll, starting{nothing, func(*Loop) error { return failed }}, Config{}, nil)
	err := r.wait(t)
	require.ErrorIs(t, err, failed)
	require.ErrorContains(t, err, `reactor: loop "test": start: no market today`)
}

func TestContextEndsRunWithoutError(t *testing.T) {
	p, err := newEngine(t, conf.RingAuto).NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	l, err := New(p, nothing, Config{})
	require.NoError(t, err)
	require.Equal(t, "test", l.Name())
	require.Same(t, p, l.Poller())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, l.Run(ctx))
	require.ErrorContains(t, l.Run(ctx), "it ran or was closed already")
	require.ErrorIs(t, l.Post(func() {}), ring.ErrClosed)
	l.BeginShutdown() // after the end: nothing to do
}

func TestNowIsTheTurnsTime(t *testing.T) {
	r := launch(t, conf.RingEpoll, nothing, Config{Rest: Wait}, func(l *Loop) {
		require.WithinDuration(t, time.Now(), l.Now(), time.Second, "before Run it is the time")
	})
	fresh := false
	for range 5 { // on a busy machine the turn may have begun before the post
		time.Sleep(20 * time.Millisecond)
		before := time.Now()
		r.do(t, func() {
			now := r.Now()
			require.False(t, now.After(time.Now()))
			fresh = fresh || before.Sub(now) < 10*time.Millisecond
			time.Sleep(2 * time.Millisecond)
			require.Equal(t, now, r.Now())
		})
	}
	require.True(t, fresh, "not the time of the turn before the loop slept")
}

func TestCallsFromOtherGoroutinesAreNoticed(t *testing.T) {
	r := launch(t, conf.RingEpoll, nothing, Config{}, nil)
	r.do(t, func() {})
	for name, call := range map[string]func(){
		"After":     func() { r.After(1, func() {}) },
		"AfterData": func() { r.AfterData(1, func(*Loop, uint64) {}, 0) },
		"Reset":     func() { r.Reset(1, 1) },
		"Cancel":    func() { r.Cancel(1) },
		"Now":       func() { r.Now() },
	} {
		want := fmt.Sprintf(`reactor: loop "test": %s called from another goroutine: use Post`, name)
		require.PanicsWithValue(t, want, call)
	}
	require.ErrorIs(t, r.Watch(0, xtreme.EventIn, func(xtreme.Event) {}), ring.ErrOwner)
	require.ErrorIs(t, r.Unwatch(0), ring.ErrOwner)
}

func TestAPollFromElsewhereEndsRun(t *testing.T) {
	p, err := newEngine(t, conf.RingEpoll).NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	_, err = p.Poll(make([]xtreme.Completion, 1)) // the rings are this goroutine's now
	require.NoError(t, err)
	l, err := New(p, nothing, Config{Logger: quietLog()})
	require.NoError(t, err)
	result := make(chan error)
	go func() { result <- l.Run(context.Background()) }()
	require.ErrorIs(t, wait(t, result), ring.ErrOwner)
	require.NoError(t, p.Close())
}

func TestGoexitInAHandlerClosesThePoller(t *testing.T) {
	p, err := newEngine(t, conf.RingEpoll).NewPoller("test", xtreme.PollerConfig{}) // its cleanup fails if a poller is open
	require.NoError(t, err)
	l, err := New(p, nothing, Config{Logger: quietLog()})
	require.NoError(t, err)
	require.NoError(t, l.Post(runtime.Goexit))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(context.Background())
	}()
	wait(t, done)
	require.ErrorIs(t, l.Post(func() {}), ring.ErrClosed)
}

func TestBadArgumentsAreNamed(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	p, err := e.NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for want, c := range map[string]Config{
		"Config.Batch -1":        {Batch: -1},
		"Config.Batch 65537":     {Batch: 65537},
		"Config.Rest 3":          {Rest: 3},
		"Config.RxPoll -2":       {RxPoll: -2},
		"Config.SelectPoll -2ns": {SelectPoll: -2},
		"Config.OSRatio -2":      {OSRatio: -2},
		"Config.OnPanic 2":       {OnPanic: 2},
		"Config.Grace -1ns":      {Grace: -1},
		"Config.TimerBudget -1":  {TimerBudget: -1},
		"Config.PostBudget -1":   {PostBudget: -1},
		"Config.Pin -1":          {Pin: []int{-1}},
		"Config.Pin [0 1]":       {Pin: []int{0, 1}},
		`Config.Name "x"`:        {Name: "x"},
		"Config.Poller: for":     {Poller: xtreme.PollerConfig{HugePages: true}},
	} {
		_, err := New(p, nothing, c)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, unix.EINVAL, want)
	}
	_, err = New(nil, nothing, Config{})
	require.ErrorContains(t, err, "poller nil")
	_, err = New(p, nil, Config{})
	require.ErrorContains(t, err, "handler nil")
	l, err := New(p, nothing, Config{})
	require.NoError(t, err)
	require.ErrorContains(t, l.Post(nil), "function nil")
	var none context.Context
	require.ErrorContains(t, l.Run(none), "context nil")
	require.Panics(t, func() { l.After(1, nil) })
	require.Panics(t, func() { l.AfterData(1, nil, 0) })
}

func TestPinnedLoopRunsThereAndTheThreadIsGivenBackUnpinned(t *testing.T) {
	cpus := sys.AffinityMask()
	require.NotEmpty(t, cpus)
	cpu := cpus[len(cpus)-1]
	p, err := newEngine(t, conf.RingAuto).NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	var during []int
	look := starting{nothing, func(*Loop) error { during = sys.AffinityMask(); return nil }}
	l, err := New(p, look, Config{Pin: []int{cpu}})
	require.NoError(t, err)
	l.BeginShutdown()
	runtime.LockOSThread() // so that the thread looked at afterwards is the loop's
	defer runtime.UnlockOSThread()
	require.NoError(t, l.Run(context.Background()))
	require.Equal(t, []int{cpu}, during)
	require.Equal(t, cpus, sys.AffinityMask())

	p, err = newEngine(t, conf.RingAuto).NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	l, err = New(p, nothing, Config{Pin: []int{60000}})
	require.NoError(t, err)
	err = l.Run(context.Background())
	require.ErrorContains(t, err, "pin thread to cpu 60000")
	require.ErrorIs(t, err, unix.EINVAL)
}

// Errors of Poll tell of single sockets; only a row of them, with nothing else, ends the loop.
func TestErrorsOfPollAreLoggedAndBornePatiently(t *testing.T) {
	var log lines
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	failed := fmt.Errorf("close: %w", unix.EIO)
	for range failuresMax - 1 {
		require.NoError(t, l.onPollError(failed))
	}
	require.NoError(t, l.onPollError(nil))
	for range failuresMax - 1 {
		require.NoError(t, l.onPollError(failed))
	}
	require.NoError(t, l.onPollError(nil), "a ring that delivers is not broken: what it delivers comes without the error")
	for range failuresMax - 1 {
		require.NoError(t, l.onPollError(failed))
	}
	require.ErrorIs(t, l.onPollError(failed), unix.EIO)
	require.NoError(t, l.onPollError(nil))
	require.EqualValues(t, 3*failuresMax-2, l.Stats().RingErrors)
	require.Equal(t, 3, strings.Count(log.String(), "ring error"), "the first of each row")
	require.ErrorIs(t, l.onPollError(ring.ErrClosed), ring.ErrClosed, "this one at once")
	require.NoError(t, l.onPollError(nil))
}

// Errors of Poll that come again and again, each after a Poll that delivers, do not fill the log, also one that the loop's configuration gives.
func TestErrorsOfPollDoNotFillTheLog(t *testing.T) {
	var log lines
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const n = 500
	begin := time.Now()
	for range n {
		require.NoError(t, l.onPollError(fmt.Errorf("close: %w", unix.EIO)))
		require.NoError(t, l.onPollError(nil))
	}
	require.LessOrEqual(t, strings.Count(log.String(), "msg=\"ring error\""), 10*(1+int(time.Since(begin)/time.Second)))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "more like it") }, patience, time.Millisecond)
}
