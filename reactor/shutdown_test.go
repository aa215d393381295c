package reactor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A shutdown that begins between a turn's look at it and the turn's Poll, which takes the wake-up, does not let the loop fall asleep.
func TestShutdownBeforePoll(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		readings := 0
		r := launch(t, kind, nothing, Config{Rest: Wait}, func(l *Loop) {
			now := l.clock
			l.clock = func() clock.Time {
				if readings++; readings == 2 { // the first is before the first turn
					l.BeginShutdown()
				}
				return now()
			}
		})
		require.NoError(t, r.wait(t))
	})
}

// Clients have sent and wait; shutdown begins. Every byte comes back, then FIN, for those accepted and those still in
// the listener's queue.
func TestShutdownAnswersWhatIsInFlight(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEcho()
		var addr netip.AddrPort
		r := launch(t, kind, e, Config{}, func(l *Loop) { addr = listen(t, l) })
		blocked, release := make(chan struct{}), make(chan struct{})
		const clients, size = 24, 100_000
		payload := bytes.Repeat([]byte("0123456789"), size/10)
		conns := make([]*net.TCPConn, clients)
		for i := range conns {
			if i == clients/2 { // the second half finds the loop busy: they wait in the accept queue
				require.NoError(t, r.Post(func() { close(blocked); <-release }))
				wait(t, blocked)
			}
			conns[i] = dial(t, addr)
		}
		var sent, all sync.WaitGroup
		for _, c := range conns {
			sent.Add(1)
			all.Go(func() {
				_, err := c.Write(payload) // fits into the kernel's queues
				sent.Done()
				if err != nil {
					t.Errorf("write: %v", err)
				}
				got, err := io.ReadAll(c)
				if err != nil || !bytes.Equal(payload, got) {
					t.Errorf("%d of %d bytes came back, then %v", len(got), len(payload), err)
				}
			})
		}
		sent.Wait()
		r.BeginShutdown()
		close(release)
		all.Wait()
		require.NoError(t, r.wait(t))
		s := r.snapshot(t)
		require.Zero(t, s.Aborted)
		require.True(t, e.stopped)
		_, err := net.DialTimeout("tcp", addr.String(), time.Second)
		require.ErrorIs(t, err, unix.ECONNREFUSED)
	})
}

// As by SIGTERM: the context ends while clients keep on sending. The loop ends when its grace does, with every buffer
// home.
func TestCancelMidTraffic(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		p, err := newEngine(t, kind).NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		l, err := New(p, newEcho(), Config{Grace: 150 * time.Millisecond, Logger: quietLog()})
		require.NoError(t, err)
		tcp := listen(t, l)
		u, err := p.OpenUDP(loopback, xtreme.UDPConfig{})
		require.NoError(t, err)
		udp := u.LocalAddr()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- l.Run(ctx) }()

		var rounds atomic.Int64
		var all sync.WaitGroup
		for range 6 {
			c := dial(t, tcp)
			all.Go(func() { // until the server is gone
				b := make([]byte, 3000)
				for {
					if _, err := c.Write(b); err != nil {
						return
					}
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					rounds.Add(1)
				}
			})
		}
		c := dialUDP(t, udp)
		all.Go(func() {
			for {
				if _, err := c.Write([]byte("datagram")); errors.Is(err, unix.ECONNREFUSED) {
					return
				}
				time.Sleep(100 * time.Microsecond)
			}
		})
		require.Eventually(t, func() bool { return rounds.Load() > 50 }, patience, time.Millisecond)
		cancel()
		require.NoError(t, wait(t, result))
		all.Wait()
		ledger := p.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, ledger.String())
	})
}

// Stop is called once the listeners are closed, may still send, and what it sends arrives.
func TestStopMaySayGoodbye(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		var addr netip.AddrPort
		var conns []*xtreme.Socket
		closed := 0
		handler := HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
			release(c)
			if c.Events.Has(xtreme.EventNewConnection) {
				conns = append(conns, c.Socket)
			}
			if c.Events.Has(xtreme.EventClosed) {
				closed++
			}
		})
		r := launch(t, kind, stopping{handler, func(*Loop) {
			for _, s := range conns {
				_, err := s.Send([]byte("goodbye"))
				require.NoError(t, err)
			}
		}}, Config{}, func(l *Loop) { addr = listen(t, l) })
		a, b := dial(t, addr), dial(t, addr)
		require.NoError(t, r.stop(t))
		for _, c := range []net.Conn{a, b} {
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, "goodbye", string(got))
		}
		require.Equal(t, 3, closed, "both connections and the listener")
		require.Zero(t, r.snapshot(t).Aborted)
	})
}

// A peer that takes nothing costs the grace, not the loop; what could not go is counted.
func TestAPeerThatTakesNothingIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		var addr netip.AddrPort
		full := make(chan struct{})
		r := launch(t, kind, HandlerFunc(func(l *Loop, c *xtreme.Completion) {
			release(c)
			if !c.Events.Has(xtreme.EventNewConnection) {
				return
			}
			for token := range uint64(200) { // more than the kernel's queues hold
				p, err := l.Poller().Pool().Alloc(1900)
				require.NoError(t, err)
				require.NoError(t, c.Socket.SendPacket(p, netip.AddrPort{}, token))
			}
			for {
				if _, err := c.Socket.Send(make([]byte, 1<<16)); err != nil {
					break
				}
			}
			close(full)
		}), Config{Grace: 100 * time.Millisecond}, func(l *Loop) {
			addr = listen(t, l, xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{SendBuffer: 4096}})
		})
		d := net.Dialer{Control: nil}
		c, err := d.Dial("tcp", addr.String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(2048))
		wait(t, full)
		start := time.Now()
		require.NoError(t, r.stop(t))
		require.Less(t, time.Since(start), 10*time.Second)
	})
}

// A packet lent to another goroutine when shutdown begins is waited for.
func TestLoansComeHome(t *testing.T) {
	var addr netip.AddrPort
	lent := make(chan buffers.Lent, 1)
	r := launch(t, conf.RingEpoll, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
		if c.Events.Has(xtreme.EventPacket) {
			p, err := c.Packet.Lend()
			require.NoError(t, err)
			lent <- p
		}
	}), Config{}, func(l *Loop) {
		s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
		require.NoError(t, err)
		addr = s.LocalAddr()
	})
	_, err := dialUDP(t, addr).Write([]byte("keep me a while"))
	require.NoError(t, err)
	p := wait(t, lent)
	r.BeginShutdown()
	time.Sleep(60 * time.Millisecond)
	require.Equal(t, "keep me a while", string(p.Bytes()))
	require.NoError(t, p.Release())
	require.NoError(t, r.wait(t))
}

// A packet that the program keeps is an error that says so.
func TestPacketsStillHeldAreReported(t *testing.T) {
	var addr netip.AddrPort
	got := make(chan struct{})
	r := launch(t, conf.RingEpoll, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
		if c.Events.Has(xtreme.EventPacket) {
			close(got)
		}
	}), Config{Grace: time.Millisecond}, func(l *Loop) {
		s, err := l.Poller().OpenUDP(loopback, xtreme.UDPConfig{})
		require.NoError(t, err)
		addr = s.LocalAddr()
	})
	_, err := dialUDP(t, addr).Write([]byte("mine"))
	require.NoError(t, err)
	wait(t, got)
	var held *xtreme.HeldError
	require.ErrorAs(t, r.stop(t), &held)
	require.Equal(t, 1, held.Ledger.Held)
}

// What a listener's queue holds is accepted before the listener is closed, in every sleep policy.
func TestShutdownEmptiesTheAcceptQueueFirst(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []Rest{Spin, Adaptive, Wait} {
			var addr netip.AddrPort
			r := launch(t, kind, newEcho(), Config{Rest: rest, Batch: 2}, func(l *Loop) { addr = listen(t, l) })
			blocked, release := make(chan struct{}), make(chan struct{})
			require.NoError(t, r.Post(func() { close(blocked); <-release }))
			wait(t, blocked)
			conns := make([]*net.TCPConn, 30)
			for i := range conns {
				conns[i] = dial(t, addr)
			}
			r.BeginShutdown()
			close(release)
			for _, c := range conns {
				n, err := c.Read(make([]byte, 1))
				require.Zero(t, n)
				require.ErrorIs(t, err, io.EOF, "FIN and not a reset")
			}
			require.NoError(t, r.wait(t))
		}
	})
}

func TestSocketsOfTheHandlersOwnAreClosedToo(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		peer, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, peer.Close()) }()
		connected := make(chan struct{})
		r := launch(t, kind, HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
			release(c)
			if c.Events.Has(xtreme.EventOut) {
				_, err := c.Socket.Send([]byte("hello"))
				require.NoError(t, err)
				close(connected)
			}
		}), Config{}, func(l *Loop) {
			s, err := l.Poller().DialTCP(netip.MustParseAddrPort(peer.Addr().String()), xtreme.DialConfig{})
			require.NoError(t, err)
			require.Equal(t, ring.KindStream, s.Kind())
		})
		c, err := peer.Accept()
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		wait(t, connected)
		require.NoError(t, r.stop(t))
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
	})
}
