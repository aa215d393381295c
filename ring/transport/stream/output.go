package stream

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// TokenBit is set in the tokens of frames that the transport wants back (Completed). The driver's own have it clear.
const TokenBit = uint64(1) << 63

// Output makes frames of what is to be sent, as many as the links have room for.
func (t *Transport) Output() {
	now := t.clock()
	for t.ip.Queued() < t.queueLimit && t.table.Output(now, &t.segment) {
		if t.segment.Payload.Length > 0 { // before it leaves: a reset from a record that is behind the peer would not take
			t.advanceFlow(&t.segment)
		}
		if t.segment.Again {
			t.countAgain(t.segment.Conn)
		}
		t.emit(now, &t.segment)
	}
}

// emit makes a frame of a segment and sends it over the link of its route, or queues it for loop if the peer is this host. A segment that cannot
// be sent is counted and dropped; TCP retransmits it.
func (t *Transport) emit(now clock.Time, s *tcp.Segment) {
	device := deviceOfUser(s.User) // there may be no record: a reset leaves after its connection
	x := t.findDestination(s.Local.Addr, s.Remote.Addr, s.TOS|byte(s.ECN), s.TTL, device)
	length := s.HeaderLen() + int(s.Payload.Length)
	switch {
	case x.route.Kind == ip.RouteLocal && x.errno == 0:
		t.addLoop(s)
		return
	case x.errno != 0 || x.route.Kind != ip.RouteOverLink && x.route.Kind != ip.RouteAwaitsNeighbour:
		t.stats.NoRoute++
		return
	case wire.IPv4Len+length > int(x.route.MTU):
		t.stats.TooLong++
		t.table.SetPathMTU(now, s.Conn, int(x.route.MTU)) // its retransmission fits
		return
	}
	head := x.route.Header.Len() + s.HeaderLen()
	if s.Payload.Length > 0 && t.emitInPlace(now, s, x, head) {
		return
	}
	packet, frame := t.pool.AllocTransmit(head, int(s.Payload.Length))
	if packet.IsZero() {
		t.stats.NoBuffer++
		return
	}
	if s.Payload.Length > 0 {
		t.stats.Copied++
		copyFrom(frame[head:], t.pieces[s.Payload.Buffer].packet, int(s.Payload.Offset)+int(t.pieces[s.Payload.Buffer].head))
	}
	t.put(s, x, frame)
	t.ip.SendFrame(now, &x.route, packet, 0)
}

// emitInPlace sends a segment from the buffer that its payload is in. False: the link still holds a frame of it, or the segment is a part of
// the buffer, or there is no room for headers.
func (t *Transport) emitInPlace(now clock.Time, s *tcp.Segment, x *destination, head int) bool {
	k := int32(s.Payload.Buffer)
	p := &t.pieces[k]
	if p.isHeld || s.Payload.Offset != 0 || int(s.Payload.Length) != p.packet.Len() || p.packet.NumBuffers() != 1 || p.packet.Headroom() < head {
		return false
	}
	if p.isUnacked {
		t.pool.Retransmit(p.packet)
		p.isUnacked = false
	}
	if _, err := p.packet.Push(head); err != nil {
		return false // cannot be: it is alone, and has the headroom
	}
	p.head, p.isHeld = int32(head), true
	t.stats.InPlace++
	t.put(s, x, p.packet.Bytes())
	t.ip.SendFrame(now, &x.route, p.packet, TokenBit|uint64(k))
	return true
}

// put writes the headers of a segment in front of its payload.
func (t *Transport) put(s *tcp.Segment, x *destination, frame []byte) {
	fragment := wire.Atomic
	if s.MayFrag {
		fragment = wire.Whole
	}
	h := &x.route.Header
	h.Put(frame, t.ip.NextID(), fragment)
	b := frame[h.Len():]
	s.Put(b, h.Pseudo(len(b)), wire.Sum(0).Add(b[s.HeaderLen():]))
}

// copyFrom fills dst with the bytes of a packet from off on, which may lie in several buffers.
func copyFrom(dst []byte, p buffers.Packet, off int) {
	for b := range p.Segments() {
		if off >= len(b) {
			off -= len(b)
			continue
		}
		n := copy(dst, b[off:])
		if dst, off = dst[n:], 0; len(dst) == 0 {
			return
		}
	}
}

// Completed takes back the frame of a token: a link has sent it, or it will not leave.
func (t *Transport) Completed(token uint64) {
	k := int32(token &^ TokenBit)
	p := &t.pieces[k]
	_ = p.packet.Pull(int(p.head)) // it was pushed here
	t.pool.Unacknowledge(p.packet)
	p.head, p.isHeld, p.isUnacked = 0, false, true
	if p.isConfirmed {
		t.awaited--
		t.finish(k)
	}
}

// destinationCount is the size of the cache of destinations: one place for each pair of addresses, by hash, the newest has it.
const destinationCount = 1024

// destination is the route to a peer, with the headers ready.
type destination struct {
	route         ip.Route
	local, remote wire.Addr
	device        int32
	tos, ttl      uint8
	isFound       bool
	errno         ip.Errno // why there is no route
}

// findDestination finds the route of segments with these fields, in the cache or by the stack. Without a route the result's errno is not 0.
func (t *Transport) findDestination(local, remote wire.Addr, tos, ttl uint8, device int32) *destination {
	hash := (remote.Uint32()^local.Uint32()<<7)*0x9e3779b1 ^ uint32(tos)*0x85ebca6b ^ uint32(device)*0xc2b2ae35
	x := &t.destinations[hash>>16%destinationCount]
	if x.isFound && x.remote == remote && x.local == local && x.tos == tos && x.ttl == ttl && x.device == device && t.ip.IsCurrent(&x.route) {
		return x
	}
	*x = destination{local: local, remote: remote, tos: tos, ttl: ttl, device: device, isFound: true}
	x.errno = t.ip.FindRoute(&x.route, &ip.Query{Target: remote, Source: local, Interface: int(device), Protocol: wire.ProtocolTCP, TOS: tos,
		TTL: ttl, FlowHash: hash, Owner: noOwner})
	return x
}

// path is what TCP is told of a route when a connection begins: nothing of one that leads over no link.
func (x *destination) path() tcp.Path {
	if x.errno != 0 || x.route.Kind != ip.RouteOverLink && x.route.Kind != ip.RouteAwaitsNeighbour {
		return tcp.Path{}
	}
	return tcp.Path{MTU: int(x.route.MTU), AdvMSS: int(x.route.AdvMSS)}
}

// userOf is what the table is given for connections and listeners that are tied to an interface: the interface, which each of their segments
// brings.
func userOf(device int32) uint64 { return uint64(device) }

func deviceOfUser(user uint64) int32 { return int32(user) }

// deviceOf is the interface that a listener is tied to, 0 without one or without a listener.
func (t *Transport) deviceOf(id tcp.ListenerID) int32 {
	if id == 0 || int(id) > len(t.byListener) || t.byListener[id-1] == nil {
		return 0
	}
	return t.byListener[id-1].device
}

// noOwner is no socket of the driver's: routes of streams are found for connections that may have none.
const noOwner = ^uint64(0)
