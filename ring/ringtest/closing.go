package ringtest

import (
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// closeSendsFin is the case "close while a receive is armed: FIN leaves at once".
func closeSendsFin(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.silent(time.Millisecond) // the receive is armed
	w.NoError(s.Close())
	w.event(s, ring.EventClosed, nil)
	w.NoError(peer.SetReadDeadline(time.Now().Add(patience)))
	w.ErrorIs(w.endOf(peer), io.EOF)

	// A closed listener gives its port back at once.
	l := w.listen()
	a := l.LocalAddr()
	w.silent(time.Millisecond)
	w.closeAndWait(l)
	again := w.socket(ring.KindStream, a)
	w.NoError(again.Bind(a))
	w.NoError(again.Listen(1))
	w.dialTo(a)
}

// dataBeforeClose is the case "data sent just before close arrives".
func dataBeforeClose(t *testing.T, b Backend) {
	w := newWorld(t, b)
	for range 20 {
		s, peer := w.pair()
		if !w.kernel { // such a peer sends when it is polled: what comes after Close is answered with a reset
			w.NoError(s.Suspend())
		}
		w.write(peer, []byte("unread")) // would make close(2) reset the connection
		if !w.kernel {
			w.silent(5 * time.Millisecond)
		}
		_, err := s.Send([]byte("parting words"))
		w.NoError(err)
		time.Sleep(200 * time.Microsecond)
		w.NoError(s.Close())
		w.event(s, ring.EventClosed, nil)
		w.Equal("parting words", string(w.takeAll(peer)))
	}
}

// closedLast is the case "close is reported last and once".
func closedLast(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.write(peer, []byte("x"))
	w.NoError(peer.Close())
	time.Sleep(time.Millisecond)
	s.SetUserData(99)
	w.NoError(s.Close())
	c := w.event(s, ring.EventClosed, nil)
	w.Equal(uint64(99), c.UserData)
	w.silent(10 * time.Millisecond)

	// Also in the turn that announced it, and on a socket that never had a ring.
	l := w.listen()
	w.dial(l)
	c = w.accept(l)
	w.NoError(c.Socket.Close())
	w.event(c.Socket, ring.EventClosed, nil)
	n := w.socket(ring.KindStream, w.local)
	w.NoError(n.Close())
	w.ErrorIs(n.Close(), ring.ErrClosed)
}

// abortResets is the case "abort resets".
func abortResets(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.NoError(s.Abort())
	w.event(s, ring.EventClosed, nil)
	w.ErrorIs(w.endOf(peer), unix.ECONNRESET)
	w.ErrorIs(s.Abort(), ring.ErrClosed)

	s, peer = w.pair()
	w.NoError(s.SetLinger(0))
	w.NoError(s.Close())
	w.event(s, ring.EventClosed, nil)
	w.ErrorIs(w.endOf(peer), unix.ECONNRESET)

	// A connection that was never established is dropped too.
	c := w.socket(ring.KindStream, w.local)
	w.NoError(c.Connect(w.streams().BlackHole()))
	w.NoError(c.Abort())
	w.event(c, ring.EventClosed, nil)
}

// lingers is the case "linger waits for the peer's FIN".
func lingers(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.NoError(s.SetLinger(patience))
	_, err := s.Send([]byte("bye"))
	w.NoError(err)
	w.NoError(s.Close())
	w.silent(20 * time.Millisecond)
	w.write(peer, []byte("not quite")) // read and thrown away
	w.Equal("bye", string(w.takeAll(peer)))
	w.silent(5 * time.Millisecond)
	w.NoError(peer.Close())
	w.event(s, ring.EventClosed, nil)

	// A socket that was not reading reads again for it.
	s, peer = w.pair()
	w.NoError(s.SetLinger(patience))
	w.NoError(s.Suspend())
	w.write(peer, []byte("never wanted"))
	w.NoError(s.Close())
	w.NoError(peer.Close())
	w.event(s, ring.EventClosed, nil)

	// A peer that never closes is given up.
	s, _ = w.pair()
	w.NoError(s.SetLinger(20 * time.Millisecond))
	w.NoError(s.Close())
	w.event(s, ring.EventClosed, nil)
}

// halfClose is the case "half close".
func halfClose(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	_, err := s.Send([]byte("all I have"))
	w.NoError(err)
	w.NoError(s.CloseWrite())
	_, err = s.Send([]byte("more"))
	w.ErrorIs(err, unix.EPIPE)
	w.Equal("all I have", string(w.takeAll(peer)))
	w.write(peer, []byte("thanks"))
	w.Equal("thanks", string(w.read(s, 6)))
	w.NoError(peer.Close())
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.silent(10 * time.Millisecond) // both directions are shut in good order: that is no error
	w.closeAndWait(s)
	if !b.Streams {
		w.Error(w.udp(w.local).CloseWrite())
	}
}

// suspendResume is the case "suspend and resume".
func suspendResume(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.write(peer, []byte("a"))
	w.Equal("a", string(w.read(s, 1)))
	w.NoError(s.Suspend())
	w.NoError(s.Suspend())
	w.write(peer, []byte("b"))
	w.NoError(peer.CloseWrite())
	w.silent(20 * time.Millisecond)
	w.NoError(s.Resume())
	w.Equal("b", string(w.read(s, 1)))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)

	// In the very batch in which data may already be on its way.
	s, peer = w.pair()
	for i := range 50 {
		w.write(peer, []byte{byte(i)})
		before := len(w.kept) // the ring may have been polled while the peer wrote
		w.NoError(s.Suspend())
		for range 3 {
			w.poll()
		}
		w.Len(w.kept, before)
		w.NoError(s.Resume())
		w.Equal([]byte{byte(i)}, w.read(s, 1))
	}

	// A suspended listener accepts nobody; resumed it accepts who waited.
	l := w.listen()
	w.NoError(l.Suspend())
	w.dial(l)
	w.silent(10 * time.Millisecond)
	w.NoError(l.Resume())
	w.accept(l)
}

// suspendDatagrams is the case "a suspended datagram socket sends, and receives after Resume".
func suspendDatagrams(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s := w.udp(w.local)
	peer := w.udpPeer(s.LocalAddr())
	texts := []string{"a", "", "c"}
	for range 3 {
		w.NoError(s.Suspend())
		for _, text := range texts {
			w.write(peer, []byte(text))
			w.poll()
		}
		w.silent(5 * time.Millisecond)
		_, err := s.SendTo([]byte("out"), peer.LocalAddr().(*net.UDPAddr).AddrPort())
		w.NoError(err)
		w.flush()
		out := make([]byte, 8)
		n, err := peer.Read(out)
		w.NoError(err)
		w.Equal("out", string(out[:n]))
		w.Empty(w.kept)
		w.NoError(s.Resume())
		for _, text := range texts {
			c := w.event(s, ring.EventPacket, nil)
			w.Equal(text, string(c.Packet.Bytes()))
			w.release(c)
		}
	}
}

// suspendedFails is the case "a suspended socket that fails delivers what it has".
func suspendedFails(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.NoError(s.SetUserTimeout(300 * time.Millisecond))
	w.NoError(s.Suspend())
	peer.Deafen(t)
	_, err := s.Send([]byte("x"))
	w.NoError(err)
	w.event(s, ring.EventIn|ring.EventHup, unix.ETIMEDOUT)
}

// deadlines is the case "deadlines".
func deadlines(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	begin := time.Now()
	w.NoError(s.SetReadDeadline(begin.Add(30 * time.Millisecond)))
	w.NoError(s.SetWriteDeadline(begin.Add(60 * time.Millisecond)))
	for seen := ring.Event(0); !seen.Has(ring.EventIn | ring.EventOut); { // in one completion if nobody polled between them
		c := w.next("a deadline", func(c *ring.Completion) bool { return c.Socket == s })
		w.ErrorIs(c.Err, ring.ErrDeadline)
		w.Zero(c.Events &^ (ring.EventIn | ring.EventOut))
		w.Zero(c.Events&seen, "once")
		if seen |= c.Events; c.Events.Has(ring.EventOut) {
			w.True(seen.Has(ring.EventIn), "the earlier one first")
			w.GreaterOrEqual(time.Since(begin), 60*time.Millisecond)
		}
		w.GreaterOrEqual(time.Since(begin), 30*time.Millisecond)
	}
	w.write(peer, []byte("alive"))
	w.Equal("alive", string(w.read(s, 5)))

	w.NoError(s.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
	w.NoError(s.SetReadDeadline(time.Now().Add(time.Hour))) // moved
	w.NoError(s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)))
	w.NoError(s.SetWriteDeadline(time.Time{})) // taken back
	w.silent(40 * time.Millisecond)
	w.NoError(s.SetReadDeadline(time.Now().Add(-time.Second))) // past: at once
	w.event(s, ring.EventIn, ring.ErrDeadline)
	w.closeAndWait(s)
	w.ErrorIs(s.SetReadDeadline(time.Now()), ring.ErrClosed)
	w.ErrorIs(ring.ErrDeadline, os.ErrDeadlineExceeded)
	w.NotErrorIs(ring.ErrDeadline, unix.ETIMEDOUT, "a deadline is not the end of the connection")
}

// closeAll is the case "ring close with everything open".
func closeAll(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l := w.listen()
	for range 20 {
		w.write(w.dial(l), []byte("unread"))
	}
	if !b.Streams {
		up := w.udpPeer(w.udp(w.local).LocalAddr())
		for range 20 {
			w.write(up, []byte("unread"))
		}
	}
	first := w.accept(l)
	w.release(first)
	s := first.Socket
	c := w.socket(ring.KindStream, w.local)
	w.NoError(c.Connect(w.streams().BlackHole()))
	held := w.next("a packet", func(c *ring.Completion) bool { return c.Events.Has(ring.EventPacket) })
	r := l.Ring()
	w.NoError(r.Close())
	w.ErrorIs(r.Close(), ring.ErrClosed)
	_, err := r.Poll(make([]ring.Completion, 1))
	w.ErrorIs(err, ring.ErrClosed)
	_, err = r.Arm()
	w.ErrorIs(err, ring.ErrClosed)
	w.ErrorIs(r.Post(func() {}), ring.ErrClosed)
	r.Wake() // harmless
	_, err = s.Send([]byte("x"))
	w.ErrorIs(err, ring.ErrClosed)
	w.NoError(held.Packet.Release())
}

// stoppedReset: the kernel reports a reset once, and the send had it: what the peer sent before is delivered all the same, then the reset.
func stoppedReset(t *testing.T, b Backend) {
	w := newWorld(t, b)
	stride := w.pool.Layout().Stride(buffers.Small)
	for name, c := range map[string]struct {
		config  ring.Config
		suspend bool
	}{
		"suspended":   {suspend: true},
		"over budget": {config: ring.Config{Budget: stride}},
		"reading":     {},
	} {
		s, peer := w.pair(c.config)
		w.poll()
		if c.suspend {
			w.NoError(s.Suspend())
		}
		w.write(peer, make([]byte, 40000))
		time.Sleep(time.Millisecond)
		w.poll()
		for range 20 { // a peer in slow start sends the rest when the ring has acknowledged the beginning
			if w.kernel {
				break
			}
			time.Sleep(time.Millisecond)
			w.poll()
		}
		w.reset(peer)
		time.Sleep(time.Millisecond)
		_, err := s.Send([]byte("x"))
		w.ErrorIs(err, unix.ECONNRESET, name)
		got := 0
		for {
			d := w.completionOf(s)
			got += d.Packet.Len()
			w.release(d)
			if d.Events.Has(ring.EventHup) {
				w.ErrorIs(d.Err, unix.ECONNRESET, name)
				break
			}
		}
		w.Equal(40000, got, name)
		w.silent(2 * time.Millisecond)
		w.closeAndWait(s)
	}
}

// closedTouchesNothing is the case "a closed socket touches no descriptor".
func closedTouchesNothing(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	w.closeAndWait(u)
	// The descriptor may be another socket's by now.
	w.Zero(u.Stats().Drops)
	for what, err := range map[string]error{
		"multicast interface": u.SetMulticastInterface(w.lo), "ttl": u.SetTTL(3),
		"join": u.JoinGroup(group(5), w.lo, netip.Addr{}), "leave": u.LeaveGroup(group(5), w.lo, netip.Addr{}),
		"suspend": u.Suspend(), "close write": u.CloseWrite(), "deadline": u.SetReadDeadline(time.Now()),
		"abort": u.Abort(), "close": u.Close(), "receive mode": u.SetReceiveMode(ring.Queue, nil),
		"bind": u.Bind(w.local), "connect": u.Connect(loopback), "listen": u.Listen(1), "device": u.BindToDevice(w.lo),
	} {
		w.ErrorIs(err, ring.ErrClosed, what)
	}
	_, err := u.SendTo([]byte("x"), w.peers.Nobody())
	w.ErrorIs(err, ring.ErrClosed)
}
