package offload_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

const gatherFrames = 18

// kicking is a link whose every flush is a system call, as AF_XDP's is that copies.
type kicking struct {
	*memory.End
	queued int
	kicks  []int // frames in each
}

func (l *kicking) Caps() link.Caps { return l.End.Caps() | link.CapSteering }

func (l *kicking) Send(src []link.Out) int {
	n := l.End.Send(src)
	l.queued += n
	return n
}

func (l *kicking) Flush() error {
	if l.queued > 0 {
		l.kicks = append(l.kicks, l.queued)
		l.queued = 0
	}
	return l.End.Flush()
}

// answerer is a host that asks and one that answers, behind a link with kicks, in a time of the test's own.
type answerer struct {
	*ends
	link *kicking
	now  clock.Time
	ask  *ring.Socket
}

func newAnswerer(t *testing.T) *answerer {
	a := &answerer{ends: &ends{t: t, dst: make([]ring.Completion, 64)}, now: 1}
	for i := range 2 {
		a.pools[i] = newPool(t, layout)
	}
	near, far, err := memory.Pair(a.pools[0], a.pools[1], memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem0"}})
	require.NoError(t, err)
	a.link = &kicking{End: far}
	for i := range 2 {
		sc := ring.SetConfig{Transport: kernel.New(), Pool: a.pools[i]}
		a.spaces[i] = side(t, i, near, 1500, &sc)
		if i == 1 {
			a.spaces[i], err = offload.NewMemoryHost(facts(1, 1500), rand.Uint64)
			require.NoError(t, err)
			sc.Transport = a.spaces[i]
			oc := overLink(t, a.spaces[i], a.link)
			oc.Clock, oc.Gather = func() clock.Time { return a.now }, gatherFrames
			sc.Driver = offload.New(oc)
		}
		a.sets[i], err = ring.NewSet(sc)
		require.NoError(t, err)
		_, err = a.sets[i].NewRing()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, a.sets[i].Close()) })
	}
	a.ask, _ = a.connect(ring.Config{})
	return a
}

// asked is a turn of the answering host, in which n requests come and are answered; before that it sends what it has, or waits.
func (a *answerer) asked(n int) {
	for range n {
		_, err := a.ask.Send([]byte("?"))
		require.NoError(a.t, err)
	}
	require.NoError(a.t, a.sets[0].Rings()[0].Flush())
	require.Equal(a.t, n, a.echo(1))
}

// How many answers the asking host has had since it was last looked.
func (a *answerer) heard() int {
	all := a.poll(0)
	for i := range all {
		require.NoError(a.t, all[i].Packet.Release())
	}
	return len(all)
}

// A single answer leaves with the next Poll.
func TestSingleAnswersLeaveAtOnce(t *testing.T) {
	a := newAnswerer(t)
	for range 3 {
		a.asked(1)
		require.Zero(t, a.heard())
		a.asked(0)
		require.Equal(t, 1, a.heard())
	}
	require.Equal(t, []int{1, 1, 1}, a.link.kicks)
}

// While requests come one after the other their answers share system calls.
func TestAnswersGather(t *testing.T) {
	a := newAnswerer(t)
	a.asked(2)
	for range 8 {
		a.asked(2)
	}
	require.Empty(t, a.link.kicks)
	a.asked(1)
	require.Equal(t, []int{18}, a.link.kicks)
	require.Equal(t, 18, a.heard())
	a.asked(0)
	require.Equal(t, []int{18, 1}, a.link.kicks, "one request since: a quick exchange")
}

// They wait for a microsecond in which nothing comes, not more, and after having waited in vain not the next time.
func TestGatheringEnds(t *testing.T) {
	a := newAnswerer(t)
	a.asked(3)
	a.asked(0)
	a.asked(0) // nothing came in the turn before
	a.now += clock.Time(900 * time.Nanosecond)
	a.asked(0)
	require.Empty(t, a.link.kicks)
	a.now += clock.Time(200 * time.Nanosecond)
	a.asked(0)
	require.Equal(t, []int{3}, a.link.kicks)

	a.asked(3)
	a.asked(0)
	require.Equal(t, []int{3, 3}, a.link.kicks, "it was in vain before")

	a.asked(3)
	a.asked(0)
	require.Len(t, a.link.kicks, 2)
	require.NoError(t, a.sets[1].Rings()[0].Flush())
	require.Equal(t, []int{3, 3, 3}, a.link.kicks, "Flush waits for nothing")

	a.asked(3)
	for range 3 { // requests go on, few at a time: the clock ends it
		a.now += clock.Time(11 * time.Microsecond)
		for range 4 {
			a.asked(1)
		}
	}
	require.Greater(t, a.link.kicks[3], 8)
	sent := 0
	for _, n := range a.link.kicks {
		sent += n
	}
	require.Equal(t, sent, a.heard())
	pending, err := a.sets[1].Rings()[0].Arm()
	require.NoError(t, err)
	require.False(t, pending)
	require.Equal(t, 9+3+12, sent+a.heard(), "what ends in sleep sends")
	a.asked(0)
}

// A ring that had frames without end takes its links out of what it waits on, and is woken by them when it sleeps all the same.
func TestRestAfterManyFrames(t *testing.T) {
	e := newEnds(t, memory.Config{})
	s, _ := e.connect(ring.Config{})
	r := e.sets[1].Rings()[0]
	for range 3 {
		for range 200 {
			_, err := s.Send([]byte("frame"))
			require.NoError(t, err)
			require.Empty(t, e.poll(0))
			all := e.poll(1)
			require.Len(t, all, 1)
			require.NoError(t, all[0].Packet.Release())
		}
		pending, err := r.Arm()
		require.NoError(t, err)
		require.False(t, pending)
		wait := []unix.PollFd{{Fd: int32(r.FD()), Events: unix.POLLIN}}
		n, err := unix.Poll(wait, 0)
		require.NoError(t, err)
		require.Zero(t, n)
		_, err = s.Send([]byte("wake up"))
		require.NoError(t, err)
		require.NoError(t, e.sets[0].Rings()[0].Flush())
		n, err = unix.Poll(wait, 0)
		require.NoError(t, err)
		require.Equal(t, 1, n, "readable")
		all := e.poll(1)
		require.Len(t, all, 1)
		require.NoError(t, all[0].Packet.Release())
	}
}

// What is held may be taken back with its socket. Answers that come later are not held by its time.
func TestGatheringEndsWithItsSocket(t *testing.T) {
	a := newAnswerer(t)
	x, y := a.connect(ring.Config{})
	for range 3 { // held from the second turn on
		for range 2 {
			_, err := x.Send([]byte("?"))
			require.NoError(t, err)
		}
		require.NoError(t, a.sets[0].Rings()[0].Flush())
		a.echo(1)
	}
	require.Empty(t, a.link.kicks)
	require.NoError(t, y.Abort())
	for _, c := range a.poll(1) { // its end
		require.True(t, c.Packet.IsZero())
	}
	a.now += clock.Time(30 * time.Microsecond)
	for range 4 {
		a.asked(2)
	}
	require.Empty(t, a.link.kicks, "held for no time yet")
	require.NoError(t, a.sets[1].Rings()[0].Flush())
	require.Equal(t, []int{8}, a.link.kicks)
	require.Equal(t, 8, a.heard())
}
