package xtreme_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestSettingsAreChecked(t *testing.T) {
	s := conf.Default()
	s.SmallBuffers = 1
	_, err := xtreme.New(s)
	require.ErrorContains(t, err, "xtreme: conf: SmallBuffers 1: want a number from 64 to")
}

func TestSettingsReachThePoller(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		s := conf.Default()
		s.SmallBuffers, s.LargeBuffers, s.RingLogic, s.RingLimit = 100, 9, int(ring.PerSocket), 2
		s.BufferDebug = true
		s.Ring = kind
		e, err := xtreme.New(s)
		require.NoError(t, err)
		o, err := e.NewPoller("set", xtreme.PollerConfig{})
		require.NoError(t, err)
		require.Equal(t, "set", o.Name())
		require.Equal(t, 109, o.Ledger().Total)
		require.Equal(t, 100, o.Pool().Layout().SmallCount)
		for range 5 {
			_, err := o.OpenUDP(loopback, xtreme.UDPConfig{})
			require.NoError(t, err)
		}
		require.Len(t, o.Rings(), 2, "the limit per interface")
		p, err := o.Pool().Alloc(10)
		require.NoError(t, err)
		require.NoError(t, p.Release())
		require.Panics(t, func() { _ = p.Release() }, "BufferDebug")
		require.NoError(t, o.Close())
		require.NoError(t, e.Close())
	})
}

func TestEngineCloseNamesThePollers(t *testing.T) {
	e, err := xtreme.New(conf.Default())
	require.NoError(t, err)
	small := xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8}
	feed, err := e.NewPoller("feed", small)
	require.NoError(t, err)
	orders, err := e.NewPoller("orders", small)
	require.NoError(t, err)
	require.Equal(t, []*xtreme.Poller{feed, orders}, e.Pollers())
	err = e.Close()
	require.ErrorContains(t, err, `"feed"`)
	require.ErrorContains(t, err, `"orders"`)
	require.NoError(t, feed.Close())
	err = e.Close()
	require.NotContains(t, err.Error(), "feed")
	require.ErrorContains(t, err, `"orders"`)
	_, err = orders.OpenUDP(loopback, xtreme.UDPConfig{}) // nothing was closed
	require.NoError(t, err)
	require.NoError(t, orders.Close())
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.Close(), xtreme.ErrClosed)
	_, err = e.NewPoller("late", small)
	require.ErrorIs(t, err, xtreme.ErrClosed)
	require.ErrorIs(t, e.Start(), xtreme.ErrClosed)
	require.Empty(t, e.Pollers())
}

func TestRingByFD(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
		a, b := w.udp(loopback), w.udp(loopback)
		var fds [1]int
		for _, s := range []*xtreme.Socket{a, b} {
			n, err := s.RingFDs(fds[:])
			w.NoError(err)
			w.Equal(1, n)
			r, ok := w.engine.RingByFD(fds[0])
			w.True(ok)
			w.Equal(s.Ring(), r)
		}
		for _, fd := range []int{-1, 0, a.ID(), 1 << 20} {
			_, ok := w.engine.RingByFD(fd)
			w.False(ok, "descriptor %d is not a ring's", fd)
		}
		other, err := w.engine.NewPoller("other", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
		w.NoError(err)
		r := other.Rings()[0]
		fd := r.FD()
		found, ok := w.engine.RingByFD(fd)
		w.True(ok)
		w.Equal(r, found)
		w.NoError(other.Close())
		_, ok = w.engine.RingByFD(fd)
		w.False(ok)
	})
}

// A poller and all that belongs to it come and go without leaving a descriptor.
func TestPollersLeaveNoDescriptors(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		require.NoError(t, e.Start())
		before := descriptors(t)
		for range 3 {
			p, err := e.NewPoller("short", xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket), SmallBuffers: 128, LargeBuffers: 8})
			require.NoError(t, err)
			for range 4 {
				_, err = p.OpenUDP(loopback, xtreme.UDPConfig{})
				require.NoError(t, err)
			}
			l, err := p.ListenTCP(loopback, xtreme.ListenConfig{})
			require.NoError(t, err)
			c, err := net.Dial("tcp", l.LocalAddr().String())
			require.NoError(t, err)
			var done [8]xtreme.Completion
			_, err = p.Poll(done[:])
			require.NoError(t, err)
			require.NoError(t, p.WaitFor(time.Millisecond))
			require.NoError(t, p.Close())
			require.NoError(t, c.Close())
		}
		require.Equal(t, before, descriptors(t))
	})
}

// Pollers are made, used and closed by many goroutines at once: each receives what it has sent, unchanged and in order.
func TestConcurrentPollers(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		var wg sync.WaitGroup
		errs := make([]error, 24)
		for i := range errs {
			wg.Go(func() { errs[i] = onePoller(e, fmt.Sprintf("owner %d", i)) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Empty(t, e.Pollers())
	})
}

// onePoller makes a poller, lets it talk to itself, and closes it.
func onePoller(e *xtreme.Engine, name string) error {
	p, err := e.NewPoller(name, xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
	if err != nil {
		return err
	}
	s, err := p.OpenUDP(loopback, xtreme.UDPConfig{})
	if err != nil {
		return err
	}
	const datagrams, ahead = 1000, 16
	var done [4]xtreme.Completion
	sent, received := 0, 0
	for end := time.Now().Add(patience); received < datagrams; {
		for ; sent < min(received+ahead, datagrams); sent++ {
			if _, err := s.SendTo(fmt.Append(nil, name, sent), s.LocalAddr()); err != nil {
				return err
			}
		}
		n, err := p.Poll(done[:])
		if err != nil {
			return err
		}
		for i := range done[:n] {
			if got, want := string(done[i].Packet.Bytes()), fmt.Sprint(name, received); got != want {
				return fmt.Errorf("%s got %q, not %q", name, got, want)
			}
			if err := done[i].Packet.Release(); err != nil {
				return err
			}
			received++
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %d of %d came", name, received, datagrams)
		}
		if _, ok := e.RingByFD(p.Rings()[0].FD()); !ok {
			return fmt.Errorf("%s: its ring was not found", name)
		}
	}
	return p.Close()
}
