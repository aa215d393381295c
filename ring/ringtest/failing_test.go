package ringtest

import (
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// failing makes one call of the driver fail for one socket.
func (sc *scripted) failing(call string, s *ring.Socket, err error) {
	sc.fake.Fail = func(c string, x *ring.Socket) error {
		if c == call && (s == nil || x == s) {
			return err
		}
		return nil
	}
}

// polled polls once and returns the error.
func (sc *scripted) polled() error {
	_, err := sc.set.Rings()[0].Poll(make([]ring.Completion, 4))
	return err
}

// A failure that waits for Poll belongs to Poll: no call on another socket returns it, and none takes it away.
func TestAFailureThatWaitsIsPolls(t *testing.T) {
	calls := map[string]func(sc *scripted) error{
		"bind":    func(sc *scripted) error { return sc.socket(ring.KindDatagram, loopback).Bind(loopback) },
		"connect": func(sc *scripted) error { return sc.socket(ring.KindDatagram, loopback).Connect(sc.peers.Nobody()) },
		"listen": func(sc *scripted) error {
			l := sc.socket(ring.KindStream, loopback)
			sc.NoError(l.Bind(loopback))
			return l.Listen(1)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			sc := newScript(t)
			a := sc.udp(loopback)
			sc.failing("stop", a, unix.EIO)
			sc.NoError(a.Suspend())
			sc.NoError(call(sc), "the failure is of another socket")
			sc.ErrorIs(sc.polled(), unix.EIO)
			sc.NoError(sc.polled(), "once")
		})
		t.Run("its own: "+name, func(t *testing.T) {
			sc := newScript(t)
			sc.udp(loopback)
			sc.failing("receive", nil, unix.EIO)
			sc.ErrorIs(call(sc), unix.EIO)
			sc.NoError(sc.polled(), "the call has returned it")
		})
	}
}

// A pending failure does not end Close before the sockets are gone.
func TestCloseWithAFailurePending(t *testing.T) {
	sc := newScript(t)
	a := sc.udp(loopback)
	r := a.Ring()
	for range 100 { // more than one Poll of Close can end
		sc.udp(loopback)
	}
	sc.NoError(sc.polled())
	sc.failing("stop", a, unix.EIO)
	sc.NoError(a.Suspend())
	sc.ErrorIs(r.Close(), unix.EIO, "the last chance to tell of it")
	sc.Zero(r.Sockets())
}

// SendPacket is all or nothing: when the driver refuses, the caller gets the error and keeps the packet.
func TestSendPacketRefusedByTheDriver(t *testing.T) {
	sc := newScript(t)
	u := sc.udp(loopback)
	to := sc.udp(loopback)
	sc.failing("transmit", u, unix.EIO)
	p, err := sc.pool.Alloc(4)
	sc.NoError(err)
	copy(p.Bytes(), "mine")
	sc.ErrorIs(u.SendPacket(p, to.LocalAddr(), 7), unix.EIO)
	sc.True(p.Valid(), "the packet is the caller's")
	sc.Equal("mine", string(p.Bytes()))
	sc.NoError(sc.pool.Verify())
	sc.Empty(sc.turn(4), "no SENT for what was not taken")
	sc.fake.Fail = nil
	sc.NoError(u.SendPacket(p, to.LocalAddr(), 8))
	sc.False(p.Valid())
	sc.Equal(uint64(8), sc.event(u, ring.EventSent, nil).Token)
	sc.release(sc.event(to, ring.EventPacket, nil))
}

// What was taken and cannot be sent later ends with SENT and the error. A stream with a gap in it is at its end.
func TestPacketsQueuedWhenTheDriverRefuses(t *testing.T) {
	sc := newScript(t)
	s, peer := sc.pair()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	sc.NoError(err)
	defer f.Close()
	const size = 16 << 20 // more than the kernel's queues of both ends
	sc.NoError(f.Truncate(size))
	sc.NoError(s.SendFile(f, 0, -1, 1))
	for token := uint64(2); token <= 3; token++ {
		p, err := sc.pool.Alloc(4)
		sc.NoError(err)
		sc.NoError(s.SendPacket(p, netip.AddrPort{}, token))
	}
	sc.failing("transmit", s, unix.EIO)
	read := make(chan int64, 1)
	go func() {
		n, _ := io.CopyN(io.Discard, peer, size)
		read <- n
	}()
	sc.Equal(uint64(1), sc.event(s, ring.EventSent, nil).Token)
	sc.Equal(uint64(2), sc.event(s, ring.EventSent, unix.EIO).Token)
	sc.Equal(uint64(3), sc.event(s, ring.EventSent, unix.EIO).Token)
	sc.event(s, ring.EventIn|ring.EventErr|ring.EventHup, unix.EIO)
	sc.Equal(int64(size), <-read)
	sc.Equal("dead", s.State())
}

// A file whose socket the driver does not watch would wait for ever.
func TestAFileThatNothingWakes(t *testing.T) {
	sc := newScript(t)
	s, _ := sc.pair()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	sc.NoError(err)
	defer f.Close()
	sc.NoError(f.Truncate(16 << 20))
	sc.failing("notify", s, unix.EIO)
	sc.NoError(s.SendFile(f, 0, -1, 1))
	c := sc.event(s, ring.EventSent, unix.EIO)
	sc.Equal(uint64(1), c.Token)
	var part *ring.FileError
	sc.ErrorAs(c.Err, &part)
	sc.Less(part.Sent, int64(16<<20))
}
