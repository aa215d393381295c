package netconn

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// TestWritersDoNotHoldTheLoop: whatever goroutines write meanwhile, one turn of the loop sends what had been written when it came to the
// connection, and then others have theirs.
func TestWritersDoNotHoldTheLoop(t *testing.T) {
	const buffer = 64 << 10
	for network, c := range map[string]struct {
		length int
		most   uint64 // in a turn, which may come to a connection twice: when there is room again, and when it is called
	}{
		"udp": {64, 2 * 2 * (buffer/(64+datagramCost) + 1)}, // each time what the kernel had no room for, and one batch
		"tcp": {16 << 10, 2 * (buffer + largeChunk)},
	} {
		t.Run(network, func(t *testing.T) {
			length, most := c.length, c.most
			onEach(t, func(t *testing.T, kind conf.RingKind) {
				n := newNetwork(t, kind, Config{SendBuffer: buffer})
				c, err := n.Dial(network, sink(t, network))
				require.NoError(t, err)
				l := n.loops[0]
				sent := func() uint64 { // loop only
					if s, ok := c.(*Conn); ok {
						return s.socket.Stats().SentBytes
					}
					return c.(*PacketConn).socket.Stats().SentMessages
				}
				var stop atomic.Bool
				var before, worst uint64
				ended := make(chan struct{})
				var look func() // in each turn
				look = func() {
					now := sent()
					worst, before = max(worst, now-before), now
					if stop.Load() || l.reactor.Post(look) != nil {
						close(ended)
					}
				}
				require.NoError(t, l.reactor.Post(look))
				var writers sync.WaitGroup
				for range 3 {
					writers.Add(1)
					go func() {
						defer writers.Done()
						b := make([]byte, length)
						for !stop.Load() {
							_, _ = c.Write(b)
						}
					}()
				}
				time.Sleep(300 * time.Millisecond)
				stop.Store(true)
				writers.Wait()
				wait(t, ended)
				require.NotZero(t, worst)
				require.LessOrEqual(t, worst, most)
				require.NoError(t, c.Close())
			})
		})
	}
}

// sink is the address of a peer of package net that takes everything, or drops it.
func sink(t *testing.T, network string) string {
	if network == "udp" {
		p, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		return p.LocalAddr().String()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		if c, err := ln.Accept(); err == nil {
			_, _ = io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c})
			_ = c.Close()
		}
	}()
	return ln.Addr().String()
}

// TestWhatWasWrittenBeforeCloseGoesOut: datagrams that the kernel has room for are sent when Close follows at once, whatever the loop
// was sending.
func TestWhatWasWrittenBeforeCloseGoesOut(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		peer, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = peer.Close() }()
		require.NoError(t, peer.SetDeadline(time.Now().Add(patience)))
		b := make([]byte, 16)
		for range 200 {
			c, err := n.Dial("udp", peer.LocalAddr().String())
			require.NoError(t, err)
			const each = 20
			for i := range each {
				_, err := c.Write([]byte{byte(i)})
				require.NoError(t, err)
			}
			require.NoError(t, c.Close())
			for i := range each {
				k, _, err := peer.ReadFrom(b)
				require.NoError(t, err)
				require.Equal(t, []byte{byte(i)}, b[:k])
			}
		}
	})
}

// TestListenerClosedOnItsLoop: Close inside a function that runs on the loop, as Control's does, does not wait for the loop.
func TestListenerClosedOnItsLoop(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		ln := listen(t, n, "tcp")
		c, _ := mixed(t, n)
		raw, err := c.SyscallConn()
		require.NoError(t, err)
		closed := make(chan error, 1)
		go func() {
			var err error
			if e := raw.Control(func(uintptr) { err = ln.Close() }); e != nil {
				err = e
			}
			closed <- err
		}()
		require.NoError(t, wait(t, closed))
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, ln.Close(), net.ErrClosed)
		eventually(t, "the address is free soon", func() bool {
			other, err := net.Listen("tcp", ln.Addr().String())
			if err == nil {
				_ = other.Close()
			}
			return err == nil
		})
	})
}

// TestCallsAfterTheEndAreForgotten: connections that want their loop's attention after its end are not kept by it.
func TestCallsAfterTheEndAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		l := n.loops[0]
		require.NoError(t, closeSoon(n))
		for range 3 {
			l.call(&PacketConn{})
		}
		l.calls.mu.Lock()
		defer l.calls.mu.Unlock()
		require.Empty(t, l.calls.list)
	})
}
