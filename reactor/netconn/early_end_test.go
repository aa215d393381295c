package netconn

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Connections that end at once, with FIN or RST, with data or without: each is accepted, its data is read, and none is left once the
// program has closed it.
func TestConnectionsThatEndAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, loops := range []int{1, 2} {
			const n = 100
			network := newNetwork(t, kind, Config{Loops: loops})
			ln := listen(t, network, "tcp")
			var mu sync.Mutex
			var all sync.WaitGroup
			whole, resets := 0, 0
			all.Add(4 * n)
			go func() {
				for range 4 * n {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					go func() {
						defer all.Done()
						b, err := io.ReadAll(c)
						_ = c.Close()
						mu.Lock()
						defer mu.Unlock()
						if string(b) == "hello" {
							whole++
						}
						if err != nil {
							resets++
						}
					}()
				}
			}()
			testnet.EndEarly(t, ln.Addr().String(), "hello", n)
			done := make(chan struct{})
			go func() { all.Wait(); close(done) }()
			wait(t, done)
			testnet.AllClosed(t, ln.Addr().String())
			require.GreaterOrEqual(t, whole, n, "data before FIN")
			require.GreaterOrEqual(t, resets, n, "resets")
		}
	})
}

// The contract lets a ring report a new connection and its end in one completion. Here that is done whatever the ring's timing.
func TestNewConnectionMergedWithItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, reset := range []bool{false, true} {
			for _, data := range []string{"", "hello"} {
				network := newNetwork(t, kind, Config{Loops: 1})
				ln := listen(t, network, "tcp")
				l := ln.socket.loop
				require.NoError(t, l.do(func() error { // the loop's goroutine, between two Polls
					conn, err := net.Dial("tcp", ln.Addr().String())
					require.NoError(t, err)
					var merged xtreme.Completion
					ended := false
					for end := time.Now().Add(patience); !merged.Events.Any(xtreme.EventRdHup|xtreme.EventHup) && time.Now().Before(end); {
						var done [8]xtreme.Completion
						n, err := l.poller.Poll(done[:])
						require.NoError(t, err)
						for i := range done[:n] {
							if merged.Events == 0 {
								merged = done[i]
								continue
							}
							merged.Events |= done[i].Events
							if done[i].Err != nil {
								merged.Err = done[i].Err
							}
						}
						if merged.Events.Has(xtreme.EventNewConnection) && !ended {
							ended = true
							_, err = conn.Write([]byte(data))
							require.NoError(t, err)
							if reset {
								require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
							}
							require.NoError(t, conn.Close())
						}
					}
					l.Handle(l.reactor, &merged)
					return nil
				}))
				c, err := ln.AcceptConn()
				require.NoError(t, err)
				require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
				b, err := io.ReadAll(c)
				require.Equal(t, data, string(b))
				require.Equal(t, reset, err != nil, "%v", err)
				require.NoError(t, c.Close())
				testnet.AllClosed(t, ln.Addr().String())
			}
		}
	})
}
