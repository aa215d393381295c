package reactor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The kernel spreads the connections of one address over the loops.
func TestAGroupSharesAnAddress(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		holder, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Close(holder)) }()
		require.NoError(t, unix.SetsockoptInt(holder, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		// Finds a port and keeps it.
		require.NoError(t, unix.Bind(holder, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
		name, err := unix.Getsockname(holder)
		require.NoError(t, err)
		addr := netip.AddrPortFrom(loopback.Addr(), uint16(name.(*unix.SockaddrInet4).Port))

		var mu sync.Mutex
		names := map[string]int{}
		goroutines := map[uintptr]bool{}
		ready := make(chan struct{}, 2)
		setup := func(l *Loop) (Handler, error) {
			mu.Lock()
			goroutines[sys.Goroutine()] = true
			mu.Unlock()
			if _, err := l.Poller().ListenTCP(addr, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}}); err != nil {
				return nil, err
			}
			h := newEcho()
			h.seen = func(l *Loop, c *xtreme.Completion) {
				if c.Events.Has(xtreme.EventNewConnection) {
					mu.Lock()
					names[l.Name()]++
					mu.Unlock()
				}
			}
			return starting{h, func(*Loop) error { ready <- struct{}{}; return nil }}, nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() {
			small := xtreme.PollerConfig{SmallBuffers: 256, LargeBuffers: 16}
			result <- RunGroup(ctx, e, 2, setup, Config{Name: "echo", Rest: Wait, Poller: small})
		}()
		wait(t, ready)
		wait(t, ready)
		for i := range 60 {
			pingPong(t, dial(t, addr), fmt.Sprint("connection ", i))
		}
		mu.Lock()
		require.NotZero(t, names["echo-0"])
		require.NotZero(t, names["echo-1"])
		require.Equal(t, 60, names["echo-0"]+names["echo-1"])
		require.Len(t, goroutines, 2)
		mu.Unlock()
		cancel()
		require.NoError(t, wait(t, result))
		require.Empty(t, e.Pollers())
	})
}

func TestOneFailureEndsTheGroup(t *testing.T) {
	failed := errors.New("out of luck")
	for name, setup := range map[string]func(l *Loop) (Handler, error){
		`"loop-1": setup: out of luck`: func(*Loop) (Handler, error) { return nil, failed },
		`"loop-1": start: out of luck`: func(*Loop) (Handler, error) {
			return starting{nothing, func(*Loop) error { return failed }}, nil
		},
		`"loop-1": setup: handler nil`: func(*Loop) (Handler, error) { return nil, nil },
		`"loop-1": panic in setup: no`: func(*Loop) (Handler, error) { panic("no") },
		`"loop-1": panic in posted function:`: func(l *Loop) (Handler, error) {
			return nothing, l.Post(func() { panic("no") })
		},
	} {
		e := newEngine(t, conf.RingEpoll)
		result := make(chan error, 1)
		go func() {
			result <- RunGroup(context.Background(), e, 3, func(l *Loop) (Handler, error) {
				if l.Name() == "loop-1" {
					return setup(l)
				}
				return nothing, nil
			}, Config{OnPanic: StopLoop, Logger: quietLog()})
		}()
		err := wait(t, result)
		require.ErrorContains(t, err, "reactor: loop "+name)
		require.NotContains(t, err.Error(), "loop-0")
		require.NotContains(t, err.Error(), "loop-2")
		require.Empty(t, e.Pollers())
	}
}

func TestGroupsAreAsTheEngineIsSet(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		s := conf.Default()
		s.RxPoll, s.SelectPoll, s.OSRatio = 17, 3*time.Second, 5
		s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 128, 8
		e := mustEngine(t, s)
		cpus := sys.AffinityMask()
		require.NotEmpty(t, cpus)
		pins := []int{cpus[0], cpus[len(cpus)-1]}
		require.NoError(t, RunGroup(context.Background(), e, 2, func(l *Loop) (Handler, error) {
			require.Equal(t, 17, l.config.RxPoll)
			require.Equal(t, 3*time.Second, l.config.SelectPoll)
			require.Equal(t, 5, l.config.OSRatio)
			var i int
			_, err := fmt.Sscanf(l.Name(), "loop-%d", &i)
			require.NoError(t, err)
			require.Equal(t, []int{pins[i]}, sys.AffinityMask())
			l.BeginShutdown()
			return nothing, nil
		}, Config{Pin: pins}))
	})
}

// The buffers of each loop need memory of their own: memory of the caller's is for one loop.
func TestLoopsOfAGroupShareNoMemory(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		c := Config{Poller: xtreme.PollerConfig{Memory: make([]byte, 8<<20), SmallBuffers: 64, LargeBuffers: 8}}
		var began atomic.Int64
		setup := func(l *Loop) (Handler, error) {
			began.Add(1)
			l.BeginShutdown()
			return nothing, nil
		}
		err := RunGroup(context.Background(), e, 2, setup, c)
		require.ErrorIs(t, err, unix.EINVAL)
		require.ErrorContains(t, err, "RunGroup: Config.Poller.Memory is for one loop")
		require.Zero(t, began.Load())
		require.Zero(t, e.Stats().Pollers)
		require.NoError(t, RunGroup(context.Background(), e, 1, setup, c))
	})
}

func TestGroupArguments(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	ctx := context.Background()
	setup := func(*Loop) (Handler, error) { return nothing, nil }
	var none context.Context
	for want, err := range map[string]error{
		"context nil":     RunGroup(none, e, 1, setup, Config{}),
		"engine nil":      RunGroup(ctx, nil, 1, setup, Config{}),
		"n 0: want at":    RunGroup(ctx, e, 0, setup, Config{}),
		"setup nil":       RunGroup(ctx, e, 1, nil, Config{}),
		"Config.Pin [0]":  RunGroup(ctx, e, 2, setup, Config{Pin: []int{0}}),
		"Config.Batch -1": RunGroup(ctx, e, 1, setup, Config{Batch: -1}),
	} {
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, unix.EINVAL, want)
	}
	err := RunGroup(ctx, e, 1, setup, Config{Pin: []int{60000}})
	require.ErrorContains(t, err, `loop "loop-0": Config.Pin: sys: pin thread to cpu 60000`)
	require.ErrorContains(t, RunGroup(ctx, e, 1, setup, Config{Poller: xtreme.PollerConfig{SmallBuffers: 1}}), "SmallBuffers 1")
}
