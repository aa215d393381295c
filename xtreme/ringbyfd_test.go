package xtreme_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Polling by descriptor is VMA's central call: it allocates nothing.
func TestPollByDescriptorAllocatesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		fd := w.udp(loopback).Ring().FD()
		var done [8]xtreme.Completion
		_, err := extraapi.Poll(w.engine, fd, done[:])
		w.NoError(err)
		w.Zero(testnet.LeastAllocs(100, func() {
			if _, err := extraapi.Poll(w.engine, fd, done[:]); err != nil {
				panic(err)
			}
		}))
	})
}

// It takes no lock either: it goes on while another goroutine has the engine's.
func TestPollByDescriptorTakesNoLock(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		fd := w.udp(loopback).Ring().FD()
		release := w.engine.HoldLock()
		defer func() { release() }()
		polled := make(chan error, 1)
		go func() { // the ring's first Poll: it is this goroutine's
			var done [8]xtreme.Completion
			_, err := extraapi.Poll(w.engine, fd, done[:])
			if err == nil {
				err = w.engineless(fd)
			}
			polled <- err
		}()
		select {
		case err := <-polled:
			w.NoError(err)
		case <-time.After(5 * time.Second):
			release()
			release = func() {}
			<-polled
			w.Fail("Poll waited for the engine's lock")
		}
	})
}

// engineless closes the poller's rings on the goroutine that polled them, without the engine, whose lock is held.
func (w *world) engineless(fd int) error {
	r, ok := w.engine.RingByFD(fd)
	if !ok {
		return ring.ErrState
	}
	return r.Close()
}

// The table follows rings that come and go: those of a closed owner are not found, also when the number is a new ring's.
func TestRingsByDescriptorComeAndGo(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		for range 300 { // more than there are descriptors below the table's first page, if they were not closed
			p := whenThereIsMemory(t, func() (*xtreme.Poller, error) {
				return e.NewPoller("test", xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket), SmallBuffers: 64, LargeBuffers: 8})
			})
			for range 2 {
				whenThereIsMemory(t, func() (*xtreme.Socket, error) { return p.OpenUDP(loopback, xtreme.UDPConfig{}) })
			}
			for _, r := range p.Rings() {
				found, ok := e.RingByFD(r.FD())
				require.True(t, ok)
				require.Same(t, r, found)
			}
			first := p.Rings()[0]
			fd := first.FD()
			require.NoError(t, first.Close())
			if found, ok := e.RingByFD(fd); ok {
				require.NotSame(t, first, found)
			}
			require.NoError(t, p.Close())
			_, ok := e.RingByFD(fd)
			require.False(t, ok)
		}
		for _, fd := range []int{-1, 1 << 30} {
			_, ok := e.RingByFD(fd)
			require.False(t, ok)
		}
	})
}
