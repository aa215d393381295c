package gnet

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// outbox has datagrams that other goroutines send on a socket of an offloaded ring, for the loop to send in order. Only the loop may use the
// stack, and a send on the descriptor would bypass it: not paced, not counted, out of order. It allocates nothing once it has grown.
type outbox struct {
	on bool // the socket is on such a ring

	mu     sync.Mutex
	next   batch // datagrams that the loop has not taken yet
	called bool  // a task for the loop to take them is queued

	now  batch // used by the loop alone: datagrams that it is sending
	run  func()
	full bool // the link has no room: OUT follows
}

// batch is datagrams, their bytes one behind the other.
type batch struct {
	bytes []byte
	list  []leaving
	at    int // list[at:] is not sent yet
	off   int // where its bytes begin
}

// leaving is a datagram in a batch: its length and its destination.
type leaving struct {
	n  int
	to netip.AddrPort
}

const (
	outboxMost  = 1 << 20 // how many bytes may wait, leavingCost counted for each datagram
	leavingCost = 64

	longestDatagram = 1<<16 - 1 - 20 - 8 // RFC 791 and 768: an IPv4 packet's length less both headers
)

// openOutbox prepares the outbox of a socket that was opened: on an offloaded ring other goroutines send through it.
func (us *udpSocket) openOutbox() {
	r := us.socket.Ring()
	us.out.on = r != nil && r.Caps().Has(ring.CapPathChanges)
	us.out.run = us.sendQueued
}

// queueForLoop copies a datagram of another goroutine into the outbox and makes the loop send it. It returns EAGAIN if too much is queued, as
// a descriptor does whose send queue is full.
func (us *udpSocket) queueForLoop(p []byte, to netip.AddrPort) (int, error) {
	if len(p) > longestDatagram {
		return 0, unix.EMSGSIZE // here, because the loop can return it to no caller
	}
	o := &us.out
	o.mu.Lock()
	defer o.mu.Unlock()
	b := &o.next
	if len(b.list) > 0 && len(b.bytes)+len(p)+leavingCost*len(b.list) > outboxMost {
		return 0, unix.EAGAIN
	}
	if !o.called {
		if err := us.el.tasks.push(task{kind: taskRun, run: o.run}); err != nil {
			return 0, err
		}
		o.called = true
	}
	b.bytes = append(b.bytes, p...)
	b.list = append(b.list, leaving{len(p), to})
	return len(p), nil
}

// sendQueued sends the datagrams in the outbox, in order. If the link has no room, the rest waits for OUT. Loop only.
func (us *udpSocket) sendQueued() {
	o := &us.out
	o.mu.Lock()
	o.called = false
	if o.now.at == len(o.now.list) {
		o.now.bytes, o.now.list, o.now.at, o.now.off = o.now.bytes[:0], o.now.list[:0], 0, 0
		o.now, o.next = o.next, o.now
	}
	o.mu.Unlock()
	if !o.full {
		us.sendRemaining()
	}
}

// sendRemaining sends the datagrams of the batch that the loop has taken, until the link has no room.
func (us *udpSocket) sendRemaining() {
	b := &us.out.now
	for b.at < len(b.list) {
		d := b.list[b.at]
		_, err := us.socket.SendTo(b.bytes[b.off:b.off+d.n], d.to)
		if errors.Is(err, ring.ErrWouldBlock) {
			us.out.full = true
			return
		}
		if err != nil { // as lost as any datagram, and among SocketStats.SendErrors
			us.el.eng.log.Debugf("UDP %v to %v: %v", us.local, d.to, err)
		}
		b.at++
		b.off += d.n
	}
}

// onWritable handles OUT: the link has room again.
func (us *udpSocket) onWritable() {
	if us.out.full {
		us.out.full = false
		us.sendRemaining()
		us.sendQueued()
	}
}

// noDescriptor returns ErrUnsupportedOp with a reason for calls that need the descriptor of a socket on an offloaded ring: the kernel's
// socket beside it does not send and receive what the stack does.
func (us *udpSocket) noDescriptor(call string) error {
	if !us.out.on {
		return nil
	}
	return fmt.Errorf("gnet: %s of UDP %v on an offloaded ring, whose datagrams do not pass a descriptor: %w", call, us.local, ErrUnsupportedOp)
}
