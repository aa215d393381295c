package xtreme_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestUnixSocketsOfOnePoller(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		dir, err := os.MkdirTemp("", "xtreme") // shorter than the test's own
		w.NoError(err)
		defer os.RemoveAll(dir)
		name := filepath.Join(dir, "s")
		l, err := w.poller.ListenUnix(name, xtreme.UnixListenConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr[uint64](5)}, Backlog: 4})
		w.NoError(err)
		s, err := w.poller.DialUnix(name, xtreme.UnixDialConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr[uint64](6)}})
		w.NoError(err)
		w.Equal(uint64(6), w.event(s, xtreme.EventOut).UserData)
		c := w.next("a connection", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventNewConnection) })
		w.Equal(l, c.Listener)
		child := c.Socket
		_, err = s.Send([]byte("over here"))
		w.NoError(err)
		c = w.event(child, xtreme.EventPacket)
		w.Equal("over here", string(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
		w.NoError(child.Close())
		w.event(child, xtreme.EventClosed)
		w.event(s, xtreme.EventIn|xtreme.EventRdHup)
		w.NoError(s.Close())
		w.event(s, xtreme.EventClosed)
		w.NoError(l.Close())
		w.event(l, xtreme.EventClosed)
		w.NoFileExists(name)

		l, err = w.poller.ListenUnix(name, xtreme.UnixListenConfig{KeepSocketFile: true})
		w.NoError(err)
		w.NoError(l.Close())
		w.event(l, xtreme.EventClosed)
		w.FileExists(name)
		before := descriptors(t)
		_, err = w.poller.ListenUnix(name, xtreme.UnixListenConfig{})
		w.ErrorIs(err, unix.EADDRINUSE)
		w.ErrorContains(err, "xtreme: ListenUnix: ring: bind unix: "+name)
		_, err = w.poller.DialUnix(name, xtreme.UnixDialConfig{})
		w.ErrorIs(err, unix.ECONNREFUSED)
		_, err = w.poller.DialUnix(name, xtreme.UnixDialConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		w.ErrorIs(err, xtreme.ErrNotSupported)
		w.ErrorContains(err, name)
		_, err = w.poller.ListenUnix(filepath.Join(dir, "other"), xtreme.UnixListenConfig{Backlog: -1})
		w.ErrorContains(err, "Backlog")
		w.NoFileExists(filepath.Join(dir, "other"))
		w.Equal(before, descriptors(t))
		w.FileExists(name, "it was there before the listener that could not be made")
	})
}

func TestAdoptWhatPackageNetMade(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		w.NoError(err)
		defer l.Close()
		peer, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
		w.NoError(err)
		defer peer.Close()
		server, err := l.AcceptTCP()
		w.NoError(err)
		file, err := server.File() // a duplicate that does not block
		w.NoError(err)
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		w.NoError(err)
		w.NoError(file.Close())
		w.NoError(server.Close())

		opened := w.engine.Stats().Sockets
		_, err = w.poller.Adopt(fd, xtreme.AdoptConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		w.ErrorIs(err, xtreme.ErrNotSupported)
		w.Equal(opened, w.engine.Stats().Sockets)
		hook := func(*xtreme.Socket, *xtreme.Completion) ring.Verdict { return ring.Keep }
		s, err := w.poller.Adopt(fd, xtreme.AdoptConfig{LargeStream: true,
			SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr[uint64](8), ReceiveMode: ring.Callback, ReceiveCallback: hook}})
		w.NoError(err)
		w.NoError(s.SetKeepAlive(time.Minute, 0, 0))
		w.NoError(s.SetLinger(time.Second))
		w.Equal(opened+1, w.engine.Stats().Sockets)
		_, err = peer.Write([]byte("hello"))
		w.NoError(err)
		w.Equal(uint64(8), w.event(s, xtreme.EventIn).UserData)
		into := make([]xtreme.Completion, 1)
		_, err = s.Receive(into)
		w.NoError(err)
		w.Equal("hello", string(into[0].Packet.Bytes()))
		w.NoError(into[0].Packet.Release())
		w.NoError(s.Close())
		_, err = io.ReadAll(peer)
		w.NoError(err)
		w.NoError(peer.Close())
		w.event(s, xtreme.EventClosed)

		_, err = w.poller.Adopt(-1, xtreme.AdoptConfig{})
		w.ErrorIs(err, unix.EBADF)
		w.EqualError(err, "xtreme: Adopt: ring: adopt: descriptor -1: bad file descriptor")
	})
}

func TestAdoptFollowsTheRingAllocation(t *testing.T) {
	w := newWorld(t, conf.RingEpoll, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
	foreign := w.foreign()
	var sockets []*xtreme.Socket
	for _, call := range []string{"Adopt/TCP/listener", "Adopt/UDP", "Adopt/unix"} {
		s, err := w.poller.Adopt(foreign[call](), xtreme.AdoptConfig{})
		w.NoError(err)
		sockets = append(sockets, s)
	}
	w.NotSame(sockets[0].Ring(), sockets[1].Ring())
	w.NotSame(sockets[1].Ring(), sockets[2].Ring())
	w.silent(time.Millisecond)
}

func TestAdoptOnAnotherGoroutineIsRefused(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	fd := w.foreign()["Adopt/UDP"]()
	w.poll()
	failed := make(chan error)
	go func() { _, err := w.poller.Adopt(fd, xtreme.AdoptConfig{}); failed <- err }()
	w.ErrorIs(<-failed, ring.ErrOwner)
	s, err := w.poller.Adopt(fd, xtreme.AdoptConfig{}) // still the caller's
	w.NoError(err)
	w.NotNil(s.Ring())
}

func TestALimitOfConnections(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		open := 0
		l, err := w.poller.ListenTCP(loopback, xtreme.ListenConfig{AcceptTo: func(fd int, _ netip.AddrPort) bool {
			if open == 2 {
				w.NoError(unix.Close(fd))
				return true
			}
			open++
			return false
		}})
		w.NoError(err)
		var clients []net.Conn
		for range 5 {
			c, err := net.Dial("tcp", l.LocalAddr().String())
			w.NoError(err)
			defer c.Close()
			w.NoError(c.SetReadDeadline(time.Now().Add(patience)))
			clients = append(clients, c)
		}
		for end := time.Now().Add(patience); l.Ring().Stats().AcceptedAway < 3; w.poll() {
			w.True(time.Now().Before(end))
		}
		w.Equal(uint64(2), l.Ring().Stats().Accepted)
		for _, c := range clients[2:] {
			_, err := c.Read(make([]byte, 1))
			w.ErrorIs(err, io.EOF)
		}
		w.Len(w.kept, 2)
		for i := range w.kept {
			w.Equal(xtreme.EventNewConnection, w.kept[i].Events, fmt.Sprint(i))
		}
	})
}
