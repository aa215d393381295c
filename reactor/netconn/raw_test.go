package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Drivers ask a pooled connection whether it is still good before they use it again, by a read of one byte that does not wait:
// go-redis peeks (internal/pool/conn_check.go), go-sql-driver/mysql reads (conncheck.go).

// check is such a driver's check; the flags are those of recvfrom, without any it is read.
func check(c net.Conn, flags int) error {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var found error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		var n int
		var err error
		if flags == 0 {
			n, err = syscall.Read(int(fd), b[:])
		} else {
			n, _, err = syscall.Recvfrom(int(fd), b[:], flags)
		}
		switch {
		case n > 0:
			found = errors.New("unexpected " + string(b[:n]))
		case err == nil:
			found = io.EOF
		case err != syscall.EAGAIN:
			found = err
		}
		return true
	})
	return errors.Join(err, found)
}

func peek(c net.Conn) error    { return check(c, syscall.MSG_PEEK|syscall.MSG_DONTWAIT) }
func consume(c net.Conn) error { return check(c, 0) }

// verdict is what a driver makes of a check.
func verdict(err error) string {
	for _, known := range []error{io.EOF, unix.ECONNRESET, net.ErrClosed, os.ErrDeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err == nil {
		return "good"
	}
	return err.Error()
}

// acknowledged waits until the other end's kernel has what c sent, FIN included.
func acknowledged(t *testing.T, c *net.TCPConn) {
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	eventually(t, "acknowledged", func() bool {
		left := 0
		require.NoError(t, raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }))
		require.NoError(t, err)
		return left == 0
	})
}

// TestConnectionChecksTellTheTruth, that of package net.
func TestConnectionChecksTellTheTruth(t *testing.T) {
	likeNet(t, func(t *testing.T, a api) (answers []string) {
		note := func(what string, err error) {
			if a := what + ": " + verdict(err); len(answers) == 0 || answers[len(answers)-1] != a { // told once, however often asked
				answers = append(answers, a)
			}
		}
		ln, err := a.listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		open := func() (net.Conn, *net.TCPConn) {
			peer, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			c, err := ln.Accept()
			require.NoError(t, err)
			t.Cleanup(func() { _ = peer.Close(); _ = c.Close() })
			return c, peer.(*net.TCPConn)
		}
		send := func(peer *net.TCPConn, text string) {
			_, err := peer.Write([]byte(text))
			require.NoError(t, err)
			acknowledged(t, peer)
		}
		read := func(c net.Conn, n int) {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
			b := make([]byte, n)
			n, err := io.ReadFull(c, b)
			note("read "+string(b[:n]), err)
			require.NoError(t, c.SetReadDeadline(time.Time{}))
		}

		c, peer := open()
		for range 50 {
			note("idle", errors.Join(peek(c), consume(c)))
			send(peer, "answer")
			b := make([]byte, 6)
			_, err := io.ReadFull(c, b)
			require.NoError(t, err)
		}
		send(peer, "push")
		note("data, peek", peek(c))
		note("data, peek again", peek(c))
		read(c, 1)
		note("the rest of it, peek", peek(c))
		note("the rest of it, read", consume(c))
		read(c, 2)
		note("nothing, peek", peek(c))
		for _, way := range []func(net.Conn) error{peek, consume} {
			for range 20 { // at once, when the kernel has just got it
				c, peer := open()
				send(peer, "x")
				note("data, at once", way(c))
			}
			c, peer = open()
			require.NoError(t, peer.CloseWrite())
			acknowledged(t, peer)
			note("end", way(c))
			note("end, again", way(c))
			_, err := c.Read(make([]byte, 1))
			note("read at the end", err)

			c, peer = open()
			send(peer, "last")
			require.NoError(t, peer.CloseWrite())
			acknowledged(t, peer)
			note("data and end", way(c))
			_, err = io.ReadAll(c)
			require.NoError(t, err)
			note("end after data", way(c))

			c, peer = open()
			require.NoError(t, peer.SetLinger(0))
			require.NoError(t, peer.Close())
			time.Sleep(5 * time.Millisecond) // a reset is not acknowledged
			note("reset", way(c))

			c, _ = open()
			require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
			note("late", way(c))
			require.NoError(t, c.Close())
			note("closed", way(c))
		}
		return answers
	})
}

// past is the first that is not skip: how often a raw read calls its function in vain is not compared.
func past(t *testing.T, c <-chan string, skip string) string {
	for {
		if s := wait(t, c); s != skip {
			return s
		}
	}
}

// TestRawReadsWait as package net's do: until something came, until the deadline, until Close.
func TestRawReadsWait(t *testing.T) {
	likeNet(t, func(t *testing.T, a api) (answers []string) {
		ln, err := a.listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		peer, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer peer.Close()
		c, err := ln.Accept()
		require.NoError(t, err)
		defer c.Close()
		raw, err := c.(syscall.Conn).SyscallConn()
		require.NoError(t, err)

		calls := make(chan string, 100)
		read := func(size int) <-chan error {
			ended := make(chan error, 1)
			go func() {
				ended <- raw.Read(func(fd uintptr) bool {
					b := make([]byte, size)
					n, err := syscall.Read(int(fd), b)
					if err == syscall.EAGAIN {
						calls <- "nothing"
						return false
					}
					calls <- string(b[:max(n, 0)])
					return true
				})
				calls <- "over"
			}()
			return ended
		}
		ended := read(100)
		answers = append(answers, wait(t, calls))
		_, err = peer.Write([]byte("hello"))
		require.NoError(t, err)
		answers = append(answers, past(t, calls, "nothing"), wait(t, calls), verdict(wait(t, ended)))

		// More than a stand-in could hold comes out whole and in order.
		sent := make([]byte, 1<<20)
		for i := range sent {
			sent[i] = byte(i * i >> 8)
		}
		go func() { _, _ = peer.Write(sent) }()
		var got []byte
		for len(got) < len(sent) {
			require.NoError(t, raw.Read(func(fd uintptr) bool {
				b := make([]byte, 50_000)
				n, err := syscall.Read(int(fd), b)
				if err == syscall.EAGAIN {
					return false
				}
				require.NoError(t, err)
				require.NotZero(t, n)
				got = append(got, b[:n]...)
				return true
			}))
			if len(got) < len(sent) { // a Read between raw ones goes on where they ended
				b := make([]byte, 100)
				n, err := c.Read(b)
				require.NoError(t, err)
				got = append(got, b[:n]...)
			}
		}
		require.Equal(t, sent, got)

		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		ended = read(1)
		answers = append(answers, past(t, calls, "nothing"), verdict(wait(t, ended)))
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		ended = read(1)
		answers = append(answers, wait(t, calls))
		require.NoError(t, c.Close())
		answers = append(answers, past(t, calls, "nothing"), verdict(wait(t, ended)))
		return answers
	})
}
