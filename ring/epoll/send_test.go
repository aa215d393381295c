package epoll

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

func TestBackPressure(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	piece := pattern(10000, 1)
	var sent int
	fill := func() {
		for {
			n, err := s.Send(piece)
			sent += n
			if err != nil {
				require.ErrorIs(t, err, ring.ErrWouldBlock)
				return
			}
		}
	}
	for round := range 3 {
		fill()
		for times := 0; ; times++ { // the kernel moves data to the peer's buffer later, where the machine is slow: then there is room again
			if _, ok := w.within(30*time.Millisecond, s, ring.EventOut); !ok {
				break
			}
			require.Less(t, times, 1000, "the peer does not read, and there is always room")
			fill()
		}
		requireRests(t, w) // the wanted event does not keep the ring awake
		read := 0
		buf := make([]byte, 1<<16)
		for read < sent {
			n, err := peer.Read(buf[:min(len(buf), sent-read)])
			require.NoError(t, err)
			read += n
		}
		sent = 0
		c := w.next(s, ring.EventOut)
		require.Equal(t, ring.EventOut, c.Events, "round %d", round)
		w.quiet(s, ring.EventOut)
	}
	w.close(s)
}

func TestLargePacketsKeepTheirOrder(t *testing.T) {
	layout := testLayout
	layout.SmallCount = 4096
	w := newWorldOf(t, layout)
	s, peer := w.connected(ring.Config{})
	require.NoError(t, s.SetSendBuffer(65536))
	const size = 1<<20 + 12345
	var want []byte
	for i, part := range []int{2048, 65536, 1} {
		b := pattern(size, byte(i))
		if part == 1 {
			b = b[:300] // one byte a buffer, more buffers than one message carries
		}
		want = append(want, b...)
		require.NoError(t, s.SendPacket(w.packet(b, part), noAddr, uint64(i)))
	}
	n, err := s.Send([]byte("not in between"))
	require.Zero(t, n)
	require.ErrorIs(t, err, ring.ErrWouldBlock)
	for range 10 { // until the peer's window is full
		w.quiet(s, ring.EventSent)
	}
	requireRests(t, w)

	type result struct {
		b   []byte
		err error
	}
	done := make(chan result)
	go func() {
		b := make([]byte, len(want))
		_, err := io.ReadFull(peer, b)
		done <- result{b, err}
	}()
	var events ring.Event
	for i := range 3 {
		c := w.next(s, ring.EventSent)
		require.NoError(t, c.Err)
		require.EqualValues(t, i, c.Token)
		events |= c.Events
	}
	r := <-done
	require.NoError(t, r.err)
	require.True(t, string(want) == string(r.b), "the peer got other bytes than were sent")
	require.True(t, events.Has(ring.EventOut), "room was promised to Send")
	w.close(s)
}

func TestCloseSendsWhatWasHandedOver(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	require.NoError(t, s.SetSendBuffer(65536))
	want := pattern(1<<20, 4)
	require.NoError(t, s.SendPacket(w.packet(want, 65536), noAddr, 1))
	require.NoError(t, s.Close())
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(peer)
		got <- b
	}()
	require.NoError(t, w.next(s, ring.EventSent).Err)
	w.next(s, ring.EventClosed)
	require.True(t, string(want) == string(<-got))
}

func TestAbortGivesPacketsBack(t *testing.T) {
	w := newWorld(t)
	s, _ := w.connected(ring.Config{})
	require.NoError(t, s.SetSendBuffer(65536))
	for i := range 5 {
		require.NoError(t, s.SendPacket(w.packet(pattern(6*65536, 1), 65536), noAddr, uint64(i)))
	}
	w.poll(16)
	require.NoError(t, s.Abort())
	tokens := map[uint64]bool{}
	for range 5 {
		c := w.next(s, ring.EventSent)
		require.Error(t, c.Err)
		tokens[c.Token] = true
	}
	require.Len(t, tokens, 5)
	w.next(s, ring.EventClosed)
}

func TestResetGivesPacketsBack(t *testing.T) {
	for name, unread := range map[string]bool{"nothing to read": false, "the peer had sent something": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, peer := w.connected(ring.Config{})
			require.NoError(t, s.SetSendBuffer(65536))
			for i := range 3 {
				require.NoError(t, s.SendPacket(w.packet(pattern(6*65536, 1), 65536), noAddr, uint64(i)))
			}
			if unread {
				_, err := peer.Write([]byte("before the reset"))
				require.NoError(t, err)
			}
			reset(t, peer)
			time.Sleep(5 * time.Millisecond)
			if unread {
				require.Equal(t, "before the reset", string(w.bytesKeeping(s)))
			}
			c := w.next(s, ring.EventErr)
			require.True(t, c.Events.Has(rst), "%v", c.Events)
			require.ErrorIs(t, c.Err, unix.ECONNRESET)
			n := 0
			if c.Events.Has(ring.EventSent) {
				n++
			}
			for ; n < 3; n++ {
				require.ErrorIs(t, w.next(s, ring.EventSent).Err, unix.ECONNRESET)
			}
			w.quiet(s, ^ring.Event(0))
			requireRests(t, w)
			w.close(s)
		})
	}
}

// TestSendThatMeetsAReset lets sendmsg, not epoll, be the first to meet the reset: it takes the error from the socket, and the
// ring must tell of it all the same.
func TestSendThatMeetsAReset(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w := newWorld(t)
		s, peer := w.connected(ring.Config{})
		_, err := s.Send([]byte("never read"))
		require.NoError(t, err)
		if ended {
			require.NoError(t, peer.CloseWrite())
			require.Equal(t, fin, w.next(s, ring.EventIn).Events)
		}
		_, err = peer.Write([]byte("last"))
		if !ended {
			require.NoError(t, err)
		}
		reset(t, peer)
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, s.SendPacket(w.packet([]byte("too late"), 100), noAddr, 5))
		require.Equal(t, 1, len(w.drv.sent))
		require.NotZero(t, w.drv.sent[0].e)
		if !ended {
			require.Equal(t, "last", string(w.bytesKeeping(s)))
		}
		c := w.next(s, ring.EventErr)
		require.True(t, c.Events.Has(rst), "%v", c.Events)
		require.ErrorIs(t, c.Err, unix.ECONNRESET)
		if !c.Events.Has(ring.EventSent) {
			require.ErrorIs(t, w.next(s, ring.EventSent).Err, unix.ECONNRESET)
		}
		w.close(s)
	}
}

// TestSendThatMeetsAResetInAShortSlice: giving back the failed send reads what the peer had sent, which fills the slice.
func TestSendThatMeetsAResetInAShortSlice(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	want := pattern(20000, 1)
	_, err := peer.Write(want)
	require.NoError(t, err)
	reset(t, peer)
	time.Sleep(5 * time.Millisecond)
	require.NoError(t, s.SendPacket(w.packet([]byte("too late"), 100), noAddr, 5))
	var got []byte
	var events ring.Event
	for limit := time.Now().Add(patience); !events.Has(rst | ring.EventSent); w.poll(1) {
		require.True(t, time.Now().Before(limit))
		for _, c := range w.kept {
			events |= c.Events
			got = append(got, c.Packet.Bytes()...)
		}
		w.release()
	}
	require.True(t, string(want) == string(got), "%d of %d bytes", len(got), len(want))
	w.close(s)
}

// TestSendThatFailsOnALivingConnection: whatever makes sendmsg fail, part of the stream is missing from then on, so it must end.
func TestSendThatFailsOnALivingConnection(t *testing.T) {
	w := newWorld(t)
	s, _ := w.connected(ring.Config{})
	require.NoError(t, s.SendPacket(w.packet([]byte("x"), 10), noAddr, 1))
	w.drv.sent[0].e = unix.EACCES
	w.drv.table.of(s).sendError = unix.EACCES
	var events ring.Event
	for !events.Has(ring.EventSent | ring.EventErr) {
		c := w.next(s, ^ring.Event(0))
		require.ErrorIs(t, c.Err, unix.EACCES)
		events |= c.Events
	}
	w.close(s)
}

// TestReceiveThatMeetsAResetWhileSending is how the hot stream meets it: recv takes the error from the socket.
func TestReceiveThatMeetsAResetWhileSending(t *testing.T) {
	w, s, peer := hotStream(t)
	require.NoError(t, s.SetSendBuffer(65536))
	for i := range 3 {
		require.NoError(t, s.SendPacket(w.packet(pattern(6*65536, 1), 65536), noAddr, uint64(i)))
	}
	w.quiet(s, ^ring.Event(0))
	reset(t, peer)
	time.Sleep(5 * time.Millisecond)
	w.drv.skip = fetchEvery
	w.poll(4)
	require.True(t, w.drv.table.of(s).failed)
	require.Zero(t, w.drv.table.of(s).sendError, "recv was to be first")
	var events ring.Event
	for sent := 0; sent < 3 || !events.Has(rst); {
		c := w.next(s, ^ring.Event(0))
		require.ErrorIs(t, c.Err, unix.ECONNRESET)
		if c.Events.Has(ring.EventSent) {
			sent++
		}
		events |= c.Events
	}
	w.close(s)
}

func TestPacketsBeforeTheConnectionStands(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	s := w.socket(ring.KindStream, ring.Config{})
	require.NoError(t, s.Connect(l.Addr().(*net.TCPAddr).AddrPort()))
	_, err = s.Send([]byte("x"))
	require.ErrorIs(t, err, ring.ErrWouldBlock)
	w.next(s, ring.EventOut)
	require.NoError(t, s.SendPacket(w.packet([]byte("now"), 10), noAddr, 1))
	require.NoError(t, w.next(s, ring.EventSent).Err)
	w.close(s)
}

// TestDatagramBackPressure fills the send queue of a datagram socket. Over loopback UDP never does (the receiver is charged, or
// drops), so a local datagram socket, where the reader is waited for, takes the place of the UDP one under its descriptor.
func TestDatagramBackPressure(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{SendQueue: 64})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1))
	require.NoError(t, unix.Dup3(pair[0], s.ID(), unix.O_CLOEXEC))
	require.NoError(t, unix.Close(pair[0]))
	r := w.drv.table.of(s)
	r.interest = 0 // the kernel dropped the entry with the socket
	require.Zero(t, w.drv.sync(r))

	const n = 20
	for i := range n {
		require.NoError(t, s.SendPacket(w.packet(pattern(1500, byte(i)), 700), noAddr, uint64(i)))
	}
	require.True(t, r.sending, "the queue was to be full")
	sent := 0
	for {
		if _, ok := w.within(10*time.Millisecond, s, ring.EventSent); !ok {
			break
		}
		sent++
	}
	require.Less(t, sent, n)
	requireRests(t, w)
	b := make([]byte, 2048)
	for i := range n {
		var m int
		for limit := time.Now().Add(patience); ; w.poll(4) {
			if m, err = unix.Read(pair[1], b); err == nil {
				break
			}
			require.Equal(t, unix.EAGAIN, err)
			require.True(t, time.Now().Before(limit))
		}
		require.Equal(t, pattern(1500, byte(i)), b[:m])
	}
	for ; sent < n; sent++ {
		c := w.next(s, ring.EventSent)
		require.NoError(t, c.Err)
		require.EqualValues(t, sent, c.Token)
	}
	require.False(t, r.sending)
	requireRests(t, w)
	require.NoError(t, unix.Close(pair[1]))
	w.close(s)
}

func TestStaleWritableIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	s, _ := w.connected(ring.Config{})
	piece := pattern(60000, 1)
	for {
		if _, err := s.Send(piece); err != nil {
			require.ErrorIs(t, err, ring.ErrWouldBlock)
			break
		}
	}
	// An EPOLLOUT fetched before the question, as if the sink had been full when it came.
	r := w.drv.table.of(s)
	require.True(t, r.notify)
	r.notifyAfter = w.drv.batchNumber
	w.drv.batch[0].Events = unix.EPOLLOUT
	h := ring.HandleOf(s)
	w.drv.batch[0].Fd, w.drv.batch[0].Pad = int32(h.Slot), int32(h.Gen)
	w.drv.next, w.drv.count = 0, 1
	w.poll(4)
	require.True(t, r.notify)
	require.Empty(t, w.kept)
}

func TestPacketsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	u := w.udp(ring.Config{})
	to := u.LocalAddr() // to itself
	var batch [8]ring.Completion
	buf := make([]byte, 100)
	r := w.ring()
	turn := func() {
		for _, target := range []*ring.Socket{s, u} {
			p, err := w.pool.Alloc(64)
			if err != nil {
				t.Fatal(err)
			}
			if target == u {
				err = u.SendPacket(p, to, 1)
			} else {
				err = s.SendPacket(p, noAddr, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, _ = peer.Read(buf)
		for sent := 0; sent < 2; {
			n, err := r.Poll(batch[:])
			if err != nil {
				t.Fatal(err)
			}
			for i := range batch[:n] {
				if batch[i].Events.Has(ring.EventSent) {
					sent++
				}
				_ = batch[i].Packet.Release()
			}
		}
	}
	for range 100 {
		turn()
	}
	runtime.GC()
	require.Zero(t, testing.AllocsPerRun(200, turn))
}

func TestTransmissionsLeftAtClose(t *testing.T) {
	pool, err := buffers.New(make([]byte, testLayout.Bytes()), testLayout)
	require.NoError(t, err)
	drv, err := New(ring.DriverConfig{Pool: pool})
	require.NoError(t, err)
	d := drv.(*driver)
	p, err := pool.Alloc(10)
	require.NoError(t, err)
	taken, err := pool.Transmit(p)
	require.NoError(t, err)
	d.sent = append(d.sent, result{t: ring.Transmission{Packet: taken}})
	require.NoError(t, d.Close())
	require.Equal(t, pool.Ledger().Total, pool.Ledger().Free)
	require.True(t, errors.Is(d.Close(), ring.ErrClosed))
}
