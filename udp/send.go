package udp

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Verdict is the result of SendSlow.
type Verdict uint8

// The verdicts.
const (
	Queued    Verdict = iota // it is a frame now, or fragments, or waits to be so; the stack has the packet
	Done                     // the packet is the caller's again, still transmitting: it did not leave this stack
	ViaKernel                // only the socket's descriptor leads there; the packet is the caller's
	Refused                  // the errno says why; the packet is the caller's
	Later                    // too few buffers are free for its fragments; the packet is the caller's, who tries again
)

// Fast is the result of SendFast.
type Fast uint8

// The results of SendFast.
const (
	FastQueued   Fast = iota // it is a frame, which leaves with the next flush
	FastStale                // the route is stale, or the datagram must be fragmented; nothing has happened
	FastNoBuffer             // no buffer is free; nothing has happened
)

// SendFast sends a datagram to a prepared destination: it copies the payload, b or the pieces of bufs, n bytes in all, behind the destination's
// headers and queues the frame. at, serial and head are Prepared.Route, Serial and Head; head must not be 0.
func (u *Protocol) SendFast(now clock.Time, at int32, serial uint32, head int, b []byte, bufs [][]byte, n int) Fast {
	x := &u.destinations[uint32(at)%destinationCount]
	if x.serial != serial || x.checked != *u.generation || n > int(x.whole) {
		return FastStale
	}
	p, frame := u.pool.AllocTransmit(head, n)
	if p.IsZero() {
		return FastNoBuffer
	}
	room := frame[head:]
	copy(room, b)
	for _, piece := range bufs {
		room = room[copy(room, piece):]
	}
	x.head.PutDatagram(&x.route.Header, frame, u.stack.NextID())
	u.stack.QueueFrame(now, &x.route, ip.Out{Packet: p}, senderOf(x.id))
	return FastQueued
}

func senderOf(id ID) ip.Sender { return ip.SenderOf(wire.ProtocolUDP, int32(id)) }

// Recall drops the frames of a socket that SendFast queued and no link has taken yet, and returns how many.
func (u *Protocol) Recall(id ID) int { return u.stack.Recall(senderOf(id)) }

// SendSlow sends the payload p, which is transmitting and in one buffer. at is the destination's place (Prepared.Route), which
// is found again if another one has the place by now. token is given back with the frame (see ip.Out and ip.Failure), or with each
// fragment (ip.Stack.SendFragments); 0 for those whose end is not reported.
func (u *Protocol) SendSlow(now clock.Time, id ID, at int32, to wire.Addr, port uint16, p buffers.Packet, token uint64) (Verdict, ip.Errno) {
	x := &u.destinations[uint32(at)%destinationCount]
	if !u.isCurrent(x, id, to, port) {
		r, e := u.Prepare(now, id, to, port)
		if e != 0 {
			return Refused, e
		}
		x = &u.destinations[r.Route]
	}
	n := p.Len()
	switch {
	case x.errno != 0:
		return Refused, x.errno
	case n > u.limit(x):
		return Refused, ip.EMSGSIZE
	case x.route.Kind == ip.RouteViaKernel, n > int(x.whole) && !x.route.FragmentsHere:
		return ViaKernel, 0
	}
	if n > int(x.whole) && x.route.Kind != ip.RouteLocal {
		switch u.stack.FragmentRoom(&x.route, wire.UDPLen+n) {
		case ip.FragmentsNever:
			return Refused, ip.EMSGSIZE
		case ip.FragmentsWait:
			if x.route.Kind == ip.RouteOverLink { // else it waits for its neighbour first, in one piece
				return Later, 0
			}
		}
	}
	if x.route.Loop {
		u.queueLooped(x, p.Bytes())
	}
	switch {
	case x.route.Kind == ip.RouteLocal:
		return Done, 0
	case n > int(x.whole):
		return u.sendFragments(now, x, p, token)
	}
	if _, err := p.Push(x.headLen()); err != nil {
		return Refused, ip.ENOBUFS // less headroom than headers: a packet that had been pushed to before
	}
	x.head.PutDatagram(&x.route.Header, p.Bytes(), u.stack.NextID())
	u.stack.SendFrame(now, &x.route, p, token)
	return Queued, 0
}

// HasNeverRoom reports whether a datagram of n bytes to a prepared destination must leave in more fragments than there are ever buffers for. at
// and serial are Prepared.Route and Serial.
func (u *Protocol) HasNeverRoom(at int32, serial uint32, n int) bool {
	x := &u.destinations[uint32(at)%destinationCount]
	return n > int(x.whole) && x.serial == serial && x.route.FragmentsHere && (x.route.Kind == ip.RouteOverLink || x.route.Kind == ip.RouteAwaitsNeighbour) &&
		u.stack.FragmentRoom(&x.route, wire.UDPLen+n) == ip.FragmentsNever
}

// sendFragments sends a datagram that is longer than the MTU. p is the payload.
func (u *Protocol) sendFragments(now clock.Time, x *destination, p buffers.Packet, token uint64) (Verdict, ip.Errno) {
	if _, err := p.Push(wire.UDPLen); err != nil {
		return Refused, ip.ENOBUFS // less headroom than headers: a packet that had been pushed to before
	}
	datagram := p.Bytes()
	x.head.PutTransport(datagram, wire.Sum(0).Add(datagram[wire.UDPLen:]))
	if !u.stack.SendFragments(now, &x.route, p, token) {
		_ = p.Pull(wire.UDPLen) // it was pushed here
		return Refused, ip.ENOBUFS
	}
	return Queued, 0
}
