package ringtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// sleeps is how often the wake-up cases of each way to sleep go to sleep, unless the backend says otherwise.
const sleeps = 10_000

// sleeper is a ring that is put to sleep and must be woken. Nothing is polled between the event and the judgement: a lost wake-up leaves the
// ring asleep, and that is what fails the case.
type sleeper struct {
	*world
	r     *ring.Ring
	u, s  *ring.Socket // for datagrams, for stream data; nil where the ring has none
	peer  Peer
	conn  net.Conn
	any   *ring.Socket // one of the two
	other net.Conn     // and its peer
	way   sleepMode
	limit time.Duration // within which a wake-up must come
	tid   int

	posted  atomic.Bool
	lent    buffers.Lent
	dropped uint64 // by the kernel, before packets reached a socket
}

// sleepMode is how a ring sleeps.
type sleepMode bool

const (
	byWait sleepMode = false // Ring.Wait
	byFD   sleepMode = true  // Arm, then its descriptor
)

// event is what must wake a ring.
type event struct {
	name    string
	prepare func(*sleeper)      // on the owner, while it is awake
	cause   func(*sleeper)      // on another goroutine
	came    func(*sleeper) bool // on the owner, after a Poll: the event is there and was taken
	taken   func(*sleeper) bool // on the owner, before one: Wait itself has taken the event; nil if only a Poll can
}

var wakeEvents = []event{
	{"a datagram", nil,
		func(x *sleeper) { _, _ = x.peer.Write([]byte("x")) },
		func(x *sleeper) bool { return x.drop(x.u) > 0 }, nil},
	{"stream data", nil,
		func(x *sleeper) { _, _ = x.conn.Write([]byte("x")) },
		func(x *sleeper) bool { return x.drop(x.s) > 0 }, nil},
	{"Wake", nil,
		func(x *sleeper) { x.r.Wake() },
		func(x *sleeper) bool { return true }, nil}, // it has no completion: that it ended the sleep is all
	{"posted work", nil,
		func(x *sleeper) { _ = x.r.Post(func() { x.posted.Store(true) }) },
		func(x *sleeper) bool { return x.posted.Swap(false) }, nil},
	{"a returned buffer",
		func(x *sleeper) {
			x.write(x.other, []byte("x"))
			c := x.event(x.any, ring.EventPacket, nil)
			var err error
			x.lent, err = c.Packet.Lend()
			x.NoError(err)
		},
		func(x *sleeper) { _ = x.lent.Release() },
		buffersBack, buffersBack},
}

// buffersBack reports that the owner has taken back what was lent: in a Poll, or in the look of Wait before it sleeps.
func buffersBack(x *sleeper) bool { return x.pool.Ledger().Lent == 0 }

// wakeByWait is the case "wake by Wait".
func wakeByWait(t *testing.T, b Backend) { wakeUps(t, b, byWait) }

// wakeByFD is the case "wake by FD".
func wakeByFD(t *testing.T, b Backend) { wakeUps(t, b, byFD) }

// wakeUps sleeps thousands of times. Each event must end the sleep: when it comes to a ring that is asleep for sure, and when it comes
// while the ring falls asleep.
func wakeUps(t *testing.T, b Backend, way sleepMode) {
	if b.Name == "fake" {
		t.Skip("a fake ring naps by the clock; TestWakingIsStrict gives it a sleep")
	}
	n := sleeps
	if b.Sleeps > 0 {
		n = b.Sleeps
	}
	if testing.Short() || raceEnabled {
		n = min(n, sleeps/10)
	}
	x := newSleeper(t, b, way)
	for _, e := range wakeEvents {
		if e.name == "stream data" && x.s == nil || e.name == "a datagram" && x.u == nil {
			continue // the ring has none
		}
		slept := x.r.Stats().Sleeps
		for i := range n / len(wakeEvents) {
			var err error
			if i%10 == 0 {
				err = x.asleep(e)
			} else {
				err = x.fallingAsleep(e, i)
			}
			x.NoError(err, "round %d: %+v", i, x.r.Stats())
		}
		x.GreaterOrEqual(x.r.Stats().Sleeps-slept, uint64(n/len(wakeEvents)/10), "%s: it hardly ever sleeps", e.name)
	}
}

// newSleeper makes the socket, the peer and the ring of a wake-up case that sleeps in the given mode.
func newSleeper(t *testing.T, b Backend, way sleepMode) *sleeper {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	x := &sleeper{world: newWorld(t, b), way: way, limit: testnet.Slow(5 * time.Second), tid: unix.Gettid(), dropped: softnetDropped(t)}
	if !b.Datagrams {
		x.s, x.conn = x.pair()
		x.any, x.other = x.s, x.conn
	}
	if !b.Streams {
		x.u = x.udp(x.local)
		x.peer = x.udpPeer(x.u.LocalAddr())
		x.any, x.other = x.u, x.peer
	}
	x.r = x.any.Ring()
	return x
}

// awakeMost bounds how often a ring may find something to do, or return from a sleep for no reason, before it sleeps.
const awakeMost = 10_000

// asleep causes the event when the ring is certainly asleep.
func (x *sleeper) asleep(e event) error {
	if e.prepare != nil {
		e.prepare(x)
	}
	for range awakeMost {
		x.poll()
		if x.way == byFD {
			if pending, err := x.r.Arm(); err != nil {
				return err
			} else if pending || x.readable(0) {
				continue
			}
			x.elsewhere(e)
			if !x.readable(x.limit) {
				return x.lost(e)
			}
			return x.take(e)
		}
		// Another goroutine sees this thread asleep in the kernel, then the event comes.
		var over atomic.Bool
		caused := make(chan bool)
		go func() {
			for !over.Load() {
				if threadSleeps(x.tid) && !over.Load() {
					e.cause(x)
					caused <- true
					return
				}
			}
			caused <- false
		}()
		begin := time.Now()
		err := x.r.Wait(x.limit)
		took := time.Since(begin)
		over.Store(true)
		switch came := <-caused; {
		case err != nil:
			return err
		case came && took >= x.limit:
			return x.lost(e)
		case came:
			return x.take(e)
		}
	}
	return fmt.Errorf("%s: the ring does not fall asleep", e.name)
}

// fallingAsleep causes the event at about the time at which the ring falls asleep: shortly before, meanwhile or after.
func (x *sleeper) fallingAsleep(e event, round int) error {
	if e.prepare != nil {
		e.prepare(x)
	}
	x.poll()
	var caused atomic.Bool
	done := make(chan struct{})
	go func() {
		for range round % 50 * 400 { // up to tens of microseconds, by spinning: a sleep would take longer
			caused.Load()
		}
		e.cause(x)
		caused.Store(true)
		close(done)
	}()
	if x.way == byFD {
		pending, err := x.r.Arm()
		if err == nil && !pending && !x.readable(x.limit) {
			err = x.lost(e)
		}
		<-done
		if err != nil {
			return err
		}
		return x.take(e)
	}
	for {
		begin := time.Now()
		err := x.r.Wait(x.limit)
		if err == nil && time.Since(begin) >= x.limit {
			err = x.lost(e)
		}
		if err == nil && !caused.Load() && (e.taken == nil || !e.taken(x)) {
			runtime.Gosched() // it returned for no reason, before the event or in its middle: it goes to sleep again, unpolled
			continue
		}
		<-done
		if err != nil {
			return err
		}
		return x.take(e)
	}
}

// elsewhere causes the event from another goroutine, and returns when that has happened.
func (x *sleeper) elsewhere(e event) {
	done := make(chan struct{})
	go func() { defer close(done); e.cause(x) }()
	<-done
}

// take polls until the event's completion is there.
func (x *sleeper) take(e event) error {
	for end := time.Now().Add(x.limit); ; {
		x.poll()
		if e.came(x) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: the ring woke up and has nothing of it", e.name)
		}
	}
}

// errLost is a ring that sleeps on.
var errLost = errors.New("the wake-up is lost")

// lost returns the error that an event did not wake the ring, unless the kernel's counters show that it dropped packets before they reached a
// socket (net.core.netdev_max_backlog).
func (x *sleeper) lost(e event) error {
	if dropped := softnetDropped(x.t); e.name == "a datagram" && unread(x.u) == 0 && dropped > x.dropped {
		x.dropped = dropped
		x.poll()
		return nil
	}
	return fmt.Errorf("%s, the ring asleep by %v: %w", e.name, x.way, errLost)
}

// String is the mode in words.
func (w sleepMode) String() string {
	if w == byFD {
		return "its descriptor"
	}
	return "Wait"
}

// readable waits for the ring's descriptor.
func (x *sleeper) readable(limit time.Duration) bool {
	fd := []unix.PollFd{{Fd: int32(x.r.FD()), Events: unix.POLLIN}}
	for end := time.Now().Add(limit); ; {
		left := unix.NsecToTimespec(int64(max(time.Until(end), 0)))
		n, err := unix.Ppoll(fd, &left, nil)
		if err != unix.EINTR {
			x.NoError(err)
			return n > 0
		}
	}
}

// threadSleeps reports whether a thread of this process is in one of the calls that rings sleep in, as the kernel shows it.
func threadSleeps(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
	if err != nil {
		return false
	}
	number, _, _ := strings.Cut(string(text), " ") // "running" while it is not in a call
	call, err := strconv.Atoi(number)
	return err == nil && (call == unix.SYS_IO_URING_ENTER || call == unix.SYS_EPOLL_PWAIT2 || call == unix.SYS_PPOLL || call == unix.SYS_EPOLL_PWAIT)
}

// softnetDropped is how many packets the host dropped because a processor's backlog was full (second column of softnet_stat, hex).
func softnetDropped(t *testing.T) (sum uint64) {
	text, err := os.ReadFile("/proc/net/softnet_stat")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseUint(strings.Fields(line)[1], 16, 64)
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// unread is how much waits in the socket's queue in the kernel.
func unread(s *ring.Socket) int {
	n, err := unix.IoctlGetInt(s.ID(), unix.SIOCINQ)
	if err != nil {
		return -1
	}
	return n
}

// drop takes and releases all the socket's packets that were delivered.
func (w *world) drop(s *ring.Socket) (n int) {
	kept := w.kept[:0]
	for _, c := range w.kept {
		if c.Socket == s && c.Events == ring.EventPacket {
			w.NoError(c.Packet.Release())
			n++
			continue
		}
		kept = append(kept, c)
	}
	w.kept = kept
	return n
}

// wakeByDeadline is the case "wake by deadline".
func wakeByDeadline(t *testing.T, b Backend) {
	w := newWorld(t, b)
	var s *ring.Socket
	if b.Datagrams {
		s = w.udp(w.local)
	} else {
		s, _ = w.pair()
	}
	r := s.Ring()
	set, err := sys.NewPollSet()
	w.NoError(err)
	defer set.Close()
	w.NoError(set.Add(r.FD()))
	for i := range 20 {
		begin := time.Now()
		w.NoError(s.SetReadDeadline(begin.Add(5 * time.Millisecond)))
		for w.poll() == 0 {
			if i%2 == 0 {
				w.NoError(r.Wait(patience))
			} else if pending, err := r.Arm(); !pending {
				w.NoError(err)
				w.NoError(set.Wait(patience))
			}
			w.Less(time.Since(begin), patience/2, "the deadline did not wake the ring")
		}
		w.event(s, ring.EventIn, ring.ErrDeadline)
		w.GreaterOrEqual(time.Since(begin), 5*time.Millisecond)
	}
}

// lateTurns: an application that takes long between two Polls gets what is due in the next one, at whatever turn of the ring that is.
func lateTurns(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, _ := w.receiver()
	r := s.Ring()
	dst := make([]ring.Completion, 4)
	for i := range 33 {
		for range i % 16 {
			w.poll()
		}
		w.Empty(w.listKept())
		due := time.Now().Add(time.Millisecond)
		w.NoError(s.SetReadDeadline(due))
		time.Sleep(time.Until(due) + time.Millisecond)
		n, err := r.Poll(dst)
		w.NoError(err)
		w.Equal(1, n, "round %d: the first Poll after the deadline", i)
		w.Equal(ring.EventIn, dst[0].Events)
		w.ErrorIs(dst[0].Err, ring.ErrDeadline)
	}
}
