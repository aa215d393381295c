package gnet

import (
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// connected is the Conn of a connected UDP socket: a datagram that is a ConnX too.
type connected struct{ *datagram }

var _ ConnX = connected{}

// connectedState is what only connected sockets have.
type connectedState struct {
	connectedPeer *datagram // the Conn of the one peer; nil for a server
	suspended     bool
	why           error               // with which a deferred close is made
	withheld      []xtreme.Completion // datagrams that the ring delivered after reading was suspended
	failed        atomic.Pointer[error]
	idle          atomic.Int64 // a time.Duration; 0: no limit
	used          atomic.Int64 // when it was last received or sent, since began
	idleTimer     reactor.Timer
}

// began is what idle times are measured from: differences of the monotonic clock fit an atomic.
var began = time.Now()

// active notes that something was received or sent, for the idle timeout. Any goroutine.
func (l *connectedState) active() {
	if l.idle.Load() > 0 {
		l.used.Store(int64(time.Since(began)))
	}
}

// keepError keeps an ICMP error for the next Write, as the kernel does.
func (l *connectedState) keepError(err error) { l.failed.Store(&err) }

// takeError returns the error of keepError once, then nil. Any goroutine.
func (l *connectedState) takeError() error {
	if l.failed.Load() == nil {
		return nil
	}
	if err := l.failed.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// SuspendRead stops reading from the peer.
func (c connected) SuspendRead() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	c.us.suspended = true
	return c.us.socket.Suspend()
}

// ResumeRead starts reading again.
func (c connected) ResumeRead() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	c.us.suspended = false
	if len(c.us.withheld) > 0 { // first that, in a turn of its own; then the ring
		return c.us.el.tasks.push(task{kind: taskRun, run: c.us.deliverWithheld})
	}
	return c.us.socket.Resume()
}

// SetProducers is for streams: a datagram that finds no room is lost.
func (c connected) SetProducers(...Conn) error { return ErrUnsupportedOp }

// CloseWhenSent closes the connection: datagrams do not wait here.
func (c connected) CloseWhenSent() error {
	if c.state != stateOpen {
		return net.ErrClosed
	}
	return c.us.close(c.datagram, nil)
}

// deliverWithheld calls the handler for one datagram that was received while reading was suspended, and posts itself for the next one. After
// the last the ring reads again.
func (us *udpSocket) deliverWithheld() {
	switch {
	case us.suspended || us.connectedPeer.state != stateOpen:
		return
	case len(us.withheld) == 0:
		_ = us.socket.Resume() // open, so there is nothing it could answer
		return
	}
	done := us.withheld[0]
	us.withheld[0] = xtreme.Completion{}
	us.withheld = us.withheld[1:]
	defer func() { // whether or not the handler panics; after the loop's end nothing is left to do it
		_ = us.el.tasks.push(task{kind: taskRun, run: us.deliverWithheld})
	}()
	us.deliver(us.connectedPeer, &done)
}

// dropWithheld releases the datagrams that were received while reading was suspended, when the socket is closed.
func (us *udpSocket) dropWithheld() {
	for _, done := range us.withheld {
		release(done.Packet)
	}
	us.withheld = nil
}

// SetIdleTimeout closes the connection once nothing was received or written for d; 0 turns it off.
func (c connected) SetIdleTimeout(d time.Duration) error {
	if d < 0 {
		return badOption("idle timeout", d)
	}
	return c.us.el.runOnLoop(func() error {
		if c.state != stateOpen {
			return net.ErrClosed
		}
		c.us.startIdle(d)
		return nil
	})
}

func (us *udpSocket) startIdle(d time.Duration) {
	us.idle.Store(int64(d))
	us.active()
	us.watchIdle(d)
}

// watchIdle starts the idle timer. Traffic only stores the time (active); the timer's function then finds whether the socket was really idle.
func (us *udpSocket) watchIdle(d time.Duration) {
	if us.idleTimer != 0 {
		us.el.loop.Cancel(us.idleTimer)
		us.idleTimer = 0
	}
	if d > 0 {
		us.idleTimer = us.el.loop.After(d, us.idleOver)
	}
}

// idleOver is the idle timer's function: it closes the socket if nothing was sent or received for the idle timeout, else it starts the timer
// for the rest.
func (us *udpSocket) idleOver() {
	us.el.depth, us.el.current = 0, nil // as a panic may have left them
	us.idleTimer = 0
	d := time.Duration(us.idle.Load())
	if us.connectedPeer.state != stateOpen || d == 0 {
		return
	}
	if left := d - (time.Since(began) - time.Duration(us.used.Load())); left > 0 {
		us.watchIdle(left)
		return
	}
	_ = us.close(us.connectedPeer, os.ErrDeadlineExceeded)
	us.el.after()
}
