package xtreme_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestPost(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		var order []int
		for i := range 3 {
			w.NoError(w.poller.Post(func() { order = append(order, i) }))
		}
		w.Empty(order, "posted work runs inside Poll only")
		w.poll()
		w.Equal([]int{0, 1, 2}, order)
		var made *xtreme.Socket // posted work may use the poller
		w.NoError(w.poller.Post(func() { made = w.udp(loopback) }))
		w.poll()
		w.write(w.peer(made.LocalAddr()), "x")
		w.Equal("x", w.text(made))
	})
}

func TestAnotherGoroutineIsRefused(t *testing.T) {
	for name, logic := range map[string]ring.Logic{"one ring": ring.PerInterface, "several rings": ring.PerSocket} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, kind conf.RingKind) {
				w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(logic)})
				u := w.udp(loopback)
				w.poll()
				late := w.udp(loopback) // its ring, if it is another, was not polled yet
				elsewhere(func() {
					var done [4]xtreme.Completion
					for range 4 {
						_, err := w.poller.Poll(done[:])
						w.ErrorIs(err, ring.ErrOwner)
						_, err = w.poller.Poll(done[:1])
						w.ErrorIs(err, ring.ErrOwner)
					}
					w.ErrorIs(w.poller.WaitFor(0), ring.ErrOwner)
					w.ErrorIs(w.poller.Close(), ring.ErrOwner)
					w.ErrorIs(u.Close(), ring.ErrOwner)
				})
				for _, s := range []*xtreme.Socket{u, late} { // and nothing came of it
					w.sendTo(s, "mine", s.LocalAddr())
					w.Equal("mine", w.text(s))
				}
				w.Len(w.engine.Pollers(), 1)
			})
		})
	}
}

func elsewhere(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}

// Before the first Poll any one goroutine may prepare; the one that polls is the owner.
func TestPreparedElsewhere(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
		var a, b *xtreme.Socket
		elsewhere(func() { a, b = w.udp(loopback), w.udp(loopback) })
		w.sendTo(a, "to b", b.LocalAddr())
		w.Equal("to b", w.text(b))
	})
}

func TestEmptySlice(t *testing.T) {
	w := newWorld(t, conf.RingEpoll, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
	_, err := w.poller.Poll(nil)
	w.ErrorIs(err, ring.ErrNoSlice)
	w.udp(loopback)
	w.udp(loopback)
	w.Len(w.poller.Rings(), 2)
	_, err = w.poller.Poll([]xtreme.Completion{})
	w.ErrorIs(err, ring.ErrNoSlice)
}

func TestAfterClose(t *testing.T) {
	for _, logic := range []ring.Logic{ring.PerInterface, ring.PerSocket} {
		onEach(t, func(t *testing.T, kind conf.RingKind) {
			p, err := newEngine(t, kind).NewPoller("gone", xtreme.PollerConfig{RingLogic: xtreme.Ptr(logic)})
			require.NoError(t, err)
			for range 2 {
				_, err = p.OpenUDP(loopback, xtreme.UDPConfig{})
				require.NoError(t, err)
			}
			var done [1]xtreme.Completion
			_, err = p.Poll(done[:])
			require.NoError(t, err)
			require.NoError(t, p.WaitFor(0))
			require.NoError(t, p.Close())
			require.ErrorIs(t, p.Close(), xtreme.ErrClosed)
			_, err = p.Poll(done[:])
			require.ErrorIs(t, err, xtreme.ErrClosed)
			require.ErrorIs(t, p.WaitFor(0), xtreme.ErrClosed)
			_, err = p.Arm()
			require.ErrorIs(t, err, xtreme.ErrClosed)
			_, err = p.ArmRings()
			require.ErrorIs(t, err, xtreme.ErrClosed)
			require.ErrorIs(t, p.Flush(), xtreme.ErrClosed)
			require.ErrorIs(t, p.Post(func() {}), xtreme.ErrClosed)
			require.ErrorContains(t, p.Post(func() {}), `"gone"`)
			p.Wake() // has nobody to wake, and says nothing
			require.Empty(t, p.Rings())
		})
	}
}

// Posted work may be the one that closes the poller it runs on.
func TestCloseByPostedWork(t *testing.T) {
	for _, logic := range []ring.Logic{ring.PerInterface, ring.PerSocket} {
		onEach(t, func(t *testing.T, kind conf.RingKind) {
			p, err := newEngine(t, kind).NewPoller("last words", xtreme.PollerConfig{RingLogic: xtreme.Ptr(logic)})
			require.NoError(t, err)
			for range 3 {
				s, err := p.OpenUDP(loopback, xtreme.UDPConfig{})
				require.NoError(t, err)
				_, err = s.SendTo([]byte("never read"), s.LocalAddr())
				require.NoError(t, err)
			}
			result := errors.New("it did not run")
			require.NoError(t, p.Post(func() { result = p.Close() }))
			var done [8]xtreme.Completion
			n, err := p.Poll(done[:])
			require.Zero(t, n)
			require.ErrorIs(t, err, xtreme.ErrClosed)
			require.NoError(t, result)
		})
	}
}

// Packets the application still has keep their memory.
func TestCloseWithPacketsHeld(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		p, err := e.NewPoller("holder", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
		require.NoError(t, err)
		s, err := p.OpenUDP(loopback, xtreme.UDPConfig{LargestDatagram: 1500})
		require.NoError(t, err)
		var got []xtreme.Completion
		for _, text := range []string{"held", "lent", "released"} {
			_, err = s.SendTo([]byte(text), s.LocalAddr())
			require.NoError(t, err)
		}
		for end := time.Now().Add(patience); len(got) < 3; {
			require.True(t, time.Now().Before(end))
			var done [4]xtreme.Completion
			n, err := p.Poll(done[:])
			require.NoError(t, err)
			got = append(got, done[:n]...)
		}
		lent, err := got[1].Packet.Lend()
		require.NoError(t, err)
		require.NoError(t, got[2].Packet.Release())

		err = p.Close()
		var held *xtreme.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, 1, held.Ledger.Held)
		require.Equal(t, 1, held.Ledger.Lent)
		require.Equal(t, held.Ledger.Total-2, held.Ledger.Free)
		require.ErrorContains(t, err, "held 1, lent 1")
		require.Equal(t, "held", string(got[0].Packet.Bytes()))
		elsewhere(func() {
			require.Equal(t, "lent", string(lent.Bytes()))
			require.NoError(t, lent.Release())
		})
		require.NoError(t, got[0].Packet.Release())
		require.Empty(t, e.Pollers(), "closed it is all the same")
		require.ErrorIs(t, p.Close(), xtreme.ErrClosed)
	})
}

// several makes n sockets with a ring each.
func several(t *testing.T, kind conf.RingKind, n int) (*world, []*xtreme.Socket) {
	w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
	sockets := make([]*xtreme.Socket, n)
	for i := range sockets {
		sockets[i] = w.udp(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 1 << 20}, LargestDatagram: 1500})
	}
	w.Len(w.poller.Rings(), n)
	return w, sockets
}

// Whatever the room, all rings get their turns, nothing is lost and the order within a socket stays.
func TestSeveralRingsArePolledFairly(t *testing.T) {
	const each = 100
	for _, room := range []int{1, 2, 64} {
		onEach(t, func(t *testing.T, kind conf.RingKind) {
			w, sockets := several(t, kind, 3)
			w.room = room
			w.poll() // the rings are bound
			for i := range each {
				for _, s := range sockets {
					w.sendTo(s, string(rune('0'+i)), s.LocalAddr())
				}
			}
			got := map[*xtreme.Socket]int{}
			least := func() int {
				n := each
				for _, s := range sockets {
					n = min(n, got[s])
				}
				return n
			}
			for end := time.Now().Add(patience); least() < each; {
				w.True(time.Now().Before(end), "got %v", got)
				w.poll()
				for i := range w.kept {
					c := &w.kept[i]
					w.Equal(xtreme.EventPacket, c.Events)
					w.Equal(string(rune('0'+got[c.Socket])), string(c.Packet.Bytes()))
					w.NoError(c.Packet.Release())
					if got[c.Socket]++; got[c.Socket] == each {
						w.GreaterOrEqual(least(), each/3, "one ring is done while another has hardly begun: %v", got)
					}
				}
				w.kept = w.kept[:0]
			}
			w.silent(time.Millisecond)
		})
	}
}

// One ring that is always busy does not keep the others from the slice.
func TestBusyRingDoesNotStarveTheOthers(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w, sockets := several(t, kind, 3)
		w.room = 1
		busy, quiet := sockets[0], sockets[2]
		w.poll()
		for range 50 {
			w.sendTo(busy, "noise", busy.LocalAddr())
		}
		w.sendTo(quiet, "signal", quiet.LocalAddr())
		noise := 0
		for end := time.Now().Add(patience); ; {
			w.True(time.Now().Before(end))
			if w.poll() == 0 {
				continue
			}
			c := w.kept[0]
			w.kept = w.kept[:0]
			w.NoError(c.Packet.Release())
			if c.Socket == quiet {
				break
			}
			w.sendTo(busy, "noise", busy.LocalAddr())
			noise++
		}
		w.Less(noise, 20)
		for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
			w.poll()
			for i := range w.kept {
				w.NoError(w.kept[i].Packet.Release())
			}
			w.kept = w.kept[:0]
		}
	})
}

// wakes waits for at most patience, and polls; it must have been woken long before.
func (w *world) wakes() {
	w.t.Helper()
	begin := time.Now()
	w.NoError(w.poller.WaitFor(patience))
	w.Less(time.Since(begin), patience/2, "the wake-up was lost")
	w.poll()
}

// A ring that has nothing to do when Poll begins may have something before its turn comes, when the slice is full already.
func TestWorkForAnIdleRingWhileTheSliceFills(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
		posted, ran := 0, 0
		var idle *ring.Ring
		busy := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveCallback: func(*xtreme.Socket,
			*xtreme.Completion) ring.Verdict {
			posted++
			w.NoError(idle.Post(func() { ran++ })) // as another goroutine may at this moment
			return ring.Keep
		}}})
		s := w.udp(loopback)
		idle = s.Ring()
		w.poll()
		w.NoError(s.Close())
		w.next("CLOSED", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventClosed) })
		w.room = 1
		for range 8 {
			w.sendTo(busy, "full", busy.LocalAddr())
			w.Equal("full", w.text(busy))
		}
		for range 4 {
			w.poll()
		}
		w.Equal(8, posted)
		w.Equal(8, ran)
	})
}

// Whatever happens on any of the rings ends the Wait, however the two meet.
func TestWaitWithSeveralRings(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		rounds := 2000
		if raceEnabled || testing.Short() {
			rounds = 300
		}
		w, sockets := several(t, kind, 2)
		peers := []interface{ Write([]byte) (int, error) }{w.peer(sockets[0].LocalAddr()), w.peer(sockets[1].LocalAddr())}
		w.poll()
		start := make(chan int)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range start {
				for range i % 7 * 40 {
					_ = i // a little later or earlier each time
				}
				var err error
				switch i % 4 {
				case 0, 1:
					_, err = peers[i%2].Write([]byte("x"))
				case 2:
					err = w.poller.Post(func() {})
				case 3:
					w.poller.Wake()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		for i := range rounds {
			start <- i
			if i%4 > 1 {
				w.wakes()
				continue
			}
			for len(w.kept) == 0 { // a wake-up of the last round may come first
				w.wakes()
			}
			w.Equal(sockets[i%2], w.kept[0].Socket)
			w.NoError(w.kept[0].Packet.Release())
			w.kept = w.kept[:0]
		}
		close(start)
		wg.Wait()
	})
}

func TestWaitEnds(t *testing.T) {
	for _, rings := range []int{1, 2} {
		onEach(t, func(t *testing.T, kind conf.RingKind) {
			w, sockets := several(t, kind, rings)
			w.poll()
			begin := time.Now()
			turns := 0
			for ; time.Since(begin) < 20*time.Millisecond; turns++ { // signals of the Go scheduler may end it sooner
				w.NoError(w.poller.WaitFor(20*time.Millisecond - time.Since(begin)))
				w.Zero(w.poll())
			}
			w.Less(turns, 8, "nothing happened, so it lasts")

			s := sockets[rings-1]
			w.NoError(s.SetReadDeadline(time.Now().Add(10 * time.Millisecond)))
			for len(w.kept) == 0 {
				w.wakes()
			}
			c := w.event(s, xtreme.EventIn)
			w.ErrorIs(c.Err, xtreme.ErrDeadline)

			// What is pending already is not waited for.
			w.sendTo(s, "x", s.LocalAddr())
			for len(w.kept) == 0 {
				w.wakes()
			}
			w.Equal("x", w.text(s))

			// A wake-up before the Wait counts.
			w.poller.Wake()
			w.wakes()

			// A buffer that returns to the pool may let a socket read again, whichever ring it is on.
			lent := w.exhaust(s)
			elsewhere(func() {
				for _, l := range lent {
					w.NoError(l.Release())
				}
			})
			w.wakes()
			w.until("it reads again", func() bool { return len(w.kept) > 0 })
			w.Equal("more", string(w.kept[0].Packet.Bytes()))
		})
	}
}

type lent interface{ Release() error }

// exhaust makes s stop reading because all it may hold is lent to others, with more to read in the kernel's queue.
func (w *world) exhaust(s *xtreme.Socket) (all []lent) {
	w.t.Helper()
	stops := func() uint64 { st := s.Ring().Stats(); return st.BudgetStops + st.Starved }
	before := stops()
	for end := time.Now().Add(patience); stops() == before; {
		w.True(time.Now().Before(end))
		w.sendTo(s, "more", s.LocalAddr())
		w.poll()
		for i := range w.kept {
			l, err := w.kept[i].Packet.Lend()
			w.NoError(err)
			all = append(all, l)
		}
		w.kept = w.kept[:0]
	}
	for range 3 {
		w.sendTo(s, "more", s.LocalAddr())
	}
	for range 20 {
		w.poll()
		for i := range w.kept {
			l, err := w.kept[i].Packet.Lend()
			w.NoError(err)
			all = append(all, l)
		}
		w.kept = w.kept[:0]
	}
	return all
}

// Rings that come later are waited for as well.
func TestWaitSeesNewRings(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w, sockets := several(t, kind, 2)
		w.NoError(w.poller.WaitFor(time.Millisecond))
		w.poll()
		late := w.udp(loopback)
		w.Len(w.poller.Rings(), 3)
		w.NoError(w.poller.WaitFor(time.Millisecond))
		w.poll()
		peer := w.peer(late.LocalAddr())
		for range 20 {
			go func() { _, _ = peer.Write([]byte("late")) }()
			for len(w.kept) == 0 {
				w.wakes()
			}
			w.Equal("late", w.text(late))
		}
		w.close(sockets[0])
		w.write(peer, "still")
		for len(w.kept) == 0 {
			w.wakes()
		}
		w.Equal("still", w.text(late))
	})
}

func TestWakeEndsEachWait(t *testing.T) {
	for _, rings := range []int{1, 2} {
		onEach(t, func(t *testing.T, kind conf.RingKind) {
			w, _ := several(t, kind, rings)
			w.poll()
			for range 100 {
				go w.poller.Wake()
				w.wakes()
			}
		})
	}
}

// Flush starts what would wait for the next Poll.
func TestFlush(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w, sockets := several(t, kind, 2)
		w.poll()
		for i, s := range sockets {
			peer := w.peer(s.LocalAddr())
			p, err := w.poller.Pool().Alloc(4)
			w.NoError(err)
			copy(p.Bytes(), "soon")
			w.NoError(s.SendPacket(p, addr(peer.LocalAddr()), uint64(i)))
			w.NoError(w.poller.Flush())
			b := make([]byte, 10)
			n, err := peer.Read(b) // without any Poll
			w.NoError(err)
			w.Equal("soon", string(b[:n]))
			w.Equal(uint64(i), w.event(s, xtreme.EventSent).Token)
		}
	})
}

// The errors a program meets most are the ring's own, so that either name works with errors.Is.
func TestErrorNames(t *testing.T) {
	for _, pair := range [][2]error{
		{xtreme.ErrWouldBlock, ring.ErrWouldBlock}, {xtreme.ErrClosed, ring.ErrClosed}, {xtreme.ErrDeadline, ring.ErrDeadline},
		{xtreme.ErrTruncated, ring.ErrTruncated}, {xtreme.ErrNotSupported, ring.ErrNotSupported},
	} {
		require.True(t, errors.Is(pair[0], pair[1]))
	}
}

// A failure of one ring comes alone: what the poller's other rings delivered in the same Poll comes first, and the failure is not lost.
func TestErrorOfOneRingComesAlone(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
		quiet := []*xtreme.Socket{w.udp(loopback), w.udp(loopback)}
		for round := range 12 {
			seen := 0
			bad := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveCallback: func(*xtreme.Socket,
				*xtreme.Completion) ring.Verdict {
				if seen++; seen > 3 {
					panic("one ring's callback")
				}
				return ring.Keep
			}}})
			w.Len(w.poller.Rings(), 3)
			w.poll()
			for range 4 {
				w.sendTo(bad, "x", bad.LocalAddr())
				for _, s := range quiet {
					w.sendTo(s, "x", s.LocalAddr())
				}
			}
			packets, reported, closed := map[*xtreme.Socket]int{}, 0, false
			for end := time.Now().Add(patience); reported == 0 || !closed || packets[quiet[0]]+packets[quiet[1]] < 8; {
				w.True(time.Now().Before(end), "%d errors, CLOSED %v, %v", reported, closed, packets)
				if seen > 3 && reported == 0 {
					if round%2 == 0 {
						pending, err := w.poller.Arm()
						w.NoError(err)
						w.True(pending, "an error waits")
					} else {
						w.NoError(w.poller.WaitFor(-1)) // for ever, if the error were forgotten
					}
				}
				before := seen
				n, err := w.poller.Poll(w.dst)
				if err != nil {
					w.Zero(n, "completions beside an error: %v", err)
					w.ErrorContains(err, "one ring's callback")
					reported++
				} else if before > 3 && reported == 0 {
					w.Fail("the failure was there before this Poll")
				}
				for i := range w.dst[:n] {
					c := &w.dst[i]
					if c.Events.Has(xtreme.EventPacket) {
						packets[c.Socket]++
						w.NoError(c.Packet.Release())
					}
					closed = closed || c.Events.Has(xtreme.EventClosed)
				}
			}
			w.Equal(1, reported)
			w.Equal(3, packets[bad])
			w.Equal(4, packets[quiet[0]])
			w.Equal(4, packets[quiet[1]])
		}
	})
}

// Wait(0) of a poller of several rings returns at once, and short waits are short, as those of a poller of one ring are.
func TestShortWaits(t *testing.T) {
	for name, logic := range map[string]ring.Logic{"one ring": ring.PerInterface, "several rings": ring.PerSocket} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, kind conf.RingKind) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(logic)})
				w.udp(loopback)
				w.udp(loopback)
				wait := func(d time.Duration) time.Duration {
					for w.poll() > 0 {
					}
					begin := time.Now()
					w.NoError(w.poller.WaitFor(d))
					return time.Since(begin)
				}
				const waits = 200
				before := threadSleeps(t)
				for range waits {
					wait(0)
				}
				w.Less(threadSleeps(t)-before, int64(waits/2), "sleeps in %d waits of no time", waits)
				shortest := time.Hour
				for range waits {
					shortest = min(shortest, wait(50*time.Microsecond))
				}
				w.Less(shortest, time.Millisecond, "the shortest of %d waits of 50 µs", waits)
			})
		})
	}
}

// threadSleeps is how often the thread gave its processor up by itself.
func threadSleeps(t *testing.T) int64 {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return u.Nvcsw
}
