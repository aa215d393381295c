package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

func TestEcho(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []string{"spin", "adaptive", "wait"} {
			t.Run(rest, func(t *testing.T) {
				a := serving(t, kind, func(c *config) { c.rest = rest }).String()
				c := dial(t, "tcp", a)
				for _, text := range []string{"one", "two", string(make([]byte, 100_000)), "three"} {
					go func() { _, _ = c.Write([]byte(text)) }() // an error shows below
					got := make([]byte, len(text))
					_, err := io.ReadFull(c, got)
					require.NoError(t, err)
					require.Equal(t, text, string(got))
				}
				require.NoError(t, c.(*net.TCPConn).CloseWrite())
				rest, err := io.ReadAll(c)
				require.NoError(t, err, "the server answers FIN with FIN")
				require.Empty(t, rest)

				u := dial(t, "udp", a)
				got := make([]byte, 65536)
				for _, size := range []int{1, 0, 1400, 65507} {
					_, err := u.Write(make([]byte, size))
					require.NoError(t, err)
					n, err := u.Read(got)
					require.NoError(t, err)
					require.Equal(t, size, n)
				}
			})
		}
	})
}

// A client that writes everything first and reads late: the server stops reading from it, keeps no more than its buffers hold, and
// in the end every byte comes back in order.
func TestSlowReader(t *testing.T) {
	const size = 64 << 20
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		p := start(t, "-ring", string(kind), "-proto", "tcp", "-rest", "adaptive")
		c := dial(t, "tcp", p.addr).(*net.TCPConn)
		other := dial(t, "tcp", p.addr)
		before := p.memory(t)
		written := make(chan error, 1)
		progress := make(chan int, size>>20)
		go func() {
			var b [1 << 20]byte
			for i := range size >> 20 {
				number(b[:], i)
				if _, err := c.Write(b[:]); err != nil {
					written <- err
					return
				}
				progress <- i
			}
			written <- c.CloseWrite()
		}()
		for stalled := false; !stalled; { // until nobody takes anything any more
			select {
			case <-progress:
			case <-time.After(300 * time.Millisecond):
				stalled = true
			}
		}
		require.Empty(t, written, "64 MiB fit into the queues: this tests nothing")
		require.Less(t, p.memory(t)-before, 48<<20, "buffers of the kernel are not counted, ours are bounded")

		// Others are served meanwhile.
		_, err := other.Write([]byte("me too"))
		require.NoError(t, err)
		_, err = io.ReadFull(other, make([]byte, 6))
		require.NoError(t, err)

		got, want := make([]byte, 1<<20), make([]byte, 1<<20)
		for i := range size >> 20 {
			_, err := io.ReadFull(c, got)
			require.NoError(t, err, "MiB %d", i)
			if number(want, i); !bytes.Equal(want, got) {
				require.FailNow(t, "bytes lost, repeated or out of order", "in MiB %d", i)
			}
		}
		require.NoError(t, <-written)
		n, err := c.Read(got)
		require.Zero(t, n)
		require.ErrorIs(t, err, io.EOF)
		p.terminate(t, 5*time.Second)
	})
}

// number fills b, the i-th MiB of a stream, so that no two 8-byte words of the stream are alike.
func number(b []byte, i int) {
	for at := 0; at < len(b); at += 8 {
		binary.BigEndian.PutUint64(b[at:], uint64(i)<<32|uint64(at))
	}
}

// A connection that is reset while the server holds what it could not send must not cost it a buffer.
func TestResetWhileSendingIsStalled(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		a := serving(t, kind).String() // its end checks the ledger
		for range 3 {
			c := dial(t, "tcp", a).(*net.TCPConn)
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
			_, err := c.Write(make([]byte, 64<<20))
			require.Error(t, err)
			require.NoError(t, c.SetLinger(0))
			require.NoError(t, c.Close())
		}
		c := dial(t, "tcp", a)
		_, err := c.Write([]byte("alive"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 5))
		require.NoError(t, err)
	})
}
