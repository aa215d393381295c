package reactor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// fragile is an echo that panics when it is told to: before or after it gave up the packet.
func fragile() *echo {
	e := newEcho()
	e.seen = func(_ *Loop, c *xtreme.Completion) {
		switch {
		case !c.Events.Has(xtreme.EventPacket):
		case bytes.HasPrefix(c.Packet.Bytes(), []byte("panic holding")):
			panic("holding")
		case bytes.HasPrefix(c.Packet.Bytes(), []byte("panic released")):
			_ = c.Packet.Release()
			panic(fmt.Errorf("released: %w", io.ErrUnexpectedEOF))
		}
	}
	return e
}

func TestAPanicCostsOneConnection(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		var log lines
		var addr netip.AddrPort
		closed := make(chan struct{}, 8)
		e := fragile()
		handler := HandlerFunc(func(l *Loop, c *xtreme.Completion) {
			e.Handle(l, c)
			if c.Events.Has(xtreme.EventClosed) {
				closed <- struct{}{}
			}
		})
		r := launch(t, kind, handler, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(l *Loop) { addr = listen(t, l) })
		bystander := dial(t, addr)
		pingPong(t, bystander, "before")
		for _, text := range []string{"panic holding", "panic released"} {
			victim := dial(t, addr)
			pingPong(t, victim, "well so far")
			_, err := victim.Write([]byte(text))
			require.NoError(t, err)
			_, err = victim.Read(make([]byte, 1))
			require.ErrorIs(t, err, unix.ECONNRESET)
			wait(t, closed)
			pingPong(t, bystander, "after")
		}
		s := r.snapshot(t)
		require.EqualValues(t, 2, s.Panics)
		require.EqualValues(t, 2, s.Resets)
		require.Contains(t, log.String(), "panic contained")
		require.Contains(t, log.String(), "panic_test.go", "the stack")
		require.NoError(t, r.stop(t), "the ledger is balanced")
	})
}

func TestAPanicOverADatagramLeavesTheSocketOpen(t *testing.T) {
	var addr netip.AddrPort
	r := launch(t, conf.RingEpoll, fragile(), Config{}, func(l *Loop) {
		s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
		require.NoError(t, err)
		addr = s.LocalAddr()
	})
	c := dialUDP(t, addr)
	for range 3 {
		_, err := c.Write([]byte("panic holding"))
		require.NoError(t, err)
		pingPong(t, c, "still there")
	}
	s := r.snapshot(t)
	require.EqualValues(t, 3, s.Panics)
	require.Zero(t, s.Resets)
}

// In one batch: what comes after the panic still reaches the handler.
func TestTheRestOfTheBatchIsHandled(t *testing.T) {
	var addr netip.AddrPort
	connections := 0
	var got []string
	blocked, release := make(chan struct{}), make(chan struct{})
	r := launch(t, conf.RingEpoll, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
		if c.Events.Has(xtreme.EventNewConnection) {
			connections++
		}
		if c.Events.Has(xtreme.EventPacket) {
			defer func() { _ = c.Packet.Release() }()
			got = append(got, string(c.Packet.Bytes()))
			if string(c.Packet.Bytes()) == "bad" {
				panic("bad")
			}
		}
	}), Config{}, func(l *Loop) { addr = listen(t, l) })
	a, b := dial(t, addr), dial(t, addr)
	require.Eventually(t, func() bool { return r.snapshot(t).Completions == 2 }, patience, time.Millisecond)
	require.NoError(t, r.Post(func() { close(blocked); <-release }))
	wait(t, blocked)
	_, err := a.Write([]byte("bad"))
	require.NoError(t, err)
	_, err = b.Write([]byte("good"))
	require.NoError(t, err)
	close(release)
	require.Eventually(t, func() bool { return r.snapshot(t).Panics == 1 }, patience, time.Millisecond)
	r.do(t, func() {
		require.Equal(t, 2, connections)
		require.ElementsMatch(t, []string{"bad", "good"}, got)
	})
}

// The same on the batch itself, with what the kernel cannot be made to deliver together.
func TestResetDropsOnlyWhatIsOfTheConnection(t *testing.T) {
	var addr netip.AddrPort
	var socks []*xtreme.Socket
	connected := make(chan struct{}, 2)
	r := launch(t, conf.RingEpoll, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
		release(c)
		if c.Events.Has(xtreme.EventNewConnection) {
			socks = append(socks, c.Socket)
			connected <- struct{}{}
		}
	}), Config{}, func(l *Loop) { addr = listen(t, l) })
	dial(t, addr)
	dial(t, addr)
	wait(t, connected)
	wait(t, connected)
	r.do(t, func() {
		l, pool := r.Loop, r.poller.Pool()
		packet := func() xtreme.Packet {
			p, err := pool.Alloc(10)
			require.NoError(t, err)
			return p
		}
		free := pool.Ledger().Free
		kept := packet()
		batch := []xtreme.Completion{
			{Events: xtreme.EventPacket, Socket: socks[0], Packet: packet()},
			{Events: xtreme.EventPacket, Socket: socks[0], Packet: packet()},
			{Events: xtreme.EventPacket, Socket: socks[1], Packet: kept},
			{Events: xtreme.EventSent, Socket: socks[0], Token: 7},
			{Events: xtreme.EventIn | xtreme.EventRdHup, Socket: socks[0]},
			{Events: xtreme.EventClosed, Socket: socks[0]},
		}
		copy(l.batch, batch)
		at, count := l.at, l.count
		l.at, l.count = 1, len(batch)
		l.resetConnection(&l.batch[0])
		left := append([]xtreme.Completion(nil), l.batch[l.at:l.count]...)
		l.at, l.count = at, count
		require.Equal(t, []xtreme.Completion{batch[2], batch[3], batch[5]}, left)
		require.Equal(t, free-1, pool.Ledger().Free)
		require.NoError(t, kept.Release())
	})
}

func TestAPanicCanStopTheLoop(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		var addr netip.AddrPort
		r := launch(t, kind, fragile(), Config{OnPanic: StopLoop}, func(l *Loop) { addr = listen(t, l) })
		bystander, victim := dial(t, addr), dial(t, addr)
		pingPong(t, bystander, "before")
		_, err := victim.Write([]byte("panic released"))
		require.NoError(t, err)
		err = r.wait(t)
		var p *PanicError
		require.ErrorAs(t, err, &p)
		require.Equal(t, "handler", p.Where)
		require.Contains(t, string(p.Stack), "fragile")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a value that is an error is unwrapped")
		require.ErrorContains(t, err, `reactor: loop "test": panic in handler: released`)
		require.NotContains(t, err.Error(), "held")
		_, err = bystander.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNRESET)
		require.EqualValues(t, 3, r.snapshot(t).Aborted, "listener, bystander, and the victim, whose CLOSED nobody saw")
	})
}

func TestPanicsElsewhere(t *testing.T) {
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()
	for where, provoke := range map[string]func(l *Loop){
		"timer":           func(l *Loop) { l.After(0, func() { panic("x") }) },
		"posted function": func(l *Loop) { require.NoError(t, l.Post(func() { panic("x") })) },
		"external descriptor": func(l *Loop) {
			require.NoError(t, l.Watch(pipe[0], xtreme.EventIn, func(xtreme.Event) {
				require.NoError(t, l.Unwatch(pipe[0]))
				panic("x")
			}))
			_, err := unix.Write(pipe[1], []byte("x"))
			require.NoError(t, err)
		},
	} {
		t.Run(where, func(t *testing.T) {
			r := launch(t, conf.RingEpoll, nothing, Config{}, provoke)
			require.Eventually(t, func() bool { return r.snapshot(t).Panics == 1 }, patience, time.Millisecond)
			again := make(chan struct{})
			r.do(t, func() { r.After(0, func() { close(again) }) })
			wait(t, again)
			require.NoError(t, r.stop(t))

			r = launch(t, conf.RingEpoll, nothing, Config{OnPanic: StopLoop}, provoke)
			var p *PanicError
			require.ErrorAs(t, r.wait(t), &p)
			require.Equal(t, where, p.Where)
		})
	}
}

func TestAPanicInStartEndsRun(t *testing.T) {
	r := launch(t, conf.RingEpoll, starting{nothing, func(*Loop) error { panic("x") }}, Config{}, nil)
	require.ErrorContains(t, r.wait(t), "panic in Start: x")
}

type stopping struct {
	Handler
	f func(l *Loop)
}

func (s stopping) Stop(l *Loop) { s.f(l) }

func TestAPanicInStopDoesNotKeepTheRestFromBeingClosed(t *testing.T) {
	r := launch(t, conf.RingEpoll, stopping{nothing, func(*Loop) { panic("x") }}, Config{}, nil)
	require.NoError(t, r.stop(t))
	require.EqualValues(t, 1, r.snapshot(t).Panics)
}

// The ring contains a callback's panic and closes the socket; the loop counts it, and ends where that is the policy.
func TestAPanicInACallback(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		var log lines
		for _, policy := range []PanicPolicy{ResetConnection, StopLoop} {
			var addr netip.AddrPort
			closed := make(chan struct{}, 2)
			r := launch(t, kind, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
				release(c)
				if c.Events.Has(xtreme.EventClosed) {
					closed <- struct{}{}
				}
			}), Config{OnPanic: policy, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(l *Loop) {
				s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveCallback: func(*xtreme.Socket,
					*xtreme.Completion) ring.Verdict {
					panic(errors.New("hooked"))
				}}})
				require.NoError(t, err)
				addr = s.LocalAddr()
			})
			_, err := dialUDP(t, addr).Write([]byte("x"))
			require.NoError(t, err)
			if policy == StopLoop {
				require.ErrorContains(t, r.wait(t), "panicked: hooked")
			} else {
				wait(t, closed)
				require.NoError(t, r.stop(t))
				require.Contains(t, log.String(), "panicked: hooked")
			}
			require.EqualValues(t, 1, r.snapshot(t).Panics)
		}
	})
}

func TestAPanicInWhatThePollerWasPostedEndsRun(t *testing.T) {
	r := launch(t, conf.RingEpoll, nothing, Config{}, func(l *Loop) {
		require.NoError(t, l.Poller().Post(func() { panic("behind the loop's back") }))
	})
	var p *PanicError
	require.ErrorAs(t, r.wait(t), &p)
	require.Equal(t, "ring", p.Where)
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
