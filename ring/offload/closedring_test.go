package offload_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
)

// survivor is a ring on v0 beside another one that has all the queues.
func survivor(t *testing.T, s *shared, queues []int) (w *watcher, closeOther func()) {
	setA, _, err := s.trySet(nil)
	require.NoError(t, err)
	setB, _ := s.set(queues)
	w = &watcher{t: t, s: s.open(setB, "10.0.0.1:7000"), dst: make([]ring.Completion, 64), seen: map[uint64]bool{}}
	for range 100 {
		w.poll()
	}
	require.Equal(t, "bypass", w.s.Path().Tier)
	require.Contains(t, w.s.Path().Explain(), "ring.no_queue")
	return w, func() { require.NoError(t, setA.Close()) }
}

func send(t *testing.T, peer ringtest.Peer, number uint64) {
	_, err := peer.Write(binary.LittleEndian.AppendUint64(nil, number))
	require.NoError(t, err)
}

// The ring that served the queues is closed: one that asked for whatever is free takes them over, and its sockets are told.
func TestQueuesOfAClosedRingAreTakenOver(t *testing.T) {
	s := newShared(t, 1)
	w, closeOther := survivor(t, s, nil)
	closeOther()
	// By the kernel first, because opening takes its time elsewhere; unless that was done before the ring looked.
	w.until("taken over", func() bool { return w.path > 0 && w.s.Path().Tier == "bypass" })
	require.LessOrEqual(t, w.path, 2)
	require.NotContains(t, w.s.Path().Explain(), "ring.")
	peer := s.Dial(w.s.LocalAddr())
	defer peer.Close()
	for i := range uint64(10) {
		send(t, peer, i)
	}
	w.until("all", func() bool { return len(w.seen) == 10 })
	require.Zero(t, w.os, "by the link")
}

// One with a list of its own does not: the kernel has the traffic, and the path says so, until a ring asks for the queues.
func TestQueuesOfAClosedRingAreLeft(t *testing.T) {
	s := newShared(t, 1)
	w, closeOther := survivor(t, s, []int{})
	closeOther()
	w.until("the event", func() bool { return w.path == 1 })
	require.Equal(t, "kernel", w.s.Path().Tier)
	require.Contains(t, w.s.Path().Explain(), "ring.queue_left")
	peer := s.Dial(w.s.LocalAddr())
	defer peer.Close()
	send(t, peer, 1)
	w.until("by the shadow", func() bool { return w.os == 1 })
	_, a := s.set(nil)
	w.until("the second event", func() bool { return w.path == 2 })
	require.Equal(t, "bypass", w.s.Path().Tier)
	send(t, peer, 2)
	dst := make([]ring.Completion, 1)
	w.until("handed over", func() bool {
		_, err := a.Poll(dst)
		require.NoError(t, err)
		return w.seen[2]
	})
	require.Equal(t, 1, w.os)
}

// brittle is a device whose queues cannot be had for a while.
type brittle struct {
	nic.Device
	refuse *atomic.Int32
}

var errBrittle = errors.New("not now")

func (b brittle) PrepareQueue(q int, pool *buffers.DriverPool, fill int) (link.Staged, error) {
	if b.refuse.Add(-1) >= 0 {
		return nil, errBrittle
	}
	return b.Device.PrepareQueue(q, pool, fill)
}

// What cannot be taken over at once is tried again; meanwhile the path says why.
func TestQueuesOfAClosedRingAreTriedAgain(t *testing.T) {
	s := newShared(t, 1)
	var refuse atomic.Int32
	s.wrap(func(d nic.Device) nic.Device { return brittle{d, &refuse} })
	w, closeOther := survivor(t, s, nil)
	refuse.Store(3)
	closeOther()
	w.until("the first event", func() bool { return w.path == 1 })
	require.Equal(t, "kernel", w.s.Path().Tier)
	w.until("why", func() bool { return strings.Contains(w.s.Path().Explain(), "not taken over: not now") })
	w.until("the second event", func() bool { return w.path == 2 })
	require.Equal(t, "bypass", w.s.Path().Tier)
	require.Equal(t, uint64(3), counter(w.s.Ring(), "offload.retry_failures"))
}

// What a ring that is closed takes with it is counted by the one for which it was.
func TestLostWithTheClosedRing(t *testing.T) {
	s := newShared(t, 1)
	setA, a, err := s.trySet(nil)
	require.NoError(t, err)
	setB, b := s.set([]int{})
	u := s.open(setB, "10.0.0.1:7000")
	dst := make([]ring.Completion, 64)
	for range 100 {
		_, err := b.Poll(dst)
		require.NoError(t, err)
	}
	peer := s.Dial(u.LocalAddr())
	defer peer.Close()
	for i := range uint64(20) {
		send(t, peer, i)
	}
	for end := time.Now().Add(patience); counter(a, "handover.given") < 20; {
		require.True(t, time.Now().Before(end), "%v", a.Stats().Driver)
		_, err := a.Poll(dst)
		require.NoError(t, err)
	}
	require.NoError(t, setA.Close())
	require.Equal(t, uint64(20), counter(b, "handover.closed"))
}

// A ring whose only socket was closed before it was ever polled goes on: it hands over, and it sleeps.
func TestRingWithoutASocketHandsOver(t *testing.T) {
	s := newShared(t, 1)
	setA, a := s.set(nil)
	require.NoError(t, s.open(setA, "10.0.0.1:7001").Close())
	setB, _ := s.set([]int{})
	w := &watcher{t: t, s: s.open(setB, "10.0.0.1:7000"), dst: make([]ring.Completion, 64), seen: map[uint64]bool{}}
	dst := make([]ring.Completion, 8)
	for range 10 {
		_, err := a.Poll(dst)
		require.NoError(t, err)
		w.poll()
	}
	peer := s.Dial(netip.MustParseAddrPort("10.0.0.1:7000"))
	defer peer.Close()
	send(t, peer, 1)
	w.until("handed over", func() bool {
		_, err := a.Poll(dst)
		require.NoError(t, err)
		return w.seen[1]
	})
	require.Zero(t, w.os)
}
