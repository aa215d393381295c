package xtreme_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// newTCPPollers is a world of two pollers that divide the queues of an interface, each with TCP of its own stack.
func newTCPPollers(t *testing.T) (w *cabled, x *world) {
	w = newCabled(t, testnet.Pair{Queues: 2})
	w.engine = w.newEngine(ownTCP)
	w.poller = w.newPoller("first", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 0, Of: 2}})
	x = w.other(w.newPoller("second", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 1, Of: 2}}))
	return w, x
}

// Two pollers carry TCP side by side on one interface: listeners and outgoing connections of each, whatever queue their frames come in on. When
// one is closed the other goes on.
func TestTCPOnTwoPollers(t *testing.T) {
	w, x := newTCPPollers(t)
	worlds := [2]*world{w.world, x}
	var listeners, accepted, dialled [2]*xtreme.Socket
	var peers, called [2]net.Conn
	remote := w.listenInPeer()
	for i, one := range worlds {
		one.beforePoll, worlds[1-i].beforePoll = func() { worlds[1-i].poll() }, nil
		listeners[i] = w.listenTCP(one, w.at(0))
		peers[i] = w.dialFromPeer(one, listeners[i].LocalAddr())
		accepted[i] = one.accept(listeners[i])
		one.echo(accepted[i], peers[i], 3)
		var err error
		dialled[i], err = one.poller.DialTCP(addr(remote.Addr()), xtreme.DialConfig{})
		w.NoError(err)
		w.Equal("bypass", dialled[i].Path().Tier, dialled[i].Path().Explain())
		one.beside(func() (err error) { called[i], err = remote.Accept(); return err })
		w.NoError(called[i].SetDeadline(time.Now().Add(3 * patience)))
		one.event(dialled[i], xtreme.EventOut)
		one.echo(dialled[i], called[i], 3)
		w.Zero(w.kernelConnections())
	}
	w.NotEqual(dialled[0].LocalAddr(), dialled[1].LocalAddr())
	w.NotZero(counter(accepted[0].Ring(), "handover.given")+counter(accepted[1].Ring(), "handover.given"), "all frames come in on one queue")

	// The second one ends: its peers are reset, and the first one's connections live, as do new ones.
	for i := range x.kept {
		_ = x.kept[i].Packet.Release()
	}
	x.kept, x.beforePoll, w.beforePoll = nil, nil, nil
	w.NoError(x.poller.Close())
	for _, c := range []net.Conn{peers[1], called[1]} {
		var err error
		w.beside(func() error { _, err = c.Read(make([]byte, 1)); return nil })
		w.ErrorContains(err, "reset by peer")
	}
	w.until("the first one has taken over the queue", func() bool { return len(accepted[0].Path().Links) == 2 })
	w.poll()
	for _, c := range w.kept {
		w.Equal(xtreme.EventPath, c.Events)
	}
	w.kept = nil
	w.echo(accepted[0], peers[0], 3)
	w.echo(dialled[0], called[0], 3)
	again := w.dialFromPeer(w.world, listeners[0].LocalAddr())
	w.echo(w.accept(listeners[0]), again, 3)
}

// A poller serves its share of an interface that another one has opened, with or without a socket of its own: what comes in on its queues is not
// lost to the kernel. A poller that is made later does so from its first Poll on.
func TestShareOfAnInterfaceThatAnotherPollerOpened(t *testing.T) {
	w, x := newTCPPollers(t) // all frames come in on queue 0, which is the first one's
	l := w.listenTCP(x, w.at(0))
	x.beforePoll = func() { w.poll() }
	peer := w.dialFromPeer(x, l.LocalAddr())
	x.echo(x.accept(l), peer, 3)
	w.Len(w.poller.Rings(), 2, "the kernel's and the offloaded one")

	w = newCabled(t, testnet.Pair{Queues: 2})
	w.engine = w.newEngine(ownTCP)
	x = w.other(w.newPoller("second", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 1, Of: 2}}))
	l = w.listenTCP(x, w.at(0))
	w.poller = w.newPoller("made later", xtreme.PollerConfig{QueueShare: xtreme.QueueShare{Index: 0, Of: 2}})
	x.beforePoll = func() { w.poll() }
	peer = w.dialFromPeer(x, l.LocalAddr())
	x.echo(x.accept(l), peer, 3)
}

// Listeners of several pollers share a port with ReusePort: each connection is one of theirs, whole.
func TestTCPListenersShareAPort(t *testing.T) {
	w, x := newTCPPollers(t)
	c := xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}}
	first, err := w.poller.ListenTCP(w.at(0), c)
	w.NoError(err)
	second, err := x.poller.ListenTCP(first.LocalAddr(), c)
	w.NoError(err)
	w.Equal("bypass", second.Path().Tier, second.Path().Explain())
	const n = 24
	done := make(chan error, 1)
	go func() { done <- dialEach(w.net, first.LocalAddr(), n) }()
	count := [2]int{}
	for end := time.Now().Add(3 * patience); ; {
		w.True(time.Now().Before(end), "%v", count)
		for i, one := range []*world{w.world, x} {
			one.poll()
			for _, k := range one.kept {
				if k.Events.Has(xtreme.EventNewConnection) {
					count[i]++
				}
				if k.Events.Has(xtreme.EventPacket) {
					_, err := k.Socket.Send(k.Packet.Bytes())
					w.NoError(err)
					w.NoError(k.Packet.Release())
				}
			}
			one.kept = one.kept[:0]
		}
		select {
		case err := <-done:
			w.NoError(err)
			w.Equal(n, count[0]+count[1])
			w.NotZero(count[0])
			w.NotZero(count[1])
			return
		default:
		}
	}
}

// dialEach has n clients of the peer's kernel exchange a message each with a server that echoes.
func dialEach(at *testnet.Net, to netip.AddrPort, n int) error {
	errs := make(chan error, n)
	for i := range n {
		go func() {
			errs <- func() error {
				runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
				if err := at.EnterPeer(); err != nil {
					return err
				}
				c, err := net.DialTimeout("tcp4", to.String(), patience)
				if err != nil {
					return err
				}
				defer c.Close()
				text := fmt.Sprintf("client %d", i)
				if _, err := c.Write([]byte(text)); err != nil {
					return err
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				b := make([]byte, len(text))
				if _, err := io.ReadFull(c, b); err != nil {
					return err
				}
				if string(b) != text {
					return fmt.Errorf("client %d received %q", i, b)
				}
				return nil
			}()
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// A connection that one poller accepts is served by another one: what its peer sent before, meanwhile and after arrives, as do its end and its
// reset; what nobody wants is reset.
func TestAcceptedTCPGoesToAnotherPoller(t *testing.T) {
	w, x := newTCPPollers(t)
	var taken []int
	take := true
	l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{AcceptTo: func(fd int, _ netip.AddrPort) bool {
		if take {
			taken = append(taken, fd)
		}
		return take
	}})
	w.NoError(err)
	w.Equal("bypass", l.Path().Tier, l.Path().Explain())
	w.NoError(x.poller.OpenInterface(w.net.Local(0))) // not while a connection is adopted: its path would change
	dial := func() (*net.TCPConn, int) {
		n := len(taken)
		peer := w.dialFromPeer(w.world, l.LocalAddr())
		w.until("it is taken", func() bool { return len(taken) > n })
		return peer, taken[n]
	}
	adopt := func(fd int) *xtreme.Socket {
		s, err := x.poller.Adopt(fd, xtreme.AdoptConfig{})
		w.NoError(err)
		w.Equal("bypass", s.Path().Tier, s.Path().Explain())
		return s
	}
	w.beforePoll, x.beforePoll = func() { x.poll() }, nil
	both := func(f func()) {
		w.beforePoll, x.beforePoll = nil, func() { w.poll() }
		f()
		w.beforePoll, x.beforePoll = func() { x.poll() }, nil
	}
	// Data at once, the second part while nobody has the connection; then it lives as any other.
	peer, fd := dial()
	w.write(peer, "before")
	for range 10 {
		w.poll()
	}
	s := adopt(fd)
	both(func() {
		w.Equal("before", x.text(s))
		x.echo(s, peer, 3)
		_, err = s.Send([]byte("bye"))
		w.NoError(err)
		w.NoError(s.Close())
		x.event(s, xtreme.EventClosed)
		var all []byte
		x.beside(func() (err error) { all, err = io.ReadAll(peer); return err })
		w.Equal("bye", string(all))
	})
	_, err = x.poller.Adopt(fd, xtreme.AdoptConfig{})
	w.ErrorIs(err, unix.EBADF)

	// The end, and a reset, that came while nobody had it.
	peer, fd = dial()
	w.write(peer, "last words")
	w.NoError(peer.CloseWrite())
	s = adopt(fd)
	both(func() {
		w.Equal("last words", x.text(s))
		x.event(s, xtreme.EventIn|xtreme.EventRdHup)
		x.close(s)
	})
	peer, fd = dial()
	w.write(peer, "then a reset")
	w.NoError(peer.SetLinger(0))
	w.NoError(peer.Close())
	for range 10 {
		w.poll()
	}
	s = adopt(fd)
	both(func() {
		c := x.next("its end", func(c *xtreme.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventErr) })
		w.ErrorIs(c.Err, unix.ECONNRESET)
		x.close(s)
	})
	for i := range x.kept {
		_ = x.kept[i].Packet.Release()
	}
	x.kept = nil

	// Refused.
	peer, fd = dial()
	w.NoError(w.engine.CloseAccepted(fd))
	w.ErrorIs(w.engine.CloseAccepted(fd), unix.EBADF)
	var refused error
	w.beside(func() error { _, refused = peer.Read(make([]byte, 1)); return nil })
	w.ErrorIs(refused, unix.ECONNRESET)

	// Not taken: the listener's own poller has it. The listener's end is not that of connections which have gone elsewhere.
	peer, fd = dial()
	s = adopt(fd)
	take = false
	own := w.dialFromPeer(w.world, l.LocalAddr())
	w.echo(w.accept(l), own, 3)
	w.close(l)
	both(func() { x.echo(s, peer, 3) })

	// Many at once, which nobody adopts before all are there.
	take, taken = true, nil
	l, err = w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{AcceptTo: func(fd int, _ netip.AddrPort) bool { taken = append(taken, fd); return true }})
	w.NoError(err)
	const n = 100
	done := make(chan error, 1)
	go func() { done <- dialEach(w.net, l.LocalAddr(), n) }()
	w.until("all are there", func() bool { return len(taken) == n })
	for _, fd := range taken {
		adopt(fd)
	}
	both(func() {
		for end := time.Now().Add(3 * patience); ; x.poll() {
			w.True(time.Now().Before(end))
			for _, k := range x.kept {
				if k.Events.Has(xtreme.EventPacket) {
					_, err := k.Socket.Send(k.Packet.Bytes())
					w.NoError(err)
					w.NoError(k.Packet.Release())
				}
			}
			x.kept = x.kept[:0]
			select {
			case err := <-done:
				w.NoError(err)
				return
			default:
			}
		}
	})
}
