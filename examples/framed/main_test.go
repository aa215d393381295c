package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	original "github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// observed is the server on a ring, with what a test wants to know of it.
type observed struct {
	server
	booted chan gnet.Engine
	closed chan error
}

func (o *observed) OnBoot(e gnet.Engine) gnet.Action {
	o.booted <- e
	return gnet.None
}

func (o *observed) OnClose(_ gnet.Conn, err error) gnet.Action {
	o.closed <- err
	return gnet.None
}

// onGnet is the same server on gnet itself: that is what "written for gnet" means.
type onGnet struct {
	original.BuiltinEventEngine
	server server
	booted chan original.Engine
	closed chan error
}

func (o *onGnet) OnBoot(e original.Engine) original.Action {
	o.booted <- e
	return original.None
}

func (o *onGnet) OnTraffic(c original.Conn) original.Action { return o.server.OnTraffic(c) }

func (o *onGnet) OnClose(_ original.Conn, err error) original.Action {
	o.closed <- err
	return original.None
}

// onEach runs a test against the server on each kind of ring, and on gnet. Closed is told when a connection ended.
func onEach(t *testing.T, test func(t *testing.T, addr string, closed <-chan error)) {
	for _, kind := range []conf.RingKind{conf.RingEpoll, conf.RingUring} {
		t.Run(string(kind), func(t *testing.T) {
			o := &observed{booted: make(chan gnet.Engine, 1), closed: make(chan error, 64)}
			ended := make(chan error, 1)
			go func() { ended <- gnet.Run(o, "tcp://127.0.0.1:0", gnet.WithNumEventLoop(2), gnet.WithRing(kind)) }()
			var e gnet.Engine
			select {
			case e = <-o.booted:
			case err := <-ended:
				t.Fatal(err)
			}
			t.Cleanup(func() {
				require.NoError(t, e.Stop(context.Background()))
				require.NoError(t, <-ended)
			})
			test(t, e.Addrs()[0].String(), o.closed)
		})
	}
	t.Run("gnet", func(t *testing.T) {
		o := &onGnet{booted: make(chan original.Engine, 1), closed: make(chan error, 64)}
		ended := make(chan error, 1)
		go func() { ended <- original.Run(o, "tcp://127.0.0.1:0", original.WithNumEventLoop(2)) }()
		e := <-o.booted
		t.Cleanup(func() {
			require.NoError(t, e.Stop(context.Background()))
			require.NoError(t, <-ended)
		})
		fd, err := e.Dup()
		require.NoError(t, err)
		name, err := unix.Getsockname(fd)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		addr := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
		test(t, addr.String(), o.closed)
	})
}

func dial(t *testing.T, addr string) *net.TCPConn {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return c.(*net.TCPConn)
}

func frame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func send(t *testing.T, c net.Conn, b []byte) {
	_, err := c.Write(b)
	require.NoError(t, err)
}

func receive(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "got %.40q, want %.40q", got, want)
}

// A frame that arrives byte by byte, in two parts at every place, and behind half of another one.
func TestFragments(t *testing.T) {
	onEach(t, func(t *testing.T, addr string, _ <-chan error) {
		c := dial(t, addr)
		f := frame("hello")
		for i := range f {
			send(t, c, f[i:i+1])
			time.Sleep(time.Millisecond)
		}
		receive(t, c, f)
		for cut := 1; cut < len(f); cut++ {
			send(t, c, f[:cut])
			time.Sleep(time.Millisecond)
			send(t, c, append(bytes.Clone(f[cut:]), f[:cut]...))
			receive(t, c, f)
			send(t, c, f[cut:])
			receive(t, c, f)
		}
	})
}

// Many frames in one segment, empty ones among them, are answered in order.
func TestManyFramesInOneSegment(t *testing.T) {
	onEach(t, func(t *testing.T, addr string, _ <-chan error) {
		c := dial(t, addr)
		var all []byte
		for i := range 300 {
			all = append(all, frame(strings.Repeat("x", i%7))...)
		}
		send(t, c, all)
		receive(t, c, all)
	})
}

func TestAnEmptyFrameIsAFrame(t *testing.T) {
	onEach(t, func(t *testing.T, addr string, _ <-chan error) {
		c := dial(t, addr)
		send(t, c, frame(""))
		receive(t, c, frame(""))
	})
}

// The longest frame passes through all buffers; while it comes in, others are served.
func TestTheLongestFrame(t *testing.T) {
	onEach(t, func(t *testing.T, addr string, _ <-chan error) {
		c, other := dial(t, addr), dial(t, addr)
		f := frame(strings.Repeat("0123456789abcdef", maxPayload/16))
		send(t, c, f[:len(f)/2])
		send(t, other, frame("meanwhile"))
		receive(t, other, frame("meanwhile"))
		send(t, c, f[len(f)/2:])
		receive(t, c, f)
	})
}

// A peer that announces too much is disconnected at once; what it sent before is answered, and others go on.
func TestAnOversizedFrameEndsTheConnection(t *testing.T) {
	onEach(t, func(t *testing.T, addr string, closed <-chan error) {
		c, other := dial(t, addr), dial(t, addr)
		send(t, c, frame("before"))
		receive(t, c, frame("before"))
		send(t, c, binary.BigEndian.AppendUint32(nil, maxPayload+1))
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		var timeout net.Error
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "it is still open")
		<-closed
		send(t, other, frame("after"))
		receive(t, other, frame("after"))
	})
}

// A peer that sends nothing and closes, and one that closes inside a frame, leave nothing behind.
func TestPeersThatEndEarly(t *testing.T) {
	onEach(t, func(t *testing.T, addr string, closed <-chan error) {
		for _, sent := range [][]byte{nil, {0}, frame("hello")[:6]} {
			c := dial(t, addr)
			send(t, c, sent)
			require.NoError(t, c.CloseWrite())
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "nothing is answered")
			select {
			case <-closed:
			case <-time.After(10 * time.Second):
				t.Fatal("the server did not notice")
			}
		}
	})
}
