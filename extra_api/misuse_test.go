package extraapi_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

// A callback that panics costs its socket; the Poll it happens in says so, and other sockets do not notice.
func TestCallbackPanics(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		bad := w.udp(w.with(func(extraapi.Info, buffers.Packet) ring.Verdict { panic("boom") }))
		good, p := w.udp(), w.peer()
		w.poll()
		id := bad.ID()
		p.write([]byte("x"), bad.LocalAddr())
		p.write([]byte("fine"), good.LocalAddr())
		var panicked *ring.CallbackPanic
		for end := time.Now().Add(patience); panicked == nil; {
			w.True(time.Now().Before(end))
			n, err := good.Ring().Poll(w.dst)
			w.kept = append(w.kept, w.dst[:n]...)
			if err != nil {
				w.ErrorAs(err, &panicked)
			}
			w.pollFar()
		}
		w.Equal(id, panicked.Socket)
		w.Equal("boom", panicked.Value)
		w.Contains(string(panicked.Stack), "TestCallbackPanics")
		w.event(bad, ring.EventClosed)
		w.Equal("fine", w.text(good))
		w.Equal(uint64(1), good.Ring().Stats().CallbackPanics)
	})
}

// What a callback may not do is refused, what it may do works, and each combination with a verdict leaves the ledger whole.
func TestCallbackMisuse(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		p := w.peer()
		for _, c := range []struct {
			name  string
			do    func(i extraapi.Info, p buffers.Packet) ring.Verdict
			check func(s *ring.Socket)
		}{
			{"polls", func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
				_, err := i.Socket.Ring().Poll(make([]ring.Completion, 1))
				w.ErrorIs(err, unix.EDEADLK)
				return extraapi.PacketRecv
			}, func(s *ring.Socket) { w.Equal("x", w.text(s)) }},
			{"closes the ring", func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
				w.ErrorIs(i.Socket.Ring().Close(), unix.EDEADLK)
				return extraapi.PacketRecv
			}, func(s *ring.Socket) { w.Equal("x", w.text(s)) }},
			{"closes all rings", func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
				before := w.set.Rings()
				w.ErrorIs(w.set.Close(), unix.EDEADLK)
				w.Equal(before, w.set.Rings(), "nothing was closed")
				return extraapi.PacketRecv
			}, func(s *ring.Socket) { w.Equal("x", w.text(s)) }},
			{"receives", func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
				_, _, err := extraapi.RecvFromZeroCopy(i.Socket, make([]ring.Completion, 1), 0, 0)
				w.ErrorIs(err, ring.ErrMode)
				return extraapi.PacketRecv
			}, func(s *ring.Socket) { w.Equal("x", w.text(s)) }},
			{"sends", func(i extraapi.Info, p buffers.Packet) ring.Verdict {
				_, err := i.Socket.SendTo(p.Bytes(), i.Source)
				w.NoError(err)
				return extraapi.PacketDrop
			}, func(*ring.Socket) { w.Equal("x", string(p.read())) }},
			{"frees and keeps", func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
				w.NoError(p.Release())
				return extraapi.PacketRecv
			}, nil},
			{"frees and drops", func(i extraapi.Info, p buffers.Packet) ring.Verdict {
				_, err := extraapi.FreePackets(i.Socket, p)
				w.NoError(err)
				return extraapi.PacketDrop
			}, nil},
			{"frees and holds", func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
				w.NoError(p.Release())
				return extraapi.PacketHold
			}, nil},
			{"lends and drops", func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
				l, err := p.Lend()
				w.NoError(err)
				go func() { _ = l.Release() }()
				return extraapi.PacketDrop
			}, nil},
			{"closes its socket and keeps", func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
				w.NoError(i.Socket.Close())
				return extraapi.PacketRecv
			}, func(s *ring.Socket) { w.event(s, ring.EventClosed) }},
			{"an unknown verdict drops", func(extraapi.Info, buffers.Packet) ring.Verdict { return 77 }, nil},
		} {
			called := 0
			s := w.udp(w.with(func(i extraapi.Info, p buffers.Packet) ring.Verdict { called++; return c.do(i, p) }))
			p.write([]byte("x"), s.LocalAddr())
			w.until(c.name, func() bool { return called == 1 })
			if c.check != nil {
				c.check(s)
			}
			w.until(c.name+": every buffer free", func() bool {
				l := s.Ring().Ledger()
				return l.Held+l.Lent+l.Received == 0
			})
			w.Empty(w.list(), c.name)
			if s.State() == "open" {
				w.closed(s)
			}
		}
	})
}

// From inside its callback a socket in pull mode may take what waited before the packet in hand.
func TestCallbackTakesWhatWaits(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		var got []string
		s := w.udp(w.pull, w.with(func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
			b := make([]byte, 8)
			if n, _, err := extraapi.Recv(i.Socket, b); err == nil {
				got = append(got, string(b[:n]))
			}
			return extraapi.PacketRecv
		}))
		p := w.peer()
		for i := range 3 {
			p.write([]byte(fmt.Sprint(i)), s.LocalAddr())
		}
		w.until("three", func() bool { return s.Stats().Packets == 3 })
		w.Equal([]string{"0", "1"}, got)
		packets, _ := s.Waiting()
		w.Equal(1, packets)
	})
}

// A callback that blocks holds up its own poller: Poll returns when it does, nothing is lost, and other pollers go on.
func TestCallbackBlocks(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		other := newWorld(w.t, w.kind)
		unblock, blocked := make(chan struct{}), make(chan struct{})
		addr, done := make(chan netip.AddrPort, 1), make(chan error, 1)
		go func() {
			done <- func() error {
				set := w.set
				s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
				if err != nil {
					return err
				}
				order := []byte{}
				err = extraapi.RegisterRecvCallback(s, func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
					if len(order) == 0 {
						close(blocked)
						<-unblock
					}
					order = append(order, p.Bytes()[0])
					return extraapi.PacketDrop
				})
				if err == nil {
					err = s.Bind(w.local)
				}
				if err != nil {
					return err
				}
				addr <- s.LocalAddr()
				dst := make([]ring.Completion, 8)
				for end := time.Now().Add(patience); len(order) < 10 && time.Now().Before(end); {
					if _, err := s.Ring().Poll(dst); err != nil {
						return err
					}
				}
				if string(order) != "0123456789" {
					return fmt.Errorf("order: %q", order)
				}
				return set.Close()
			}()
		}()
		to := <-addr
		p := w.peer()
		p.write([]byte("0"), to)
		<-blocked
		s, q := other.udp(), other.peer()
		for range 10 {
			q.write([]byte("on"), s.LocalAddr())
			other.Equal("on", other.text(s))
		}
		for i := 1; i < 10; i++ {
			p.write([]byte{'0' + byte(i)}, to)
		}
		close(unblock)
		w.NoError(<-done)
	})
}

// calls are all of a socket that are its poller's; to is a place to send to.
func (w *world) calls(s *ring.Socket, to netip.AddrPort) map[string]func() error {
	packet := func() error { // not of the pool: a refused one stays its caller's
		return s.SendPacket(buffers.Packet{}, to, 0)
	}
	return map[string]func() error{
		"RegisterRecvCallback": func() error { return extraapi.RegisterRecvCallback(s, keep) },
		"SetPull":              func() error { return extraapi.SetPull(s, true) },
		"Query":                func() error { _, err := extraapi.Query(s, extraapi.WarmSend); return err },
		"Capabilities":         func() error { _, err := extraapi.Capabilities(s); return err },
		"SocketTxRing":         func() error { _, err := extraapi.SocketTxRing(s, to); return err },
		"SocketRingAttributes": func() error { _, err := extraapi.SocketRingAttributes(s); return err },
		"SocketRingsFDs": func() error {
			n, err := extraapi.SocketRingsFDs(s, make([]int, 1))
			if n == 0 && err == nil {
				return ring.ErrClosed // it has none any more
			}
			return err
		},
		"SocketNetworkHeader": func() error { _, err := extraapi.SocketNetworkHeader(s, nil, to); return err },
		"RecvFromZeroCopy": func() error {
			_, _, err := extraapi.RecvFromZeroCopy(s, make([]ring.Completion, 1), 0, 0)
			return err
		},
		"RecvFromZeroCopy, forced": func() error {
			_, _, err := extraapi.RecvFromZeroCopy(s, nil, 0, extraapi.ZeroCopyForce)
			return err
		},
		"Recv":            func() error { _, _, err := extraapi.Recv(s, make([]byte, 1)); return err },
		"DummySend":       func() error { return extraapi.DummySend(s, nil, to) },
		"Prepare":         func() error { return extraapi.Prepare(s, to) },
		"Send":            func() error { _, err := extraapi.Send(s, []byte("x"), to, 0); return err },
		"dummy Send":      func() error { _, err := extraapi.Send(s, []byte("x"), to, extraapi.DummyFlag); return err },
		"Send, connected": func() error { _, err := s.Send([]byte("x")); return err },
		"SendVector":      func() error { _, err := s.SendVector([][]byte{{1}}, to); return err },
		"SendPacket":      packet,
		"SendFile":        func() error { return s.SendFile(nil, 0, 1, 0) },
		"SetPacing":       func() error { return s.SetPacing(ring.Pacing{Rate: 1000}) },
		"Close":           s.Close,
	}
}

// Calls of another goroutine are refused and touch nothing, in either mode, while the poller goes on.
func TestCallsOfAnotherGoroutine(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		for _, before := range [][]func(*ring.Socket){nil, {w.pull}} {
			s, p := w.udp(before...), w.peer()
			mode := s.Mode()
			w.poll()
			failed := make(chan map[string]error)
			go func() {
				all := map[string]error{}
				for name, call := range w.calls(s, p.addr()) {
					for range 20 {
						all[name] = call()
					}
				}
				failed <- all
			}()
			for i := range 100 {
				_, err := extraapi.Send(s, []byte{byte(i)}, p.addr(), 0)
				w.NoError(err)
				w.Equal([]byte{byte(i)}, p.read())
				w.poll()
			}
			for name, err := range <-failed {
				w.ErrorIs(err, ring.ErrOwner, name)
			}
			w.Nil(s.ReceiveCallback())
			w.Equal(mode, s.Mode())
			p.nothing()
			w.closed(s)
		}
	})
}

// Each call on a closed socket says that it is closed; before it has a ring, that it has none.
func TestCallsOnAClosedSocket(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		for _, before := range [][]func(*ring.Socket){nil, {w.pull}} {
			s, p := w.udp(before...), w.peer()
			w.Equal(1, extraapi.SocketRingsNum(s))
			w.closed(s)
			for name, call := range w.calls(s, p.addr()) {
				err := call()
				if strings.HasPrefix(name, "Recv") && s.Mode() == ring.Completions {
					w.Error(err, name)
					continue
				}
				w.ErrorIs(err, ring.ErrClosed, name)
			}
			w.Zero(extraapi.SocketRingsNum(s))
			n, err := extraapi.SocketRingsFDs(s, make([]int, 1))
			w.NoError(err)
			w.Zero(n)
		}
		none := w.socket(ring.KindDatagram)
		for _, name := range []string{"Query", "Capabilities", "SocketTxRing", "SocketRingAttributes"} {
			w.ErrorIs(w.calls(none, w.local)[name](), ring.ErrState, name)
		}
	})
}
