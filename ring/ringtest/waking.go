package ringtest

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// sleeps is how often each wake-up case goes to sleep, unless the backend says otherwise.
const sleeps = 10_000

func wakeByWait(t *testing.T, b Backend) {
	wakeUps(t, b, func(r *ring.Ring) error { return r.Wait(patience / 8) })
}

func wakeByFD(t *testing.T, b Backend) {
	set, err := sys.NewPollSet()
	require.NoError(t, err)
	defer set.Close()
	added := map[int]bool{}
	wakeUps(t, b, func(r *ring.Ring) error {
		if !added[r.FD()] {
			added[r.FD()] = true
			if err := set.Add(r.FD()); err != nil {
				return err
			}
		}
		if pending, err := r.Arm(); err != nil || pending {
			return err
		}
		return set.Wait(patience / 8)
	})
}

// wakeUps sleeps thousands of times and must be woken each time: by a datagram, by Wake, by posted work, by stream data, in
// turn, sent while it falls asleep, while it sleeps, and just before.
func wakeUps(t *testing.T, b Backend, sleep func(*ring.Ring) error) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	r := u.Ring()
	peer := w.udpPeer(u.LocalAddr())
	s, conn := u, net.Conn(peer) // a ring without streams gets datagrams instead
	if !b.Datagrams {
		s, conn = w.pair()
	}
	n := sleeps
	if b.Sleeps > 0 {
		n = b.Sleeps
	}
	if testing.Short() || raceEnabled || b.Name == "fake" { // a fake ring naps by the clock, it cannot be woken early
		n = min(n, sleeps/10)
	}
	var postedWork atomic.Int64
	request := make(chan int)
	defer close(request)
	go func() {
		for i := range request {
			switch { // now, a little later, or when it sleeps for sure
			case i%7 == 3:
				time.Sleep(20 * time.Microsecond)
			case i%97 == 5:
				time.Sleep(500 * time.Microsecond)
			}
			switch i % 4 {
			case 0:
				_, _ = peer.Write([]byte("x"))
			case 1:
				r.Wake()
			case 2:
				_ = r.Post(func() { postedWork.Add(1) })
			case 3:
				_, _ = conn.Write([]byte("x"))
			}
		}
	}()
	slept := r.Stats().Sleeps
	dropped := softnetDropped(t)
	for i := 0; r.Stats().Sleeps-slept < uint64(n); i++ { // a wake-up that comes first costs no sleep and does not count
		w.Less(i, 2*n, "it hardly ever sleeps: %+v", r.Stats())
		request <- i
		begin := time.Now()
		for came := false; !came; {
			w.NoError(sleep(r))
			if time.Since(begin) > patience/4 && i%4 == 0 && unread(u) == 0 && softnetDropped(t) > dropped {
				// The kernel says that it dropped packets before they reached a socket (net.core.netdev_max_backlog): that is not
				// our sleep. Without its word the datagram is ours to answer for.
				dropped = softnetDropped(t)
				w.write(peer, []byte("x"))
			}
			w.Less(time.Since(begin), patience/2, "lost wake-up %d of %d (kind %d): %+v", i, n, i%4, r.Stats())
			w.poll()
			switch i % 4 {
			case 0:
				came = w.drop(u) > 0
			case 1:
				came = true // Wake has no completion: returning from the sleep is all
			case 2:
				came = postedWork.Load() == int64(i/4+1)
			case 3:
				came = w.drop(s) > 0
			}
		}
	}
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
	s := w.udp(w.local)
	r := s.Ring()
	dst := make([]ring.Completion, 4)
	for i := range 33 {
		for range i % 16 {
			w.poll()
		}
		w.Empty(w.list())
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

func wakeByReturnedBuffer(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	r := u.Ring()
	peer := w.udpPeer(u.LocalAddr())
	for i := range 50 {
		w.write(peer, []byte("x"))
		c := w.event(u, ring.EventPacket, nil)
		l, err := c.Packet.Lend()
		w.NoError(err)
		go func() {
			time.Sleep(time.Duration(i%5) * 200 * time.Microsecond)
			_ = l.Release()
		}()
		begin := time.Now()
		for w.pool.Ledger().Lent > 0 {
			w.NoError(r.Wait(patience))
			w.poll()
			w.Less(time.Since(begin), patience/2, "the returned buffer did not wake the ring")
		}
	}
}
