package offload_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
)

// slow is a link whose Flush sends a few frames at a time, as AF_XDP's in copy mode on an interface whose queue is nearly full.
type slow struct {
	*memory.End
	room     int        // of the transmit ring; 0: any number
	each     int        // frames that a Flush sends
	down     unix.Errno // what Flush says instead
	held     []link.Out
	complete bool // what was sent comes back
}

func (l *slow) Send(src []link.Out) int {
	n := len(src)
	if l.room > 0 {
		n = min(n, l.room-l.Unsent())
	}
	l.held = append(l.held, src[:n]...)
	return n
}

func (l *slow) Unsent() int   { return len(l.held) + l.End.Unsent() }
func (l *slow) Pending() bool { return len(l.held) > 0 }

func (l *slow) Flush() error {
	if l.down != 0 {
		return l.down
	}
	n := min(l.each, len(l.held))
	l.End.Send(l.held[:n])
	l.held = l.held[n:]
	return l.End.Flush()
}

func (l *slow) Complete(dst []link.Done) int {
	if !l.complete {
		return 0
	}
	return l.End.Complete(dst)
}

// sleeper is a host behind a slow link, which notes for how long it would sleep.
type sleeper struct {
	t      *testing.T
	s      *ring.Socket
	theirs *memory.End
	now    clock.Time
	until  clock.Time
}

func newSleeper(t *testing.T, l *slow) *sleeper {
	x := &sleeper{t: t, now: clock.Time(time.Second)}
	pool, others := newPool(t, layout), newPool(t, layout)
	ours, theirs, err := memory.Pair(pool, others, memory.Config{Addrs: macs, MTU: 1500, Slots: 256})
	require.NoError(t, err)
	l.End, x.theirs = ours, theirs
	ns, err := offload.NewMemoryHost(facts(0, 1500), rand.Uint64)
	require.NoError(t, err)
	oc := overLink(t, ns, l)
	oc.Clock, oc.Sleep = func() clock.Time { return x.now }, func(until clock.Time) { x.until = until }
	set, err := ring.NewSet(ring.SetConfig{Pool: pool, Kind: "offload", Transport: ns, OneRing: offload.OneRing, Driver: offload.New(oc)})
	require.NoError(t, err)
	t.Cleanup(func() {
		l.End.Send(l.held) // the kernel's socket would lose them with it
		require.NoError(t, set.Close())
		require.NoError(t, theirs.Close())
	})
	x.s, err = set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, x.s.Bind(netip.AddrPortFrom(subnets[0][0].Addr(), 7000)))
	return x
}

func (x *sleeper) send(n int) {
	for range n {
		_, err := x.s.SendTo([]byte("x"), netip.AddrPortFrom(subnets[1][0].Addr(), 9))
		require.NoError(x.t, err)
	}
}

// sleep arms the ring and tells for how long at the most it would sleep; that time passes, and it is polled once.
func (x *sleeper) sleep() time.Duration {
	pending, err := x.s.Ring().Arm()
	require.NoError(x.t, err)
	require.False(x.t, pending)
	long := x.until.Sub(x.now)
	x.now = min(x.until, x.now.Add(time.Hour))
	_, err = x.s.Ring().Poll(make([]ring.Completion, 8))
	require.NoError(x.t, err)
	return long
}

// left is how many frames have reached the wire since it was last asked.
func (x *sleeper) left() int {
	var frames [64]link.Frame
	n := x.theirs.Receive(frames[:])
	for i := range frames[:n] {
		require.NoError(x.t, frames[i].Packet.Release())
	}
	return n
}

// A ring does not sleep on while the kernel has not read all its frames; for those that merely have not come back it is not woken.
func TestSleepIsShortWhileFramesHaveNotLeft(t *testing.T) {
	for name, l := range map[string]*slow{
		"left by Flush": {each: 4}, "no room in the transmit ring": {each: 4, room: 8, complete: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSleeper(t, l)
			x.send(16)
			left := 0
			for range 8 {
				require.NotZero(t, 16-left)
				long := x.sleep()
				if left += x.left(); left == 16 {
					break
				}
				require.LessOrEqual(t, long, time.Millisecond, "%d of 16 have left", left)
			}
			require.Equal(t, 16, left)
			require.Positive(t, l.Unsent(), "they have not come back")
			require.Greater(t, x.sleep(), 100*time.Millisecond, "only the stack's own")
		})
	}
}

// Nor is it woken each millisecond while the interface is down.
func TestSleepWhileTheInterfaceIsDown(t *testing.T) {
	l := &slow{each: 64, down: unix.ENETDOWN}
	x := newSleeper(t, l)
	x.send(4)
	require.ErrorIs(t, x.s.Ring().Flush(), unix.ENETDOWN)
	_, err := x.s.Ring().Poll(make([]ring.Completion, 8)) // which looks at the link that has failed
	require.NoError(t, err)
	for range 3 {
		require.Equal(t, time.Second, x.sleep())
	}
	require.Zero(t, x.left())
	l.down = 0
	x.sleep()
	require.Equal(t, 4, x.left())
}
