package gnet_test

import (
	"io"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// Echo of one message, counted over the whole process: the loop, the handler and the client, which itself needs nothing.
func TestEchoAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	rings(t, func(t *testing.T, ring gnet.Option) {
		for _, network := range []string{"tcp", "udp", "unix"} {
			for _, wait := range []struct {
				name    string
				traffic func(gnet.Conn) gnet.Action
			}{
				{"next", echo},
				{"peek", func(c gnet.Conn) gnet.Action {
					b, _ := c.Peek(-1)
					_, _ = c.Write(b)
					_, _ = c.Discard(len(b))
					return gnet.None
				}},
				{"read", func() func(c gnet.Conn) gnet.Action {
					buf := make([]byte, 1024)
					return func(c gnet.Conn) gnet.Action {
						n, _ := c.Read(buf)
						_, _ = c.Write(buf[:n])
						return gnet.None
					}
				}()},
				{"async", func(c gnet.Conn) gnet.Action {
					b, _ := c.Next(-1)
					_ = c.AsyncWrite(append(asyncCopy[:0], b...), nil)
					return gnet.None
				}},
			} {
				t.Run(network+"/"+wait.name, func(t *testing.T) {
					address := network + "://127.0.0.1:0"
					if network == "unix" {
						address = "unix://" + filepath.Join(t.TempDir(), "s")
					}
					s := serve(t, &handler{traffic: wait.traffic}, address, ring)
					c := s.dial(t)
					message, answer := make([]byte, 64), make([]byte, 64)
					exchange := func() {
						if _, err := c.Write(message); err != nil {
							t.Error(err)
						}
						if _, err := io.ReadFull(c, answer); err != nil {
							t.Error(err)
						}
					}
					for range 200 {
						exchange()
					}
					runtime.GC() // what it leaves to be done would be counted
					exchange()
					require.Zero(t, testnet.LeastAllocs(400, exchange))
				})
			}
		}
	})
}

var asyncCopy [1024]byte

// Many UDP peers: no allocation for those that are known.
func TestKnownPeersAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	s := serve(t, &handler{traffic: echo}, "udp://127.0.0.1:0")
	const peers = 200
	exchange := make([]func(), peers)
	for i := range exchange {
		c := s.dial(t)
		message, answer := make([]byte, 64), make([]byte, 64)
		exchange[i] = func() {
			_, _ = c.Write(message)
			if _, err := io.ReadFull(c, answer); err != nil {
				t.Error(err)
			}
		}
		exchange[i]()
	}
	runtime.GC()
	// One allocation an exchange would be 200 a run. The goroutine of the statistics makes some hundreds a second.
	require.Less(t, testing.AllocsPerRun(20, func() {
		for _, f := range exchange {
			f()
		}
	}), peers/2.0)
}
