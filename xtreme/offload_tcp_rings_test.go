package xtreme_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

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
