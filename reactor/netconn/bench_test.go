package netconn

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

func serveEcho(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			buf := make([]byte, 64<<10)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if _, err := c.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}

// BenchmarkPingPong is a message of 64 bytes there and back between a client of package net and an echo server on package
// net or on a network, in one process.
func BenchmarkPingPong(b *testing.B) {
	run := func(b *testing.B, ln net.Listener) {
		defer func() { _ = ln.Close() }()
		go serveEcho(ln)
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		buf := make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("net", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		run(b, ln)
	})
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for _, c := range []Config{{}, {SelectPoll: 50 * time.Microsecond}} {
			b.Run(fmt.Sprintf("%s/%v", kind, c.SelectPoll), func(b *testing.B) {
				n := newNetwork(b, kind, c)
				ln, err := n.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				run(b, ln)
			})
		}
	}
}

// BenchmarkBulk is a stream from package net to a reader of 64 KiB at a time.
func BenchmarkBulk(b *testing.B) {
	const piece = 256 << 10
	run := func(b *testing.B, ln net.Listener) {
		defer func() { _ = ln.Close() }()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		a, err := ln.Accept()
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			buf := make([]byte, piece)
			for {
				if _, err := c.Write(buf); err != nil {
					return
				}
			}
		}()
		buf := make([]byte, 64<<10)
		b.SetBytes(piece)
		for b.Loop() {
			for left := piece; left > 0; {
				n, err := a.Read(buf[:min(left, len(buf))])
				if err != nil {
					b.Fatal(err)
				}
				left -= n
			}
		}
		_, _ = a.Close(), c.Close()
	}
	b.Run("net", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		run(b, ln)
	})
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		b.Run(string(kind), func(b *testing.B) {
			n := newNetwork(b, kind, Config{})
			ln, err := n.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			run(b, ln)
		})
	}
}

// BenchmarkBulkSend measures one direction of one connection, sent: what a small and a large Write of ours brings to a peer of package net.
func BenchmarkBulkSend(b *testing.B) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for _, length := range []int{512, 256 << 10} {
			b.Run(fmt.Sprintf("%s/%d", kind, length), func(b *testing.B) {
				n := newNetwork(b, kind, Config{})
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(b, err)
				defer func() { _ = ln.Close() }()
				c, err := n.Dial("tcp", ln.Addr().String())
				require.NoError(b, err)
				a, err := ln.Accept()
				require.NoError(b, err)
				read := make(chan int64, 1)
				go func() {
					n, _ := io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{a})
					read <- n
				}()
				piece := make([]byte, length)
				b.SetBytes(int64(length))
				total := int64(0)
				for b.Loop() {
					_, err := c.Write(piece)
					require.NoError(b, err)
					total += int64(length)
				}
				require.NoError(b, c.Close())
				require.Equal(b, total, <-read)
				_ = a.Close()
			})
		}
	}
}
