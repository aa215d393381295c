package gnet

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// outbox is where other goroutines leave datagrams of a socket on an offloaded ring, for its loop to send in their order: the stack is the
// loop's, and the descriptor would send past it, unpaced, uncounted and out of order. It allocates nothing once it has grown.
type outbox struct {
	on bool // the socket is on such a ring

	mu     sync.Mutex
	next   batch // what the loop has not come for
	called bool  // the loop comes

	now  batch // the loop's: what it sends
	run  func()
	full bool // the link has no room: Out follows
}

// batch is datagrams, one behind the other.
type batch struct {
	bytes []byte
	list  []leaving
	at    int // list[at:] is not sent yet
	off   int // where its bytes begin
}

type leaving struct {
	n  int
	to netip.AddrPort
}

const (
	outboxMost  = 1 << 20 // what may wait, with leavingCost for each datagram
	leavingCost = 64

	longestDatagram = 1<<16 - 1 - 20 - 8 // RFC 791 and 768: an IPv4 packet's length less both headers
)

// openOutbox is called when the socket is open.
func (us *udpSocket) openOutbox() {
	r := us.socket.Ring()
	us.out.on = r != nil && r.Caps().Has(ring.CapPathChanges)
	us.out.run = us.empty
}

// leave is send for other goroutines. Like a descriptor whose queue is full it answers EAGAIN when the loop does not keep up.
func (us *udpSocket) leave(p []byte, to netip.AddrPort) (int, error) {
	if len(p) > longestDatagram {
		return 0, unix.EMSGSIZE // the loop would have nobody to tell
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

// empty sends what was left until now. What the link has no room for waits for Out, and what is left meanwhile behind it. Loop only.
func (us *udpSocket) empty() {
	o := &us.out
	o.mu.Lock()
	o.called = false
	if o.now.at == len(o.now.list) {
		o.now.bytes, o.now.list, o.now.at, o.now.off = o.now.bytes[:0], o.now.list[:0], 0, 0
		o.now, o.next = o.next, o.now
	}
	o.mu.Unlock()
	if !o.full {
		us.sendLeft()
	}
}

func (us *udpSocket) sendLeft() {
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

// room answers Out.
func (us *udpSocket) room() {
	if us.out.full {
		us.out.full = false
		us.sendLeft()
		us.empty()
	}
}

// noDescriptor is why a socket on an offloaded ring shows none: what the kernel's socket beside it sends and receives is not the stack's.
func (us *udpSocket) noDescriptor(call string) error {
	if !us.out.on {
		return nil
	}
	return fmt.Errorf("gnet: %s of UDP %v on an offloaded ring, whose datagrams do not pass a descriptor: %w", call, us.local, ErrUnsupportedOp)
}
