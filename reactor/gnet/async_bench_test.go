package gnet_test

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// BenchmarkAsyncWrite is one connection's exchange of a message that a goroutine answers with AsyncWrite, beside gnet in the same run:
// a goroutine for each message, as many servers have it, and one that takes all messages from a channel. In the third, goroutines
// write and wait for their callbacks, and the peer only reads.
func BenchmarkAsyncWrite(b *testing.B) {
	for _, w := range []world{{ring: conf.RingUring}, {ring: conf.RingEpoll}, oracle} {
		for name, answer := range map[string]func(gnet.Conn, []byte, chan gnet.Conn){
			"go":     func(c gnet.Conn, m []byte, _ chan gnet.Conn) { go func() { _ = c.AsyncWrite(m, nil) }() },
			"worker": func(c gnet.Conn, _ []byte, work chan gnet.Conn) { work <- c },
		} {
			b.Run(w.String()+"/"+name, func(b *testing.B) {
				message := make([]byte, 64)
				work := make(chan gnet.Conn, 1)
				defer close(work)
				go func() {
					for c := range work {
						_ = c.AsyncWrite(message, nil)
					}
				}()
				c := w.benchServer(b, handler{traffic: func(c gnet.Conn) gnet.Action {
					_, _ = c.Discard(-1)
					answer(c, message, work)
					return gnet.None
				}})
				got := make([]byte, 64)
				for b.Loop() {
					if _, err := c.Write(message); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(c, got); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(w.String()+"/callback", func(b *testing.B) {
			conns := make(chan gnet.Conn, 1)
			c := w.benchServer(b, handler{open: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None }})
			go func() { _, _ = io.Copy(io.Discard, c) }()
			to := <-conns
			message := make([]byte, 64)
			b.SetParallelism(2)
			b.RunParallel(func(pb *testing.PB) {
				done := make(chan error, 1)
				for pb.Next() {
					_ = to.AsyncWrite(message, func(_ gnet.Conn, err error) error { done <- err; return nil })
					if err := <-done; err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// benchServer serves until the benchmark or test ends, and is connected to.
func (w world) benchServer(b testing.TB, h handler) net.Conn {
	engines := make(chan anEngine, 1)
	a := &actor{events: h, boot: func(e anEngine) gnet.Action { engines <- e; return gnet.None }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	address := l.Addr().String()
	require.NoError(b, l.Close())
	result := make(chan error, 1)
	go func() { result <- w.run(a, gnet.Options{}, "tcp://"+address) }()
	engine := <-engines
	c, err := net.Dial("tcp", address)
	require.NoError(b, err)
	b.Cleanup(func() {
		_ = c.Close()
		_ = engine.Stop(b.Context())
		<-result
	})
	return c
}
