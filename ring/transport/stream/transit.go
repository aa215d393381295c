package stream

import (
	"bytes"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Transit holds connections that AcceptTo was offered by one ring, until another ring adopts them. They have no descriptor: a number of
// the transit takes its place. While a connection is here no ring has it. What its peer sends meanwhile is kept, and processed by the ring
// that adopts it, so that no byte and no reset is lost. Any goroutine.
//
//	listener's ring    Offer ─► AcceptTo(number) ─► false: TakeBack
//	                                  │ true
//	program                           ├─► Set.Adopt(number), on any ring of the exchange
//	                                  └─► Refuse(number): the listener's ring resets it
type Transit struct {
	directory *tcp.Directory // of the rings; nil: there is one
	count     atomic.Int32   // of parcels

	mu    sync.Mutex
	last  ring.Conn
	all   map[ring.Conn]*parcel
	flows map[[2]tcp.Endpoint]*parcel // of those that are not over

	adopters     map[*Transport]struct{} // rings that have adopted a connection
	closing      map[tcp.Endpoint]int    // ports of closed listeners, and how many rings have not left them yet
	closingCount atomic.Int32            // the sum of closing
}

// TransitBase is the first number of a connection in transit. Those of descriptors and of connections on a ring are smaller.
const TransitBase = ConnBase + 1<<29

const (
	transitNumbers = 1 << 28  // all of them fit ring.Conn, which has 31 bits for them
	lateBytes      = 64 << 10 // that a peer may have sent beyond what was received: at most the first window
	latePackets    = 128
)

// parcel is a connection in transit.
type parcel struct {
	child     tcp.Child
	device    int32
	data      []byte // received in order
	ended     bool   // FIN was behind data
	failed    tcp.Reason
	late      [][]byte // IPv4 packets that came meanwhile
	lateBytes int
	origin    *Transport
	isLeaving bool // a ring is adopting it

	isPortClosed bool // its listener was closed meanwhile; under the transit's lock
}

func (p *parcel) flow() [2]tcp.Endpoint { return [2]tcp.Endpoint{p.child.Local, p.child.Remote} }

// NewTransit makes one that is empty, for the rings of a directory, or, with nil, for one ring.
func NewTransit(d *tcp.Directory) *Transit {
	return &Transit{directory: d, all: map[ring.Conn]*parcel{}, flows: map[[2]tcp.Endpoint]*parcel{}, adopters: map[*Transport]struct{}{},
		closing: map[tcp.Endpoint]int{}}
}

// Len is how many connections are in transit.
func (x *Transit) Len() int { return int(x.count.Load()) }

// Inspect describes a connection for Set.Adopt. The error is EBADF for a number of none.
func (x *Transit) Inspect(number ring.Conn) (ring.Adopted, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.all[number]
	if p == nil {
		return ring.Adopted{}, syscall.EBADF
	}
	return ring.Adopted{Conn: number, Kind: ring.KindStream, Family: ring.IPv4, Local: p.child.Local.AddrPort(), Remote: p.child.Remote.AddrPort(),
		Device: int(p.device)}, nil
}

// Refuse resets a connection that nobody is to have. The error is EBADF for a number of none.
func (x *Transit) Refuse(number ring.Conn) error {
	x.mu.Lock()
	p := x.all[number]
	if p == nil || p.isLeaving {
		x.mu.Unlock()
		return syscall.EBADF
	}
	x.remove(number, p)
	t := p.origin
	if t.requests.isClosed {
		x.forget(p)
		x.mu.Unlock()
		return nil
	}
	t.requests.refuse(p)
	x.mu.Unlock()
	t.host.WakeOwner()
	return nil
}

// adopting notes that a ring is to have a connection in transit, and that it claims the port of the listener for it: ports tells the ring when
// that listener is closed. isClosed: it is closed already, and the connection needs a claim of its own.
func (x *Transit) adopting(t *Transport, p *parcel) (isClosed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.adopters[t] = struct{}{}
	return p.isPortClosed
}

// closePort is called before a listener is closed. From then on a SYN to its port is dropped instead of refused (leavesPort): its client sends
// it again, and it reaches the kernel. leavePort is to follow.
func (x *Transit) closePort(local tcp.Endpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.all {
		p.isPortClosed = p.isPortClosed || isOfPort(p.child.Local, local)
	}
	x.closing[local]++
	x.closingCount.Add(1)
}

// leavePort is called when a listener is closed, and the one below, too: the rings that have adopted connections of it leave the port to the
// kernel, each in its next Report. portLeft follows for each.
func (x *Transit) leavePort(local tcp.Endpoint) {
	for _, t := range x.askAdopters(local) {
		t.host.WakeOwner() // not under mu: a ring that is being closed holds what this waits for, and calls closeRing
	}
}

// askAdopters is leavePort without waking the rings, which it returns.
func (x *Transit) askAdopters(local tcp.Endpoint) (list []*Transport) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for t := range x.adopters {
		t.requests.leavePort(local)
		x.closing[local]++
		x.closingCount.Add(1)
		list = append(list, t)
	}
	x.portLeft(local)
	return list
}

// portLeft ends one closePort, or the part of one ring in leavePort. The caller holds mu.
func (x *Transit) portLeft(local tcp.Endpoint) {
	x.closingCount.Add(-1)
	if x.closing[local]--; x.closing[local] == 0 {
		delete(x.closing, local)
	}
}

// leavesPort reports whether a port is being left to the kernel by rings that have adopted connections of it.
func (x *Transit) leavesPort(local tcp.Endpoint) bool {
	if x.closingCount.Load() == 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closing[local] > 0 || x.closing[tcp.Endpoint{Port: local.Port}] > 0
}

// isOfPort reports whether a listener on port, whose address may be any, accepts connections to local.
func isOfPort(local, port tcp.Endpoint) bool {
	return local == port || port.Addr == (wire.Addr{}) && local.Port == port.Port
}

// Keep keeps a verified segment for a connection in transit; false: none of that flow is in transit. What is too much is lost, as on the wire.
func (x *Transit) Keep(local, remote tcp.Endpoint, packet []byte) bool {
	if x.count.Load() == 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.flows[[2]tcp.Endpoint{local, remote}]
	if p == nil {
		return false
	}
	if len(p.late) < latePackets && p.lateBytes+len(packet) <= lateBytes {
		p.late = append(p.late, bytes.Clone(packet))
		p.lateBytes += len(packet)
	}
	return true
}

// Has reports whether a connection is in transit that is not over.
func (x *Transit) Has(local, remote tcp.Endpoint) bool {
	if x.count.Load() == 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.flows[[2]tcp.Endpoint{local, remote}] != nil
}

// hasFrom reports whether a connection is in transit that a listener on local has accepted, or might have.
func (x *Transit) hasFrom(local tcp.Endpoint) bool {
	if x.count.Load() == 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.all {
		if isOfPort(p.child.Local, local) {
			return true
		}
	}
	return false
}

// put enters a connection that export takes out of its table, and returns its number. Under the lock, so that a ring that reads the directory
// meanwhile waits in Keep.
func (x *Transit) put(export func() (*parcel, error)) (ring.Conn, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, err := export()
	if err != nil {
		return 0, err
	}
	number := ring.Conn(0)
	for number == 0 || x.all[number] != nil {
		x.last = (x.last + 1) % transitNumbers
		number = TransitBase + x.last
	}
	x.all[number] = p
	if !p.child.Failed() { // no segment is kept for one that has failed
		x.flows[p.flow()] = p
	}
	x.count.Add(1)
	return number, nil
}

// remove undoes put. With the lock.
func (x *Transit) remove(number ring.Conn, p *parcel) {
	delete(x.all, number)
	if !p.child.Failed() {
		delete(x.flows, p.flow())
	}
	x.count.Add(-1)
}

// begin reserves a connection for the ring that adopts it; nil: there is none. cancel or finish is to follow.
func (x *Transit) begin(number ring.Conn) *parcel {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.all[number]
	if p == nil || p.isLeaving {
		return nil
	}
	p.isLeaving = true
	return p
}

// cancel leaves the connection where it is.
func (x *Transit) cancel(p *parcel) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.isLeaving = false
}

// forget ends a connection that no ring can reset any more: its peer's next segment is answered with a reset, as one of no connection.
func (x *Transit) forget(p *parcel) {
	if x.directory != nil {
		x.directory.Remove(p.child.Local, p.child.Remote, tcp.InTransit)
	}
}

// closeRing is called when a ring is closed: connections that it accepted and that nobody is to have are forgotten from then on.
func (x *Transit) closeRing(t *Transport) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t.requests.isClosed = true
	delete(x.adopters, t)
	refused, ports := t.requests.take()
	for _, local := range ports {
		x.portLeft(local)
	}
	for _, p := range refused {
		x.forget(p)
	}
}

// finish ends the transit: the directory names the ring that has adopted the connection. It returns the packets that came meanwhile.
func (x *Transit) finish(number ring.Conn, p *parcel) (late [][]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(number, p)
	return p.late
}
