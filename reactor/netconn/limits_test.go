package netconn

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
)

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// fill writes with ReadFrom until the peer, who does not read, and the queue take no more. The queue is over its limit then.
// Once may not be enough: a writer that waits goes on when half of the queue has gone, and the kernel may take less.
func fill(t *testing.T, c *Conn) {
	t.Helper()
	eventually(t, "the queue is over its limit", func() bool {
		ended := make(chan error, 1)
		go func() { ended <- second64(c.ReadFrom(endless{})) }()
		was := -1
		eventually(t, "nothing moves", func() bool {
			time.Sleep(30 * time.Millisecond)
			c.mu.Lock()
			defer c.mu.Unlock()
			before := was
			was = c.out.queued
			return c.out.waiting > 0 && was == before
		})
		require.NoError(t, c.SetWriteDeadline(time.Unix(1, 0)))
		require.Error(t, wait(t, ended))
		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		return was > c.loop.net.config.SendBuffer
	})
}

// TestWriteOfNothingIntoAFullQueue: ReadFrom's last chunk may have overshot the limit.
func TestWriteOfNothingIntoAFullQueue(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{SendBuffer: 60_001}) // no sum of chunks comes to exactly that
		a, _ := mixed(t, n)
		fill(t, a)
		for _, b := range [][]byte{nil, {}} {
			var k int
			var err error
			require.NotPanics(t, func() { k, err = a.Write(b) })
			require.NoError(t, err)
			require.Zero(t, k)
		}
		b, c := mixed(t, n) // the loop is alive
		pingPong(t, b, c, "hello")
	})
}

// TestResetAfterClose: a connection that was closed with something unsent is gone when the peer resets it, not when
// CloseTimeout has passed.
func TestResetAfterClose(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{CloseTimeout: time.Hour, SendBuffer: 60_001})
		a, c := mixed(t, n)
		fill(t, a)
		require.NoError(t, a.Close())
		gone := func() (is bool) {
			require.NoError(t, a.loop.do(func() error { is = a.socketClosed; return nil }))
			return is
		}
		require.False(t, gone())
		require.NoError(t, c.SetLinger(0))
		require.NoError(t, c.Close())
		eventually(t, "the socket is closed", gone)
	})
}

// TestNoAcceptIsLost: however the listener's stopping and the acceptors' making room fall, it goes on.
func TestNoAcceptIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{AcceptQueue: 1})
		ln := listen(t, n, "tcp")
		for range 4 {
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					_ = c.Close()
				}
			}()
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for end, i := time.Now().Add(1500*time.Millisecond), 0; time.Now().Before(end) && !t.Failed(); i++ {
					c, err := net.Dial("tcp", ln.Addr().String())
					if !noError(t, err) {
						return
					}
					_ = c.SetReadDeadline(time.Now().Add(patience / 4))
					_, err = c.Read(make([]byte, 1))
					if !errors.Is(err, io.EOF) {
						t.Errorf("connection %d was not accepted: %v", i, err)
					}
					_ = c.(*net.TCPConn).SetLinger(0)
					_ = c.Close()
				}
			})
		}
		all.Wait()
	})
}

// TestLateNoticeDoesNotStopTheListener: the loop may be told of a full queue after it was told that there is room again, because
// the goroutine that found it full was held up. What counts is what is wanted when it comes.
func TestLateNoticeDoesNotStopTheListener(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{AcceptQueue: 1})
		ln := listen(t, n, "tcp")
		halted := func() (is bool) {
			require.NoError(t, ln.socket.loop.do(func() error { is = ln.socket.halted; return nil }))
			return is
		}
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		eventually(t, "the queue is full and the ring stops", halted)
		_, err = ln.Accept()
		require.NoError(t, err)
		eventually(t, "there is room and the ring goes on", func() bool { return !halted() })
		for range 3 {
			require.NoError(t, ln.socket.loop.do(func() error { ln.socket.serveCalls(); return nil }))
			require.False(t, halted())
		}
		again, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer func() { _ = again.Close() }()
		require.NoError(t, ln.SetDeadline(time.Now().Add(patience)))
		_, err = ln.Accept()
		require.NoError(t, err)
	})
}

// TestReadFromLooksFirst: what cannot be sent is not read, and that the connection is closed is told for an empty reader, too.
func TestReadFromLooksFirst(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		require.NoError(t, c.SetLinger(0))
		require.NoError(t, c.Close())
		require.ErrorIs(t, second(a.Read(make([]byte, 1))), unix.ECONNRESET)
		r := &trickle{s: "kept"}
		_, err := a.ReadFrom(r)
		require.ErrorIs(t, err, unix.ECONNRESET)
		require.Equal(t, "kept", r.s)
		require.NoError(t, a.Close())
		_, err = a.ReadFrom(&trickle{})
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// TestControlInsideControl: on the loop there is nobody to wait for.
func TestControlInsideControl(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, _ := mixed(t, n)
		raw, err := a.SyscallConn()
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			var inner, option error
			outer := raw.Control(func(fd uintptr) {
				inner = raw.Control(func(again uintptr) {
					if again != fd {
						t.Errorf("descriptor %d inside of %d", again, fd)
					}
				})
				option = a.SetNoDelay(false)
			})
			ended <- errors.Join(outer, inner, option)
		}()
		require.NoError(t, wait(t, ended))
	})
}

// TestCloseOfAStuckPacketConn gives its memory back.
func TestCloseOfAStuckPacketConn(t *testing.T) {
	n := newNetwork(t, conf.RingEpoll, Config{})
	p := packets(t, n)
	p.mu.Lock()
	p.stuck = true // as if the kernel's queue were full
	p.mu.Unlock()
	for range 3 {
		_, err := p.WriteTo([]byte("unsent"), p.LocalAddr())
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	eventually(t, "nothing is kept", func() (is bool) {
		require.NoError(t, p.loop.do(func() error { is = p.socketClosed; return nil }))
		p.mu.Lock()
		defer p.mu.Unlock()
		return is && len(p.sending.list) == 0
	})
}
