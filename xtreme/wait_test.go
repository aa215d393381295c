package xtreme_test

import (
	"context"
	"io"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// onEachWait runs a test on every kind of ring, with one and with several.
func onEachWait(t *testing.T, test func(w *world)) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for name, logic := range map[string]ring.Logic{"one ring": ring.PerInterface, "several rings": ring.PerSocket} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(logic)})
				w.udp(loopback)
				w.udp(loopback)
				w.until("the rings are at rest", func() bool { return w.poll() == 0 })
				test(w)
			})
		}
	})
}

// A Wait ends with its context, and returns why; one whose context has ended does not sleep; one that was woken returns nil.
func TestWaitEndsWithItsContext(t *testing.T) {
	onEachWait(t, func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(5*time.Millisecond, cancel)
		w.untilError(ctx, context.Canceled)
		w.ErrorIs(w.poller.Wait(ctx), context.Canceled)

		ctx, cancel = context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		w.untilError(ctx, context.DeadlineExceeded)

		for _, ctx := range []context.Context{context.Background(), w.t.Context()} {
			time.AfterFunc(5*time.Millisecond, w.poller.Wake)
			w.NoError(w.poller.Wait(ctx))
			w.poll()
		}
		var none context.Context
		w.ErrorIs(w.poller.Wait(none), unix.EINVAL)
	})
}

// untilError waits until a Wait returns an error, which must be that.
func (w *world) untilError(ctx context.Context, want error) {
	w.t.Helper()
	for end := time.Now().Add(patience); ; {
		if err := w.poller.Wait(ctx); err != nil {
			w.ErrorIs(err, want)
			return
		}
		w.poll()
		w.True(time.Now().Before(end), "the context has ended")
	}
}

// The end of an earlier Wait's context does not end a later Wait with another one.
func TestWaitForgetsEarlierContexts(t *testing.T) {
	onEachWait(t, func(w *world) {
		first, cancel := context.WithCancel(context.Background())
		w.poller.Wake()
		w.NoError(w.poller.Wait(first))
		w.poll()
		second, cancelSecond := context.WithCancel(context.Background())
		w.poller.Wake()
		w.NoError(w.poller.Wait(second))
		w.poll()
		cancel()
		time.AfterFunc(10*time.Millisecond, cancelSecond)
		w.untilError(second, context.Canceled)
	})
}

// Waiting again and again with one context, as a loop does, allocates nothing; nor does one with a context that cannot end.
func TestWaitDoesNotAllocate(t *testing.T) {
	onEachWait(t, func(w *world) {
		for _, ctx := range []context.Context{w.t.Context(), context.WithValue(w.t.Context(), key{}, 1), context.Background()} {
			w.Zero(testnet.LeastAllocs(100, func() {
				w.poller.Wake()
				if w.poller.Wait(ctx) != nil {
					panic("it ended")
				}
				w.poll()
			}))
		}
	})
}

type key struct{}

// Shutdown lets what was sent go out, to the end, and closes the poller.
func TestShutdownOfAPoller(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		w := newWorld(t, kind)
		p, err := e.NewPoller("short", xtreme.PollerConfig{})
		w.NoError(err)
		l, err := p.ListenTCP(loopback, xtreme.ListenConfig{})
		w.NoError(err)
		peer := w.dial(l.LocalAddr())
		var done [8]xtreme.Completion
		var s *xtreme.Socket
		for s == nil {
			n, err := p.Poll(done[:])
			w.NoError(err)
			if n > 0 {
				s = done[0].Socket
			}
		}
		packet, err := p.Pool().Alloc(60_000)
		w.NoError(err)
		w.NoError(s.SendPacket(packet, netip.AddrPort{}, 1))
		sent := 60_000
		for range 3 { // and what waits for nobody
			w.write(peer, "unread")
		}
		got := make(chan int)
		go func() {
			b, _ := io.ReadAll(peer)
			_ = peer.Close()
			got <- len(b)
		}()
		w.NoError(p.Shutdown(context.Background()))
		w.Equal(sent, <-got)
		w.ErrorIs(p.Shutdown(context.Background()), xtreme.ErrClosed)
		_, err = p.Poll(done[:])
		w.ErrorIs(err, xtreme.ErrClosed)
		w.Empty(e.Pollers())
	})
}

// A packet that another goroutine has is waited for, and no longer than the context lasts: then the poller is open, and Close ends it.
func TestShutdownWaitsForWhatIsLent(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		p, err := newEngine(t, kind).NewPoller("lender", xtreme.PollerConfig{})
		w.NoError(err)
		u, err := p.OpenUDP(loopback, xtreme.UDPConfig{})
		w.NoError(err)
		w.write(w.peer(u.LocalAddr()), "lent")
		var done [8]xtreme.Completion
		for n := 0; n == 0; {
			n, err = p.Poll(done[:])
			w.NoError(err)
		}
		lent, err := done[0].Packet.Lend()
		w.NoError(err)
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(5*time.Millisecond, cancel)
		w.ErrorIs(p.Shutdown(ctx), context.Canceled)
		w.ErrorIs(p.Shutdown(ctx), context.Canceled)
		time.AfterFunc(5*time.Millisecond, func() { _ = lent.Release() })
		w.NoError(p.Shutdown(context.Background()))
	})
}

// Inside a callback a poller cannot be ended.
func TestShutdownInsideACallback(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	var inside error
	u := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{
		ReceiveCallback: func(*xtreme.Socket, *xtreme.Completion) ring.Verdict {
			inside = w.poller.Shutdown(context.Background())
			return ring.Keep
		}}})
	w.write(w.peer(u.LocalAddr()), "x")
	w.Equal("x", w.text(u))
	w.ErrorIs(inside, unix.EDEADLK)
}
