package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// Network connects the links of one process by their addresses. Frames to an address that no link has are lost and counted.
type Network struct {
	mu     sync.RWMutex
	routes map[[4]byte]*Link
	seed   uint64
}

// NewNetwork makes a network without links. All randomness in it comes from the seed.
func NewNetwork(seed uint64) *Network { return &Network{routes: map[[4]byte]*Link{}, seed: seed} }

// Impairment is what a link does to the frames that it sends. It may change at any time.
type Impairment struct {
	Hold  time.Duration // so long a descriptor refers to a frame before it is on the wire
	Delay time.Duration // so long it is on the wire
	Loss  float64       // the chance that it does not arrive
	// Lose decides about each frame that Loss has left; nil: none is lost. It runs on the sender's goroutine.
	Lose func(s *protocol.Segment) bool
}

// Link is a host's end of the network. What is sent lies in descriptors, which refer to the sender's memory until the frame is on the wire;
// what arrives lies in slots, as copies, because the hosts may be on different goroutines. The lock of the receiving link is taken for each
// frame.
//
//	Transmit ──► descriptor ──Hold──► wire ──Delay──► slot of the other link ──► Receive
//	                  └──► Completed
type Link struct {
	network *Network
	addrs   [][4]byte
	mtu     int

	tx                 []descriptor // of the owner; from first to next, those before wired are on the wire
	first, wired, next uint32
	txLost, txNowhere  uint64
	random             *rand.Rand

	mu         sync.Mutex // guards what follows
	impairment Impairment
	slots      []slot // from head to tail
	head, tail uint32
	rxFull     uint64
	armed      bool
	wake       func()
	closed     bool
}

type descriptor struct {
	header  [protocol.HeaderLen]byte
	payload []byte
	until   clock.Time
	first   protocol.Seq // of the payload
	token   int32
}

type slot struct {
	at    clock.Time
	n     int
	frame []byte
}

// LinkConfig describes a link.
type LinkConfig struct {
	Addrs       []netip.Addr // of IPv4, at least one
	Descriptors int          // frames that may be on their way out; 0: 512
	Slots       int          // frames that may wait to be received; 0: 1,024
	MTU         int          // largest frame; 0: 1,500
}

// NewLink gives a host its end of the network.
func (n *Network) NewLink(c LinkConfig) (*Link, error) {
	count := func(v *int, or int) { // a power of two
		if *v <= 0 {
			*v = or
		}
		k := 1
		for k < *v {
			k *= 2
		}
		*v = k
	}
	count(&c.Descriptors, 512)
	count(&c.Slots, 1024)
	if c.MTU == 0 {
		c.MTU = 1500
	}
	if c.MTU <= protocol.HeaderLen || c.MTU > 65535 {
		return nil, fmt.Errorf("memory: link: MTU is %d, must be %d to 65535", c.MTU, protocol.HeaderLen+1)
	}
	if len(c.Addrs) == 0 {
		return nil, errors.New("memory: link: no address")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &Link{network: n, mtu: c.MTU, tx: make([]descriptor, c.Descriptors), slots: make([]slot, c.Slots),
		random: rand.New(rand.NewPCG(n.seed, uint64(len(n.routes))))}
	for _, a := range c.Addrs {
		if !a.Is4() || n.routes[a.As4()] != nil {
			return nil, fmt.Errorf("memory: link: address %v is not IPv4, or another link has it", a)
		}
		l.addrs = append(l.addrs, a.As4())
	}
	for _, a := range l.addrs {
		n.routes[a] = l
	}
	return l, nil
}

// HasAddress reports whether the address is one of the link's. Owner only.
func (l *Link) HasAddress(a [4]byte) bool {
	for _, x := range l.addrs {
		if x == a {
			return true
		}
	}
	return false
}

// MSS is the most payload that fits in a frame.
func (l *Link) MSS() int { return l.mtu - protocol.HeaderLen }

// Impair changes what the link does to frames. Any goroutine.
func (l *Link) Impair(i Impairment) {
	l.mu.Lock()
	l.impairment = i
	l.mu.Unlock()
}

// SetWake sets what is called once, on the sender's goroutine, when a frame arrives after Arm.
func (l *Link) SetWake(wake func()) {
	l.mu.Lock()
	l.wake = wake
	l.mu.Unlock()
}

// Transmit puts a frame into a descriptor: the payload must not change until Completed returns the token. False: there is none free.
func (l *Link) Transmit(now clock.Time, s *protocol.Segment, payload []byte, token int32) bool {
	if int(l.next-l.first) == len(l.tx) || l.closed {
		return false
	}
	l.mu.Lock()
	hold := l.impairment.Hold
	l.mu.Unlock()
	d := &l.tx[int(l.next)&(len(l.tx)-1)]
	s.Put(d.header[:])
	d.payload, d.token, d.until, d.first = payload, token, now.Add(hold), s.Seq
	l.next++
	l.Advance(now)
	return true
}

// Holds reports whether a descriptor still refers to some of the n bytes from seq on in the memory of the token.
func (l *Link) Holds(token int32, seq protocol.Seq, n int) bool {
	for i := l.wired; i != l.next; i++ {
		d := &l.tx[int(i)&(len(l.tx)-1)]
		if d.token == token && d.first.Before(seq.Add(n)) && seq.Before(d.first.Add(len(d.payload))) {
			return true
		}
	}
	return false
}

// HasRoom reports whether Transmit would take a frame, once Completed has returned what is done.
func (l *Link) HasRoom() bool { return int(l.next-l.wired) < len(l.tx) }

// Advance puts frames on the wire whose time has come.
func (l *Link) Advance(now clock.Time) {
	for l.wired != l.next {
		d := &l.tx[int(l.wired)&(len(l.tx)-1)]
		if d.until > now {
			return
		}
		l.putOnWire(now, d)
		d.payload = nil
		l.wired++
	}
}

// putOnWire gives the descriptor's frame to the link that has its target address, unless the impairment loses it.
func (l *Link) putOnWire(now clock.Time, d *descriptor) {
	l.mu.Lock()
	i := l.impairment
	l.mu.Unlock()
	lost := i.Loss > 0 && l.random.Float64() < i.Loss
	if !lost && i.Lose != nil {
		s := parseDescriptor(d)
		lost = i.Lose(&s)
	}
	if lost {
		l.txLost++
		return
	}
	l.network.mu.RLock()
	to := l.network.routes[[4]byte(d.header[8:12])]
	l.network.mu.RUnlock()
	if to == nil {
		l.txNowhere++
		return
	}
	to.receiveFrame(now.Add(i.Delay), d.header[:], d.payload)
}

// parseDescriptor returns the header of a descriptor's frame, for Impairment.Lose.
func parseDescriptor(d *descriptor) protocol.Segment {
	whole := append(append([]byte(nil), d.header[:]...), d.payload...)
	s, _, _ := protocol.Parse(whole)
	return s
}

// receiveFrame copies a frame into the next slot, to be received from time at on, and wakes the owner if the link is armed. It runs on the
// sender's goroutine. Without a free slot the frame is lost and counted.
func (l *Link) receiveFrame(at clock.Time, header, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || int(l.tail-l.head) == len(l.slots) || len(header)+len(payload) > l.mtu {
		l.rxFull++
		return
	}
	s := &l.slots[int(l.tail)&(len(l.slots)-1)]
	if s.frame == nil {
		s.frame = make([]byte, l.mtu)
	}
	s.at, s.n = at, copy(s.frame, header)
	s.n += copy(s.frame[s.n:], payload)
	l.tail++
	if l.armed && l.wake != nil {
		l.armed = false
		l.wake()
	}
}

// Completed returns the token of the next frame that is on the wire, whose memory the link does not read any more; false when there is none.
func (l *Link) Completed() (token int32, ok bool) {
	if l.first == l.wired {
		return 0, false
	}
	token = l.tx[int(l.first)&(len(l.tx)-1)].token
	l.first++
	return token, true
}

// Receive returns the oldest frame that has arrived; it is valid until Release. False when there is none.
func (l *Link) Receive(now clock.Time) (frame []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head == l.tail {
		return nil, false
	}
	s := &l.slots[int(l.head)&(len(l.slots)-1)]
	if s.at > now {
		return nil, false
	}
	return s.frame[:s.n], true
}

// Release gives the slot of the last Receive back.
func (l *Link) Release() {
	l.mu.Lock()
	l.head++
	l.mu.Unlock()
}

// Deadline is when Advance or Receive has something to do; clock.Never: not before a frame is sent or the wake function is called.
func (l *Link) Deadline() clock.Time {
	at := clock.Never
	if l.wired != l.next {
		at = l.tx[int(l.wired)&(len(l.tx)-1)].until
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head != l.tail {
		at = min(at, l.slots[int(l.head)&(len(l.slots)-1)].at)
	}
	return at
}

// Arm makes the next frame call the wake function.
func (l *Link) Arm() {
	l.mu.Lock()
	l.armed = true
	l.mu.Unlock()
}

// Disarm ends what Arm began.
func (l *Link) Disarm() {
	l.mu.Lock()
	l.armed = false
	l.mu.Unlock()
}

// Close takes the link off the network. Frames that are not on the wire yet are put there now: after it no descriptor refers to memory, and
// Completed returns all tokens that are left.
func (l *Link) Close() {
	l.Advance(clock.Never)
	l.network.mu.Lock()
	for _, a := range l.addrs {
		delete(l.network.routes, a)
	}
	l.network.mu.Unlock()
	l.mu.Lock()
	l.closed, l.wake = true, nil
	l.mu.Unlock()
}

// LinkStats are totals.
type LinkStats struct {
	Sent            uint64 // frames whose descriptor is done
	Lost, Nowhere   uint64 // by the impairment; to an address that no link has
	ReceiveRingFull uint64
}

// Stats are the totals. Owner only.
func (l *Link) Stats() LinkStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LinkStats{Sent: uint64(l.wired), Lost: l.txLost, Nowhere: l.txNowhere, ReceiveRingFull: l.rxFull}
}
