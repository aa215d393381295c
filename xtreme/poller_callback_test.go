package xtreme_test

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Closing the poller inside a callback is refused and changes nothing, whichever of its rings the callback is on.
func TestPollerCloseInsideACallback(t *testing.T) {
	w := newCabled(t)
	l := w.listen()
	s := w.udp(w.at(0))
	rings := w.poller.Rings()
	w.Len(rings, 2)
	closes := func(*xtreme.Socket, *xtreme.Completion) ring.Verdict {
		w.ErrorIs(w.poller.Close(), unix.EDEADLK)
		w.Equal(rings, w.poller.Rings())
		return ring.Keep
	}
	w.NoError(s.SetReceiveMode(ring.Completions, closes))
	local := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{KernelOnly: true, ReceiveCallback: closes}})
	for range 2 {
		answers(w.world, s, w.net.Dial(s.LocalAddr()))
		w.write(w.peer(local.LocalAddr()), "by the kernel")
		w.Equal("by the kernel", w.text(local))
	}
	w.pair(l)
}

// Polling inside Poll is refused and takes nothing, whichever of its rings the callback or the posted work is on.
func TestPollInsidePoll(t *testing.T) {
	w := newCabled(t)
	l := w.listen()
	s := w.udp(w.at(0))
	w.Len(w.poller.Rings(), 2)
	calls := 0
	again := func() {
		calls++
		n, err := w.poller.Poll(make([]xtreme.Completion, 4))
		w.ErrorIs(err, unix.EDEADLK)
		w.Zero(n)
	}
	polls := func(*xtreme.Socket, *xtreme.Completion) ring.Verdict {
		again()
		return ring.Keep
	}
	w.NoError(s.SetReceiveMode(ring.Completions, polls))
	local := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{KernelOnly: true, ReceiveCallback: polls}})
	for range 4 {
		w.NoError(w.poller.Post(again))
		answers(w.world, s, w.net.Dial(s.LocalAddr()))
		w.write(w.peer(local.LocalAddr()), "by the kernel")
		w.Equal("by the kernel", w.text(local))
	}
	w.GreaterOrEqual(calls, 12)
	w.pair(l)
}

// A callback that ends its goroutine, as a failing test does, costs its socket; what the goroutine defers can close the poller, and every
// buffer is back in the pool.
func TestCallbackThatEndsItsGoroutine(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		peer, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		defer peer.Close()
		stats := make(chan ring.RingStats, 1)
		failed := make(chan error, 1)
		go func() {
			var s *xtreme.Socket
			p, err := e.NewPoller("ends", xtreme.PollerConfig{})
			if err != nil {
				failed <- err
				return
			}
			defer func() {
				if s != nil && s.Ring() != nil {
					stats <- s.Ring().Stats()
				}
				failed <- p.Close()
			}()
			if s, err = p.OpenUDP(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveCallback: func(*xtreme.Socket,
				*xtreme.Completion) ring.Verdict {
				runtime.Goexit()
				return ring.Keep
			}}}); err != nil {
				return
			}
			dst := make([]xtreme.Completion, 8)
			for end := time.Now().Add(patience); time.Now().Before(end); {
				if _, err := p.Poll(dst); err != nil {
					return
				}
				for range 3 {
					if _, err := peer.WriteToUDPAddrPort([]byte("x"), s.LocalAddr()); err != nil {
						return
					}
				}
			}
		}()
		require.Equal(t, uint64(1), (<-stats).CallbackPanics)
		err = <-failed
		var p *ring.CallbackPanic
		if err != nil { // Close drains by Poll, which tells
			require.ErrorAs(t, err, &p)
			require.Contains(t, p.Value, "Goexit")
		}
		var held *xtreme.HeldError
		require.NotErrorAs(t, err, &held)
	})
}
