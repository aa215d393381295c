package ringtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// file makes a file of n bytes whose content shows the position of each byte.
func (w *world) file(n int) (*os.File, []byte) {
	w.t.Helper()
	b := make([]byte, (n+7)&^7)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(i)*0x9e3779b97f4a7c15+uint64(n))
	}
	path := filepath.Join(w.t.TempDir(), fmt.Sprint("file-", n))
	w.NoError(os.WriteFile(path, b[:n], 0o600))
	f, err := os.Open(path)
	w.NoError(err)
	w.t.Cleanup(func() { _ = f.Close() })
	return f, b[:n]
}

// openDescriptors returns how many descriptors the process has open.
func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// reads reads from a peer on a goroutine until n bytes or the end, and returns the bytes on a channel.
func reads(peer io.Reader, n int) <-chan []byte {
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, n)
		k, _ := io.ReadFull(peer, b)
		got <- b[:k]
	}()
	return got
}

// slowly reads from a peer to the end, with a pause after each MiB, and returns how many bytes there were on a channel.
func slowly(peer io.Reader, rest time.Duration) <-chan int {
	slow := make(chan int, 1)
	go func() {
		n, b := 0, make([]byte, 1<<20)
		for {
			k, err := io.ReadFull(peer, b)
			if n += k; err != nil {
				slow <- n
				return
			}
			time.Sleep(rest)
		}
	}()
	return slow
}

// expectSent waits for the SENT of a socket, checks its token, and returns its error.
func (w *world) expectSent(s *ring.Socket, token uint64) error {
	w.t.Helper()
	c := w.next("SENT", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventSent) })
	w.Equal(token, c.Token)
	return c.Err
}

// sendFile is the case "a file goes out whole, in order with packets".
func sendFile(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	token := uint64(0)
	before := openDescriptors(t)
	for _, n := range []int{0, 1, 7, 4095, 4096, 4097, 65536, 1<<20 + 17, 9<<20 + 1} {
		f, want := w.file(n)
		got := reads(peer, n)
		w.NoError(s.SendFile(f, 0, -1, token))
		w.NoError(f.Close(), "it is the caller's")
		w.NoError(w.expectSent(s, token))
		w.Equal(sha256.Sum256(want), sha256.Sum256(<-got), "%d bytes", n)
		token++
	}
	w.Equal(before, openDescriptors(t), "descriptors")

	// A part of a file, and files in order with all else that is sent; each is done in its turn.
	f, all := w.file(3 << 20)
	var want []byte
	first := token
	packet := func(text string) {
		w.NoError(s.SendPacket(w.packet([]byte(text)), netip.AddrPort{}, token))
		want = append(want, text...)
		token++
	}
	part := func(off, n int) {
		w.NoError(s.SendFile(f, int64(off), int64(n), token))
		want = append(want, all[off:off+n]...)
		token++
	}
	_, err := s.Send([]byte("head "))
	w.NoError(err)
	want = append(want, "head "...)
	for i := range 5 {
		packet("one ")
		part(i*1000, 600_000)
		part(1, 1)
		packet("two ")
		packet("three ")
		part(2<<20, 1<<20)
		packet(string(all[:60_000]))
	}
	_, err = s.Send([]byte("overtaking"))
	w.ErrorIs(err, ring.ErrWouldBlock)
	for range 50 {
		w.poll() // nobody reads
	}
	got := reads(peer, len(want))
	seen := map[uint64]bool{}
	for range token - first { // a packet's end comes when its buffer is back in the pool, which for one that is not copied may be late
		c := w.next("SENT", func(c *ring.Completion) bool { return c.Events.Has(ring.EventSent) })
		w.NoError(c.Err)
		w.False(seen[c.Token] || c.Token < first || c.Token >= token, "%d", c.Token)
		seen[c.Token] = true
	}
	w.True(bytes.Equal(want, <-got))
	_, err = s.Send([]byte("after"))
	w.NoError(err)
	w.Equal("after", string(<-reads(peer, 5)))
	w.Equal(before+1, openDescriptors(t), "the test's file is still open")
	w.kept = nil // OUT, for the send that was refused
	w.closeAndWait(s)
	w.Equal(sentBytes(s), s.Ring().Stats().SentBytes)
}

func sentBytes(s *ring.Socket) uint64 { return s.Stats().SentBytes }

// sendFileRefused is the case "what is no file, or a short one".
func sendFileRefused(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	before := openDescriptors(t)
	f, want := w.file(1000)
	w.ErrorIs(s.SendFile(f, -1, 10, 0), unix.EINVAL)
	w.ErrorIs(s.SendFile(f, 0, -2, 0), unix.EINVAL)
	w.ErrorContains(s.SendFile(f, -1, 10, 0), "offset")
	r, p, err := os.Pipe()
	w.NoError(err)
	err = s.SendFile(r, 0, 10, 0)
	w.ErrorIs(err, ring.ErrNotSupported, "a pipe")
	w.ErrorContains(err, "regular file")
	w.NoError(r.Close())
	w.NoError(p.Close())
	u := w.udp(w.local)
	w.ErrorIs(u.SendFile(f, 0, -1, 0), ring.ErrNotSupported, "a datagram socket")

	// A file that ends too early says how far it came; beyond its end there is nothing, and that is no error.
	got := reads(peer, 900)
	w.NoError(s.SendFile(f, 100, 2000, 1))
	err = w.expectSent(s, 1)
	w.ErrorIs(err, io.ErrUnexpectedEOF)
	var e *ring.FileError
	w.ErrorAs(err, &e)
	w.Equal(int64(900), e.Sent)
	w.Equal(want[100:], <-got)
	w.NoError(s.SendFile(f, 5000, -1, 2))
	w.NoError(w.expectSent(s, 2))
	w.Equal(uint64(1), s.Stats().SendErrors)

	// A descriptor that cannot be read from.
	locked, err := os.OpenFile(f.Name(), os.O_WRONLY, 0)
	w.NoError(err)
	w.ErrorIs(s.SendFile(locked, 0, -1, 3), unix.EBADF, "at once: nothing of it is taken over")
	w.NoError(locked.Close())
	w.NoError(f.Close())
	w.ErrorIs(s.SendFile(f, 0, -1, 0), os.ErrClosed)
	_, err = s.Send([]byte("alive"))
	w.NoError(err)
	w.Equal("alive", string(<-reads(peer, 5)))
	w.NoError(s.CloseWrite())
	w.ErrorIs(s.SendFile(f, 0, -1, 0), unix.EPIPE)
	w.closeAndWait(s)
	w.ErrorIs(s.SendFile(f, 0, -1, 0), ring.ErrClosed)
	w.closeAndWait(u)
	w.LessOrEqual(openDescriptors(t), before, "descriptors")
}

// sendFileBlocked is the case "a file under way: deadline, close, abort, reset".
func sendFileBlocked(t *testing.T, b Backend) {
	w := newWorld(t, b)
	const size = 32 << 20 // more than the queues of both ends
	f, want := w.file(size)

	// A peer that does not read: a deadline ends the send, the rest is sent when it reads.
	s, peer := w.pair()
	w.NoError(s.SendFile(f, 0, -1, 1))
	w.NoError(s.SendFile(f, 0, 5, 2))
	w.NoError(s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)))
	c := w.event(s, ring.EventOut, ring.ErrDeadline)
	w.Zero(c.Token)
	sent := s.Stats().SentBytes
	w.Positive(sent)
	w.Less(sent, uint64(size))
	got := reads(peer, size+5)
	w.NoError(w.expectSent(s, 1))
	w.NoError(w.expectSent(s, 2))
	w.True(bytes.Equal(append(bytes.Clone(want), want[:5]...), <-got))
	w.closeAndWait(s)

	// Closed: what was handed over goes out first, then FIN.
	s, peer = w.pair()
	w.NoError(s.SendFile(f, 0, -1, 3))
	w.NoError(s.SendPacket(w.packet([]byte("last")), netip.AddrPort{}, 4))
	w.NoError(s.Close())
	got = reads(peer, size+100)
	w.NoError(w.expectSent(s, 3))
	w.NoError(w.expectSent(s, 4))
	w.event(s, ring.EventClosed, nil)
	w.True(bytes.Equal(append(bytes.Clone(want), "last"...), <-got))

	// Closed, and the peer is slow: it is not given up while it takes something. On a busy machine it may take nothing for longer than the
	// limit: it has three tries. Given up in spite of what it takes it would be each time.
	for try := 1; ; try++ {
		s, peer = w.pair(ring.Config{CloseTimeout: 400 * time.Millisecond})
		w.NoError(s.SendFile(f, 0, -1, 3))
		w.NoError(s.Close())
		slow := slowly(peer, 25*time.Millisecond) // 0.8 s in all
		err := w.expectSent(s, 3)
		w.event(s, ring.EventClosed, nil)
		if got := <-slow; err == nil {
			w.Equal(size, got)
			break
		}
		w.Less(try, 3, "%v", err)
	}

	// Closed, and nobody reads: given up after the time-out, and aborted: each says how far it came, tokens in order.
	for _, end := range []func(*ring.Socket) error{(*ring.Socket).Close, (*ring.Socket).Abort} {
		s, _ = w.pair(ring.Config{CloseTimeout: 30 * time.Millisecond})
		before := openDescriptors(t)
		w.NoError(s.SendFile(f, 0, -1, 5))
		w.NoError(s.SendPacket(w.packet([]byte("never")), netip.AddrPort{}, 6))
		w.NoError(s.SendFile(f, 0, 10, 7))
		w.NoError(end(s))
		err := w.expectSent(s, 5)
		w.ErrorIs(err, ring.ErrClosed)
		var e *ring.FileError
		w.ErrorAs(err, &e)
		w.Positive(e.Sent)
		w.ErrorIs(w.expectSent(s, 6), ring.ErrClosed)
		err = w.expectSent(s, 7)
		w.ErrorAs(err, &e)
		w.Zero(e.Sent)
		w.event(s, ring.EventClosed, nil)
		w.Less(openDescriptors(t), before, "descriptors")
	}

	// The peer resets: the file fails, then what is behind it.
	s, peer = w.pair()
	w.NoError(s.SendFile(f, 0, -1, 8))
	w.NoError(s.SendPacket(w.packet([]byte("never")), netip.AddrPort{}, 9))
	w.NoError(s.SendFile(f, 0, 10, 10))
	w.poll()
	w.reset(peer)
	down := false
	for next := uint64(8); next <= 10 || !down; {
		c := w.completionOf(s)
		if c.Events.Has(ring.EventSent) {
			w.Equal(next, c.Token)
			w.Error(c.Err)
			next++
		}
		down = down || c.Events.Has(ring.EventHup)
	}
	w.closeAndWait(s)

	// Many at once share the ring: none waits for the end of another.
	socks, ends := make([]*ring.Socket, 4), make([]<-chan []byte, 4)
	for i := range socks {
		socks[i], peer = w.pair()
		ends[i] = reads(peer, size)
		w.NoError(socks[i].SendFile(f, 0, -1, uint64(i)))
		w.Less(socks[i].Stats().SentBytes, uint64(size), "a turn's share")
	}
	for range socks {
		c := w.next("SENT", func(c *ring.Completion) bool { return c.Events.Has(ring.EventSent) })
		w.NoError(c.Err)
	}
	for i := range socks {
		w.True(bytes.Equal(want, <-ends[i]))
		w.closeAndWait(socks[i])
	}
}

// sendWithoutSignal: the errors say that the connection has ended. A program that asks for SIGPIPE, for its own pipes, receives none for its
// sockets.
func sendWithoutSignal(t *testing.T, b Backend) {
	w := newWorld(t, b)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGPIPE, unix.SIGWINCH)
	defer signal.Stop(signals)
	sends := map[string]func(s *ring.Socket, token uint64) error{
		"packet": func(s *ring.Socket, token uint64) error {
			return s.SendPacket(w.packet(make([]byte, 60_000)), netip.AddrPort{}, token)
		},
	}
	if b.Open == nil || slices.Contains(b.Has, sendfile) {
		f, _ := w.file(32 << 20) // more than the queues of both ends
		sends["file"] = func(s *ring.Socket, token uint64) error { return s.SendFile(f, 0, -1, token) }
	}
	for name, send := range sends {
		s, peer := w.pair()
		for token := range uint64(3) {
			w.NoError(send(s, token))
		}
		w.poll()
		w.reset(peer)
		failed := 0
		for ended, done := false, 0; !ended || done < 3; {
			c := w.completionOf(s)
			ended = ended || c.Events.Has(ring.EventHup)
			if c.Events.Has(ring.EventSent) {
				done++
			}
			if c.Events.Has(ring.EventSent) && c.Err != nil {
				failed++
			}
		}
		w.True(failed > 0 || name == "packet", "the kernel's queue may hold all packets")
		_, err := s.Send([]byte("x"))
		w.ErrorIs(err, unix.EPIPE)
		w.closeAndWait(s)
		w.NoError(unix.Kill(unix.Getpid(), unix.SIGWINCH)) // it comes after what was raised before
		w.Equal(unix.SIGWINCH, <-signals, name)
	}
}
