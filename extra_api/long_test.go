package extraapi_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

// flood sends as fast as it can until stopped, and counts. On the offloaded world the far ring belongs to this goroutine meanwhile.
func (w *world) flood(to netip.AddrPort, stop *atomic.Bool, sent *atomic.Int64) (failed chan error) {
	failed = make(chan error, 1)
	b := make([]byte, 64)
	if w.far == nil {
		conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
		w.NoError(err)
		go func() {
			defer conn.Close()
			for !stop.Load() {
				if _, err := conn.Write(b); err != nil {
					failed <- err
					return
				}
				sent.Add(1)
			}
			failed <- nil
		}()
		return failed
	}
	far := w.far
	w.far = nil
	go func() {
		s, err := far.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		if err == nil {
			err = s.Connect(to)
		}
		done := make([]ring.Completion, 64)
		for err == nil && !stop.Load() {
			if _, e := s.Send(b); e == nil {
				sent.Add(1)
				continue
			}
			_, err = far.Rings()[0].Poll(done)
		}
		if err == nil {
			err = far.Close()
		}
		failed <- err
	}()
	return failed
}

// The callback holds every packet and lends it to goroutines that release it, at the highest rate that comes: every buffer returns to the
// pool, and the race detector has nothing to say. In VMA this corrupts the pool at a million packets a second (issues/335).
// SOCKETXTREME_LONG=60s makes it a minute on each kind of ring.
func TestHoldReleasedElsewhere(t *testing.T) {
	d, _ := longTest(t, 600*time.Millisecond)
	onEach(t, everyKind, func(w *world) {
		const releasers = 3
		lent := make(chan buffers.Lent, 256)
		var released, wrong, sent atomic.Int64
		var gone sync.WaitGroup
		for range releasers {
			gone.Go(func() {
				for l := range lent {
					if l.Len() != 64 {
						wrong.Add(1)
					}
					if l.Release() != nil {
						wrong.Add(1)
					}
					released.Add(1)
				}
			})
		}
		held, full := 0, 0
		s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
		w.NoError(err)
		w.with(func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
			if len(lent) == cap(lent) {
				full++
				return extraapi.PacketDrop // a callback may not block
			}
			l, err := p.Lend()
			w.NoError(err)
			lent <- l
			held++
			return extraapi.PacketHold
		})(s)
		w.NoError(s.Bind(w.local))
		var stop atomic.Bool
		failed := w.flood(s.LocalAddr(), &stop, &sent)
		for end := time.Now().Add(d); time.Now().Before(end); {
			for range 64 {
				n, err := s.Ring().Poll(w.dst)
				w.NoError(err)
				w.Zero(n)
			}
		}
		stop.Store(true)
		w.NoError(<-failed)
		w.closed(s)
		close(lent)
		gone.Wait()
		w.poll() // takes back what was released
		w.Zero(wrong.Load())
		w.Positive(held)
		w.EqualValues(held, released.Load())
		c := s.Stats()
		w.EqualValues(held, c.CallbackHolds)
		w.EqualValues(full, c.CallbackDrops)
		w.Equal(c.Packets, c.CallbackHolds+c.CallbackDrops)
		l := w.pool.Ledger()
		w.Equal(l.Total, l.Sum())
		w.Zero(l.Held + l.Lent + l.Received)
		w.NoError(w.pool.Verify())
		w.t.Logf("%d sent, %d held and released elsewhere, %d dropped because the releasers were behind", sent.Load(), held, full)
	})
}

// A stream of 64 MiB (1 GiB with SOCKETXTREME_LONG) is the same at the other end, without having been copied; the longest time in which
// nothing came is told, and what was the reason.
func TestZeroCopyReceiveOfALongStream(t *testing.T) {
	size := 64 << 20
	if _, long := longTest(t, time.Second); long {
		size = 1 << 30
	}
	if raceEnabled {
		size /= 8
	}
	onEach(t, kernelKinds, func(w *world) {
		l, err := w.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{LargeStream: true})
		w.NoError(err)
		w.pull(l)
		w.NoError(l.Bind(w.local))
		w.NoError(l.Listen(1))
		s, peer := w.pair(l)
		w.NoError(peer.SetDeadline(time.Now().Add(10 * time.Minute)))
		raw, err := peer.SyscallConn()
		w.NoError(err)
		var want [sha256.Size]byte
		var stalled time.Duration // the sender's longest Write
		failed := make(chan error, 1)
		go func() { failed <- send(peer, size, &want, &stalled) }()

		hash, got, calls := sha256.New(), 0, 0
		var longest gap
		g := gap{since: time.Now()}
		dst := make([]ring.Completion, 32)
		for end := time.Now().Add(9 * time.Minute); ; {
			n, bytes, err := extraapi.RecvFromZeroCopy(s, dst, 0, 0)
			if err == io.EOF {
				break
			}
			if err != nil {
				w.ErrorIs(err, unix.EAGAIN)
				w.True(time.Now().Before(end), "%d of %d bytes", got, size)
				if w.poll() == 0 {
					runtime.Gosched()
				}
				w.kept = w.kept[:0] // IN
				if g.polls++; g.polls%64 == 0 {
					g.look(s, raw)
				}
				continue
			}
			if g.length = time.Since(g.since); g.length > longest.length {
				longest = g
				longest.at = got
			}
			calls++
			sum := 0
			for i := range dst[:n] {
				for b := range dst[i].Packet.Segments() {
					_, _ = hash.Write(b)
					sum += len(b)
				}
			}
			w.Equal(bytes, sum)
			got += bytes
			freed, err := extraapi.FreeCompletions(s, dst[:n])
			w.NoError(err)
			w.Equal(n, freed)
			g = gap{since: time.Now()}
		}
		w.NoError(<-failed)
		w.Equal(size, got)
		w.Equal(fmt.Sprintf("%x", want), fmt.Sprintf("%x", hash.Sum(nil)))
		w.t.Logf("%d bytes in %d receives; longest gap %v after %d bytes: %s; the sender's longest write took %v", got, calls,
			longest.length.Round(time.Microsecond), longest.at, longest.reason(), stalled.Round(time.Microsecond))
		if longest.stopped == 0 {
			w.LessOrEqual(2*longest.here, longest.looks, "the ring did not read what there was")
		}
	})
}

// send writes size random bytes, then FIN.
func send(peer *net.TCPConn, size int, sum *[sha256.Size]byte, stalled *time.Duration) error {
	random, hash := rand.NewChaCha8([32]byte{7}), sha256.New()
	b := make([]byte, 1<<17)
	for left := size; left > 0; {
		n := min(left, 1+int(random.Uint64()%uint64(len(b))))
		_, _ = random.Read(b[:n])
		_, _ = hash.Write(b[:n])
		begin := time.Now()
		if _, err := peer.Write(b[:n]); err != nil {
			return err
		}
		*stalled = max(*stalled, time.Since(begin))
		left -= n
	}
	hash.Sum(sum[:0])
	return peer.CloseWrite()
}

// gap is a time in which nothing was received, and what was seen in it now and then.
type gap struct {
	since   time.Time
	length  time.Duration
	at      int // bytes before it
	polls   int
	looks   int
	stopped int // looks at which the socket was over its budget
	here    int // at which bytes waited in our kernel socket
	there   int // at which bytes waited in the peer's
}

func (g *gap) look(s *ring.Socket, peer syscall.RawConn) {
	g.looks++
	if s.OverBudget() {
		g.stopped++
	}
	if n, err := unix.IoctlGetInt(s.ID(), unix.SIOCINQ); err == nil && n > 0 {
		g.here++
	}
	_ = peer.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil && n > 0 {
			g.there++
		}
	})
}

// reason is what it was.
func (g gap) reason() string {
	switch {
	case g.looks == 0:
		return fmt.Sprintf("the receiver hardly ran: %d polls", g.polls)
	case 2*g.stopped > g.looks:
		return "the socket was over its budget and reading had stopped"
	case 2*g.here > g.looks:
		return "bytes waited in our kernel socket, and the ring did not read them"
	case 2*g.there > g.looks:
		return "the peer's kernel had bytes and did not send them"
	}
	return fmt.Sprintf("the sender had nothing to send (%d polls)", g.polls)
}
