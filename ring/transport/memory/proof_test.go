package memory_test

import (
	"bytes"
	"io"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// loseFirst loses the first n segments that match.
func loseFirst(n int32, match func(s *protocol.Segment) bool) func(*protocol.Segment) bool {
	var left atomic.Int32
	left.Store(n)
	return func(s *protocol.Segment) bool { return match(s) && left.Add(-1) >= 0 }
}

// A handshake takes several Polls and a deadline of the protocol's own, for which a sleeping ring wakes.
func TestHandshakeWakesTheRing(t *testing.T) {
	for _, way := range []string{"Wait", "FD"} {
		t.Run(way, func(t *testing.T) {
			x := newRig(t, quick())
			x.host.Link().Impair(memory.Impairment{Lose: loseFirst(1, func(s *protocol.Segment) bool { return s.Flags&protocol.SYN != 0 })})
			l, err := x.peers.ListenStream()
			x.NoError(err)
			s := x.socket()
			begin := time.Now()
			x.NoError(s.Connect(l.Addr()))
			polls := 0
			for ; x.poll() == 0; polls++ {
				x.Less(polls, 50, "it does not sleep")
				if way == "Wait" {
					x.NoError(x.ring().Wait(-1))
					continue
				}
				if pending, err := x.ring().Arm(); !pending {
					x.NoError(err)
					fd := []unix.PollFd{{Fd: int32(x.ring().FD()), Events: unix.POLLIN}}
					_, err := unix.Poll(fd, 5000)
					if err != unix.EINTR {
						x.NoError(err)
					}
				}
			}
			x.Greater(polls, 1)
			x.GreaterOrEqual(time.Since(begin), 30*time.Millisecond)
			x.Less(time.Since(begin), 2*time.Second)
			x.event(s, ring.EventOut, nil)
		})
	}
}

// Children that nobody takes fill the backlog: a further SYN is ignored, or refused.
func TestBacklog(t *testing.T) {
	for _, policy := range []protocol.Overflow{protocol.DropSYN, protocol.RefuseSYN} {
		c := quick()
		c.Overflow = policy
		x := newRig(t, c)
		l := x.listen(1)
		x.NoError(l.Suspend())
		x.dial(l)
		done := make(chan error, 1)
		go func() {
			_, err := x.peers.DialStream(l.LocalAddr(), func() { time.Sleep(time.Millisecond) })
			done <- err
		}()
		x.True(x.until(func() bool { return x.host.Protocol().Stats().Overflows > 0 }, 5*time.Second))
		want := error(nil)
		if policy == protocol.RefuseSYN {
			want = syscall.ECONNREFUSED
		} else {
			x.NoError(l.Resume()) // the first is accepted, the SYN comes again
		}
		var err error
		x.True(x.until(func() bool {
			select {
			case err = <-done:
				return true
			default:
				return false
			}
		}, 5*time.Second))
		x.ErrorIs(err, want)
	}
}

// The window opens when the application releases a packet: not when it is delivered, and from whatever goroutine.
func TestWindowOpensAtRelease(t *testing.T) {
	c := quick()
	c.Window = 8000
	x := newRig(t, c)
	s, peer := x.pair()
	text := bytes.Repeat([]byte("0123456789abcdef"), 2000) // 32,000 bytes
	_, err := peer.Write(text)
	x.NoError(err)
	received := func() (n int) {
		for i := range x.kept {
			n += x.kept[i].Packet.Len()
		}
		return n
	}
	x.True(x.until(func() bool { return received() == 8000 }, 5*time.Second))
	x.pollFor(50 * time.Millisecond)
	x.Equal(8000, received(), "beyond the window")
	var got []byte
	for len(got) < len(text) {
		x.True(x.until(func() bool { return len(x.kept) > 0 }, 5*time.Second), "%d bytes came", len(got))
		k := x.kept[0]
		x.kept = x.kept[1:]
		got = append(got, k.Packet.Bytes()...)
		if len(got)%3 == 0 {
			x.NoError(k.Packet.Release())
			continue
		}
		lent, err := k.Packet.Lend()
		x.NoError(err)
		done := make(chan struct{})
		go func() { defer close(done); _ = lent.Release() }()
		<-done
	}
	x.Equal(text, got)
	x.NoError(s.Close())
}

// A buffer is transmitting while the link refers to it, then unacknowledged, then free; what the link holds is not sent again.
func TestBuffersOnTheirWay(t *testing.T) {
	x := newRig(t, quick())
	s, peer := x.pair()
	x.poll()
	x.host.Link().Impair(memory.Impairment{Hold: 150 * time.Millisecond})
	x.peers.link.Impair(memory.Impairment{Lose: func(*protocol.Segment) bool { return true }})
	x.NoError(s.SendPacket(x.packet(4000), netip.AddrPort{}, 7))
	x.poll()
	x.Equal(1, x.pool.Ledger().Transmitting)
	x.pollFor(100 * time.Millisecond) // beyond the first time-outs
	x.Equal(1, x.pool.Ledger().Transmitting)
	x.NotZero(x.host.Protocol().Stats().Held)
	x.Zero(x.host.Protocol().Stats().Retransmitted, "the link still holds the frames")
	x.host.Link().Impair(memory.Impairment{})
	x.True(x.until(func() bool { return x.pool.Ledger().Unacknowledged == 1 }, 5*time.Second))
	x.Empty(x.kept, "no SENT before the peer has it")
	x.True(x.until(func() bool { return x.host.Protocol().Stats().Retransmitted > 0 }, 5*time.Second))
	x.peers.link.Impair(memory.Impairment{})
	c := x.event(s, ring.EventSent, nil)
	x.Equal(uint64(7), c.Token)
	l := x.pool.Ledger()
	x.Equal(l.Total, l.Free)
	got := make([]byte, 4000)
	_, err := io.ReadFull(peer, got)
	x.NoError(err)
}

// EventOut for each acknowledgement that advances, where it was asked for.
func TestOutPerAck(t *testing.T) {
	x := newRig(t, quick())
	s, _ := x.pair()
	x.NoError(s.SetOutPerAck(true))
	for range 3 {
		_, err := s.Send([]byte("x"))
		x.NoError(err)
		x.event(s, ring.EventOut, nil)
	}
	x.NoError(s.SetOutPerAck(false))
	_, err := s.Send([]byte("x"))
	x.NoError(err)
	x.pollFor(20 * time.Millisecond)
	x.Empty(x.kept)
}

// Data for a socket that was closed, and data that the peer closes over unread, are answered with a reset.
func TestUnreadData(t *testing.T) {
	x := newRig(t, quick())
	s, peer := x.pair()
	x.NoError(s.Close())
	x.event(s, ring.EventClosed, nil)
	x.pollFor(5 * time.Millisecond)
	_, err := peer.Write([]byte("is anybody there?"))
	x.NoError(err)
	x.True(x.until(func() bool {
		x.peers.mu.Lock()
		defer x.peers.mu.Unlock()
		return peer.err == syscall.ECONNRESET
	}, 5*time.Second))

	s, peer = x.pair()
	_, err = s.Send([]byte("unread"))
	x.NoError(err)
	x.pollFor(5 * time.Millisecond)
	x.NoError(peer.Close())
	x.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, syscall.ECONNRESET)
}

func TestSimultaneousClose(t *testing.T) {
	x := newRig(t, quick())
	s, peer := x.pair()
	x.host.Link().Impair(memory.Impairment{Delay: 5 * time.Millisecond})
	x.peers.link.Impair(memory.Impairment{Delay: 5 * time.Millisecond})
	x.NoError(s.Close())
	x.NoError(peer.Close())
	x.event(s, ring.EventClosed, nil)
	x.True(x.until(func() bool { return x.host.Protocol().Len() == 0 }, 5*time.Second))
	x.True(x.until(func() bool {
		x.peers.mu.Lock()
		defer x.peers.mu.Unlock()
		return peer.gone
	}, 5*time.Second))
	x.NoError(peer.err)
}

// The record of a socket that is closed sends what was taken, and FIN again when it is lost, and stays in TIME-WAIT; the ring has no socket, and
// wakes for it.
func TestRecordsOutliveTheirSocket(t *testing.T) {
	x := newRig(t, quick())
	s, peer := x.pair()
	x.host.Link().Impair(memory.Impairment{Lose: loseFirst(4, func(s *protocol.Segment) bool { return s.Length > 0 || s.Flags&protocol.FIN != 0 })})
	_, err := s.Send([]byte("famous last words"))
	x.NoError(err)
	x.NoError(s.Close())
	x.event(s, ring.EventClosed, nil)
	listeners := 1
	x.Equal(listeners, x.ring().Sockets())
	x.False(ring.IsIdle(x.ring()))
	x.Equal(1, x.host.Protocol().Len())
	type end struct {
		data []byte
		err  error
	}
	ends := make(chan end, 1)
	go func() {
		data, err := io.ReadAll(peer)
		ends <- end{data, err}
	}()
	x.asleepUntil(func() bool { return len(ends) > 0 })
	e := <-ends
	x.NoError(e.err)
	x.Equal("famous last words", string(e.data))
	x.Equal(1, x.host.Protocol().Len())
	x.NoError(peer.Close())
	x.asleepUntil(func() bool { return x.host.Protocol().Len() == 0 }) // TIME-WAIT too
	l := x.pool.Ledger()
	x.Equal(l.Total, l.Free)
}

// asleepUntil sleeps without a limit and polls, until something holds.
func (x *rig) asleepUntil(holds func() bool) {
	x.t.Helper()
	before, begin := x.ring().Stats().Polls, time.Now()
	for !holds() {
		x.Less(time.Since(begin), 10*time.Second, "it does not come")
		x.NoError(x.ring().Wait(-1))
		x.poll()
	}
	x.Less(x.ring().Stats().Polls-before, uint64(2000), "it does not sleep")
}

// A ring that is closed over such records resets their peers and has its buffers back.
func TestRingClosedOverRecords(t *testing.T) {
	x := newRig(t, quick())
	s, peer := x.pair()
	n, err := s.Send(make([]byte, 200_000))
	x.NoError(err)
	x.Equal(200_000, n)
	x.NoError(s.Close())
	x.event(s, ring.EventClosed, nil)
	x.NotZero(x.pool.Ledger().Unacknowledged + x.pool.Ledger().Transmitting)
	x.NoError(x.ring().Close())
	l := x.pool.Ledger()
	x.Equal(l.Total, l.Free)
	_, err = io.Copy(io.Discard, peer)
	x.ErrorIs(err, syscall.ECONNRESET)
}

// A send takes what there is room for, and OUT comes when half of the queue is confirmed.
func TestPartialSend(t *testing.T) {
	x := newRig(t, quick(), func(c *memory.Config) { c.SendBuffer = 50_000 })
	s, peer := x.pair()
	x.peers.link.Impair(memory.Impairment{Lose: func(*protocol.Segment) bool { return true }})
	n, err := s.Send(make([]byte, 80_000))
	x.ErrorIs(err, ring.ErrWouldBlock)
	x.Equal(50_000, n)
	_, err = s.Send([]byte("x"))
	x.ErrorIs(err, ring.ErrWouldBlock)
	x.pollFor(20 * time.Millisecond)
	x.Empty(x.kept)
	x.peers.link.Impair(memory.Impairment{})
	x.event(s, ring.EventOut, nil)
	x.LessOrEqual(x.pool.Used(buffers.Account(0)), 50_000*2)
	x.NoError(s.Close())
	data, err := x.all(peer)
	x.ErrorIs(err, io.EOF)
	x.Len(data, 50_000)
}

// A callback aborts its connection and dials: the new socket may get the record of the old one, and its facts are its own.
func TestRecordThatACallbackFreesAndTakes(t *testing.T) {
	x := newRig(t, quick())
	s, peer := x.pair()
	other, _ := x.pair()
	var next *ring.Socket
	x.NoError(s.SetReceiveMode(ring.Completions, func(s *ring.Socket, _ *ring.Completion) ring.Verdict {
		x.NoError(s.Abort())
		next = x.socket()
		x.NoError(next.Connect(netip.AddrPortFrom(ringAddrs[0], 1))) // nobody listens there, on this very host
		for range 3 {
			_, err := other.Send([]byte("x")) // takes in what has arrived meanwhile
			x.NoError(err)
		}
		return ring.Drop
	}))
	_, err := peer.Write([]byte("x"))
	x.NoError(err)
	x.event(s, ring.EventClosed, nil)
	x.event(next, ring.EventIn|ring.EventErr|ring.EventHup, syscall.ECONNREFUSED)
}
