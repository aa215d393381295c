package uring_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

const (
	fin   = ring.EventIn | ring.EventRdHup
	reset = ring.EventIn | ring.EventErr | ring.EventHup | ring.EventRdHup
)

func TestStreamEcho(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair()
	for i := range 100 {
		msg := make([]byte, 1+i*37)
		for j := range msg {
			msg[j] = byte(i + j)
		}
		w.write(peer, msg)
		got := w.read(s, len(msg))
		w.Equal(msg, got)
		n, err := s.Send(got)
		w.NoError(err)
		w.Equal(len(msg), n)
		back := make([]byte, len(msg))
		_, err = io.ReadFull(peer, back)
		w.NoError(err)
		w.Equal(msg, back)
	}
}

func TestBulkReceive(t *testing.T) {
	for name, c := range map[string]ring.Config{"small buffers": {}, "large buffers": {LargeStream: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, peer := w.pair(c)
			const total = 16 << 20
			go func() {
				b := make([]byte, 1<<16)
				for sent := 0; sent < total; sent += len(b) {
					for j := range b {
						b[j] = byte((sent + j) >> 8)
					}
					if _, err := peer.Write(b); err != nil {
						return
					}
				}
				_ = peer.CloseWrite()
			}()
			pos := 0
			for pos < total {
				c := w.event(s, ring.EventPacket)
				for _, b := range c.Packet.Bytes() {
					if b != byte(pos>>8) {
						w.FailNow("wrong byte", "at %d: %#x", pos, b)
					}
					pos++
				}
				w.NoError(c.Packet.Release())
				if c.Events.Has(fin) {
					return
				}
			}
			w.event(s, fin)
		})
	}
}

func TestEndsOfStreams(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair()
	w.write(peer, []byte("last"))
	w.NoError(peer.CloseWrite())
	w.Equal("last", string(w.read(s, 4)))
	c := w.event(s, fin)
	w.NoError(c.Err)
	w.silent(5 * time.Millisecond)

	// A reset after FIN. Something must be sent for the peer's kernel to answer with one.
	w.NoError(peer.SetLinger(0))
	w.NoError(peer.Close())
	c = w.event(s, reset)
	w.ErrorIs(c.Err, unix.ECONNRESET)
	w.silent(5 * time.Millisecond)

	s, peer = w.pair()
	w.reset(peer)
	c = w.event(s, reset)
	w.ErrorIs(c.Err, unix.ECONNRESET)
	w.silent(5 * time.Millisecond)

	// Both sides shut down: no error.
	s, peer = w.pair()
	w.NoError(peer.CloseWrite())
	w.event(s, fin)
	w.NoError(s.CloseWrite())
	_, err := peer.Read(make([]byte, 1))
	w.ErrorIs(err, io.EOF)
	w.silent(5 * time.Millisecond)
}

func TestConnect(t *testing.T) {
	w := newWorld(t)
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.NoError(err)
	to := l.Addr().(*net.TCPAddr).AddrPort()
	s := w.socket(ring.KindStream)
	w.NoError(s.Connect(to))
	w.Equal(ring.EventOut, w.event(s, ring.EventOut).Events)
	peer, err := l.AcceptTCP()
	w.NoError(err)
	defer peer.Close()
	w.write(peer, []byte("welcome"))
	w.Equal("welcome", string(w.read(s, 7)))

	w.NoError(l.Close())
	s = w.socket(ring.KindStream)
	w.NoError(s.Connect(to))
	c := w.event(s, ring.EventErr)
	w.Equal(ring.EventIn|ring.EventErr|ring.EventHup, c.Events)
	w.ErrorIs(c.Err, unix.ECONNREFUSED)
}

func TestCloseSendsFinAtOnce(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair()
	w.poll()
	w.NoError(s.Close()) // and no Poll
	w.NoError(peer.SetReadDeadline(time.Now().Add(patience)))
	_, err := peer.Read(make([]byte, 1))
	w.ErrorIs(err, io.EOF)

	s, peer = w.pair()
	w.NoError(s.Abort())
	w.NoError(peer.SetReadDeadline(time.Now().Add(patience)))
	_, err = peer.Read(make([]byte, 1))
	w.ErrorIs(err, unix.ECONNRESET)

	// With completions of the socket still in the queue, which find it gone.
	for range 50 {
		s, peer = w.pair()
		for range 20 {
			w.write(peer, make([]byte, 3000))
		}
		w.NoError(s.Close())
		w.event(s, ring.EventClosed)
		_ = peer.Close()
	}
	w.kept = nil
}

func TestSuspend(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair()
	w.NoError(s.Suspend())
	w.write(peer, []byte("later"))
	w.silent(10 * time.Millisecond)
	w.NoError(s.Resume())
	w.Equal("later", string(w.read(s, 5)))

	// On and off without a Poll in between, and with.
	for i := range 200 {
		w.NoError(s.Suspend())
		if i%2 == 0 {
			w.poll()
		}
		w.write(peer, []byte{byte(i)})
		w.NoError(s.Resume())
		w.NoError(s.Suspend())
		w.NoError(s.Resume())
		w.Equal([]byte{byte(i)}, w.read(s, 1))
	}

	// The end of a suspended connection is noticed, also when the watch was armed long before.
	w.NoError(s.Suspend())
	w.silent(5 * time.Millisecond)
	w.reset(peer)
	w.ErrorIs(w.event(s, reset).Err, unix.ECONNRESET)

	s, peer = w.pair()
	w.NoError(s.Suspend())
	w.reset(peer) // both are news to the kernel at the next Poll
	w.ErrorIs(w.event(s, reset).Err, unix.ECONNRESET)
}

// A connection stopped by its budget is reset: what the kernel still had comes before the reset. The kernel may fill some
// hundred buffers of one socket in one go, so the budget is overrun by that at most.
func TestBudgetThenReset(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair(ring.Config{Budget: 4 * 2240})
	sent := make([]byte, 8<<20)
	for i := range sent {
		sent[i] = byte(i >> 11)
	}
	w.NoError(peer.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)))
	go func() { _, _ = peer.Write(sent) }()
	for end := time.Now().Add(150 * time.Millisecond); time.Now().Before(end); {
		w.poll()
	}
	held := w.kept
	w.kept = nil
	var got []byte
	for i := range held {
		w.Equal(ring.EventPacket, held[i].Events)
		got = append(got, held[i].Packet.Bytes()...)
	}
	before := len(got)
	w.Less(before, 4<<20, "reading goes on beyond the budget")
	w.reset(peer)
	w.silent(5 * time.Millisecond)
	for i := range held {
		w.NoError(held[i].Packet.Release())
	}
	for {
		c := w.next("data or the reset", func(c *ring.Completion) bool { return c.Socket == s })
		got = append(got, c.Packet.Bytes()...)
		_ = c.Packet.Release()
		if c.Events.Has(reset) {
			w.ErrorIs(c.Err, unix.ECONNRESET)
			break
		}
	}
	w.Greater(len(got), before)
	w.True(bytes.Equal(sent[:len(got)], got))
}
