package epoll

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// heat exchanges messages until epoll does not watch the socket any more.
func (w *world) heat(s *ring.Socket, peer net.Conn) {
	w.t.Helper()
	r := w.drv.table.of(s)
	for limit := time.Now().Add(patience); !r.unshared; {
		require.True(w.t, time.Now().Before(limit))
		_, err := peer.Write([]byte("warm"))
		require.NoError(w.t, err)
		require.Equal(w.t, "warm", string(w.bytes(s)))
		for range 2 * fetchEvery { // some of the turns are direct reads
			w.poll(4)
		}
	}
	require.Zero(w.t, r.interest)
}

// hotStream is a connection that is read directly only.
func hotStream(t *testing.T) (*world, *ring.Socket, *net.TCPConn) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	w.heat(s, peer)
	return w, s, peer
}

func TestHotStreamEnds(t *testing.T) {
	t.Run("FIN, then reset", func(t *testing.T) {
		w, s, peer := hotStream(t)
		_, err := s.Send([]byte("never read"))
		require.NoError(t, err)
		_, err = peer.Write([]byte("last"))
		require.NoError(t, err)
		require.NoError(t, peer.CloseWrite())
		require.Equal(t, "last", string(w.bytesKeeping(s)))
		require.Equal(t, fin, w.next(s, ring.EventIn).Events)
		w.quiet(s, ^ring.Event(0))
		reset(t, peer)
		c := w.next(s, ring.EventErr)
		require.Equal(t, rst, c.Events)
		require.ErrorIs(t, c.Err, unix.ECONNRESET)
		requireRests(t, w)
		w.close(s)
	})
	t.Run("reset", func(t *testing.T) {
		w, s, peer := hotStream(t)
		_, err := peer.Write([]byte("last"))
		require.NoError(t, err)
		reset(t, peer)
		require.Equal(t, "last", string(w.bytesKeeping(s)))
		c := w.next(s, ring.EventErr)
		require.Equal(t, rst, c.Events)
		require.ErrorIs(t, c.Err, unix.ECONNRESET)
		w.quiet(s, ^ring.Event(0))
		requireRests(t, w)
		w.close(s)
	})
	t.Run("reset while suspended", func(t *testing.T) {
		w, s, peer := hotStream(t)
		require.NoError(t, s.Suspend())
		want := pattern(30000, 1)
		_, err := peer.Write(want)
		require.NoError(t, err)
		w.quiet(s, ^ring.Event(0))
		reset(t, peer)
		var got []byte
		for {
			c := w.next(s, ^ring.Event(0))
			got = append(got, c.Packet.Bytes()...)
			_ = c.Packet.Release()
			if c.Events.Has(ring.EventErr) {
				require.ErrorIs(t, c.Err, unix.ECONNRESET)
				break
			}
		}
		require.True(t, string(want) == string(got))
		w.close(s)
	})
	t.Run("close", func(t *testing.T) {
		w, s, peer := hotStream(t)
		w.close(s)
		_, err := peer.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		w.poll(1)
		w.poll(1)
		require.Zero(t, w.drv.numHot)
	})
}

func TestHotStreamIsWritableAgain(t *testing.T) {
	w, s, peer := hotStream(t)
	sent := 0
	for piece := pattern(10000, 1); ; {
		n, err := s.Send(piece)
		if sent += n; err != nil {
			require.ErrorIs(t, err, ring.ErrWouldBlock)
			break
		}
	}
	w.quiet(s, ring.EventOut)
	_, err := io.CopyN(io.Discard, peer, int64(sent))
	require.NoError(t, err)
	require.Equal(t, ring.EventOut, w.next(s, ring.EventOut).Events)
	_, err = peer.Write([]byte("and reads"))
	require.NoError(t, err)
	require.Equal(t, "and reads", string(w.bytes(s)))
	w.close(s)
}

func TestHotSocketsWakeASleepingRing(t *testing.T) {
	for how, sleep := range sleepers {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			s, peer := w.connected(ring.Config{})
			u := w.udp(ring.Config{})
			upeer := dialUDP(t, u.LocalAddr())
			for range 10 {
				w.heat(s, peer)
				w.heat(u, upeer)
				requireRests(t, w)
				w.heat(u, upeer)
				go func() {
					time.Sleep(time.Millisecond)
					_, _ = upeer.Write([]byte("wake"))
				}()
				for len(w.kept) == 0 {
					sleep(t, w)
					w.poll(4)
				}
				require.Equal(t, "wake", string(w.bytes(u)))
			}
		})
	}
}

// TestRingDoesNotSleepDeaf: a hot socket that the kernel refuses to watch again (here because its number has become a file that
// cannot be polled) keeps the ring from sleeping, with an error.
func TestRingDoesNotSleepDeaf(t *testing.T) {
	w := newWorld(t)
	u := w.udp(ring.Config{})
	w.heat(u, dialUDP(t, u.LocalAddr()))
	keep, err := unix.Dup(u.ID())
	require.NoError(t, err)
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Dup3(null, u.ID(), unix.O_CLOEXEC))
	for range 2 {
		require.ErrorIs(t, w.ring().Wait(-1), unix.EPERM)
		_, err = w.ring().Arm()
		require.ErrorIs(t, err, unix.EPERM)
	}
	require.NoError(t, unix.Dup3(keep, u.ID(), unix.O_CLOEXEC))
	require.NoError(t, unix.Close(keep))
	require.NoError(t, unix.Close(null))
	requireRests(t, w)
}

// TestManyBusySocketsAreLeftToEpoll: more of them than there are places, and none is hot.
func TestManyBusySocketsAreLeftToEpoll(t *testing.T) {
	w := newWorld(t)
	var sockets []*ring.Socket
	var peers []net.Conn
	for range maxHot + 1 {
		s := w.udp(ring.Config{})
		sockets, peers = append(sockets, s), append(peers, dialUDP(t, s.LocalAddr()))
	}
	for i := range maxHot {
		w.heat(sockets[i], peers[i])
		for j := range i {
			_, err := peers[j].Write([]byte("busy"))
			require.NoError(t, err)
			w.bytes(sockets[j])
		}
	}
	require.Equal(t, maxHot, w.drv.numHot)
	for i, p := range peers {
		_, err := p.Write([]byte{byte(i)})
		require.NoError(t, err)
	}
	for i, s := range sockets {
		require.Equal(t, []byte{byte(i)}, w.bytes(s))
	}
	require.Zero(t, w.drv.numHot)
	for _, s := range sockets {
		r := w.drv.table.of(s)
		require.False(t, r.hot || r.unshared)
		require.NotZero(t, r.interest)
	}
	_, err := peers[0].Write([]byte("again"))
	require.NoError(t, err)
	require.Equal(t, "again", string(w.bytes(sockets[0])))
	require.Zero(t, w.drv.numHot)
	// After a while the busy ones get their places back.
	w.drv.directPause = 1
	w.heat(sockets[0], peers[0])

	// A place goes from one that has nothing to one that has.
	for i := range maxHot {
		w.heat(sockets[i], peers[i])
	}
	for range 2 * replaceAfter {
		w.poll(4)
	}
	w.heat(sockets[maxHot], peers[maxHot])
	require.Equal(t, maxHot, w.drv.numHot)
}

// TestHotSocketsDoNotStarveOthers floods hot sockets while a connection and a fifth socket want to be read, in slices so short
// that the hot ones alone would fill them.
func TestHotSocketsDoNotStarveOthers(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	var hot []*ring.Socket
	var peers []*net.UDPConn
	for range maxHot + 1 {
		h := w.udp(ring.Config{})
		hot, peers = append(hot, h), append(peers, dialUDP(t, h.LocalAddr()))
	}
	flood := func() {
		for _, p := range peers[:maxHot] {
			for range 4 {
				_, err := p.Write([]byte("flood"))
				require.NoError(t, err)
			}
		}
	}
	for range 50 {
		flood()
		w.poll(64)
		w.release()
	}
	for round := range 20 {
		_, err := peer.Write([]byte("tcp"))
		require.NoError(t, err)
		_, err = peers[maxHot].Write([]byte("udp"))
		require.NoError(t, err)
		var tcp, udp bool
		const most = 40 // polls
		for i := 0; !tcp || !udp; i++ {
			require.Less(t, i, most, "round %d: tcp %v, udp %v", round, tcp, udp)
			flood()
			w.poll(1)
			for _, c := range w.kept {
				tcp = tcp || c.Socket == s
				udp = udp || c.Socket == hot[maxHot]
			}
			w.release()
		}
	}
}

func TestHotSocketsCoolAndWarm(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{})
	peer := dialUDP(t, s.LocalAddr())
	send := func() {
		_, err := peer.Write([]byte("x"))
		require.NoError(t, err)
		w.bytes(s)
	}
	send()
	require.Equal(t, 1, w.drv.numHot)
	for range 2 * demoteAfter {
		w.poll(1)
	}
	require.Zero(t, w.drv.numHot, "empty for long")
	send()
	require.Equal(t, 1, w.drv.numHot)
	require.NoError(t, s.Suspend())
	w.poll(1)
	w.poll(1) // one of the two asks epoll instead
	require.Zero(t, w.drv.numHot, "not to be read")
	require.NoError(t, s.Resume())
	send()
	require.Equal(t, 1, w.drv.numHot)
	w.close(s)
	w.poll(1)
	w.poll(1)
	require.Zero(t, w.drv.numHot, "gone")
}
