package xtreme_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// isSocket reports whether a descriptor is open and a socket's.
func isSocket(fd int) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// A socket that never had a ring ends with its owner, as those with a ring do.
func TestCloseEndsSocketsWithoutARing(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		p, err := newEngine(t, kind).NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		calls := map[string]func(*xtreme.Socket) error{
			"bind":           func(s *xtreme.Socket) error { return s.Bind(loopback) },
			"connect":        func(s *xtreme.Socket) error { return s.Connect(loopback) },
			"listen":         func(s *xtreme.Socket) error { return s.Listen(1) },
			"bind to device": func(s *xtreme.Socket) error { return s.BindToDevice("lo") },
			"option":         func(s *xtreme.Socket) error { return s.SetReuseAddr(true) },
			"send":           func(s *xtreme.Socket) error { _, err := s.SendTo([]byte("x"), loopback); return err },
			"close":          func(s *xtreme.Socket) error { return s.Close() },
			"abort":          func(s *xtreme.Socket) error { return s.Abort() },
		}
		sockets := map[string]*xtreme.Socket{}
		for name := range calls {
			if name == "listen" {
				sockets[name], err = p.NewTCP(xtreme.IPv4, xtreme.TCPConfig{})
			} else {
				sockets[name], err = p.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
			}
			require.NoError(t, err)
		}
		closed, err := p.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
		require.NoError(t, err)
		require.NoError(t, closed.Close(), "one that ended before is no matter")
		require.NoError(t, p.Close())
		for name, s := range sockets {
			require.False(t, isSocket(s.ID()), "the descriptor for %s is still open", name)
			require.Equal(t, "closed", s.State())
			require.ErrorIs(t, calls[name](s), ring.ErrClosed, name)
		}
		require.Empty(t, p.Rings())
	})
}

// What Adopt refused stays the caller's also when the poller is closed.
func TestCloseLeavesWhatAdoptRefused(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		p, err := newEngine(t, kind).NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		_, err = p.Adopt(fd, xtreme.AdoptConfig{SocketConfig: xtreme.SocketConfig{SendBuffer: -1}})
		require.Error(t, err)
		require.NoError(t, p.Close())
		require.True(t, isSocket(fd))
	})
}

// Posted work may close one ring of several: the poller and its other rings go on.
func TestOneOfSeveralRingsIsClosed(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
		sockets := []*xtreme.Socket{w.udp(loopback), w.udp(loopback), w.udp(loopback)}
		w.poll()
		for i, s := range sockets[:2] {
			w.Len(w.poller.Rings(), 3-i)
			w.NoError(s.Ring().Post(func() { w.NoError(s.Ring().Close()) }))
			for len(w.poller.Rings()) > 2-i {
				w.poll()
			}
			w.Equal("closed", s.State())
			w.sendTo(sockets[2], "goes on", sockets[2].LocalAddr())
			w.Equal("goes on", w.text(sockets[2]))
		}
	})
}

// The memory of the pool is gone with its owner: nothing can be allocated from it.
func TestAllocAfterClose(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		o, err := newEngine(t, kind).NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		pool := o.Pool()
		require.NoError(t, o.Close())
		p, err := pool.Alloc(10)
		require.ErrorContains(t, err, "closed")
		require.True(t, p.IsZero())
	})
	t.Run("packets held", func(t *testing.T) {
		o, err := newEngine(t, conf.RingEpoll).NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		p, err := o.Pool().Alloc(10)
		require.NoError(t, err)
		var held *xtreme.HeldError
		require.ErrorAs(t, o.Close(), &held)
		_, err = o.Pool().Alloc(10)
		require.ErrorContains(t, err, "closed")
		copy(p.Bytes(), "still there")
		require.NoError(t, p.Release())
		_, err = o.Pool().Alloc(10)
		require.ErrorContains(t, err, "closed")
	})
}
