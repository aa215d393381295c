package ring

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Tracer writes into a log what the sockets of a set do: their calls, and with a Trace's level above TraceOff their packets. It is called on the
// goroutine of the call, as a rule the owner's, and must not poll.
type Tracer interface {
	// TracesCalls reports whether Call is to be called; it is asked once for each call of a socket that is no receive and no send.
	TracesCalls() bool
	// Call is told of a call of s that has returned: its name, what it was given, and its error. With ErrOwner the caller is not the owner, and
	// may read the socket's ID alone.
	Call(s *Socket, name, given string, err error)
	// Packet is told of a packet, or of another event. x is good during the call only.
	Packet(x *Traced)
}

// TraceLevel says how much a Tracer is told of packets.
type TraceLevel uint32

// The levels.
const (
	TraceOff     TraceLevel = iota
	TracePackets            // each completion, each packet that no completion brings, and each send
	TraceBytes              // with the first bytes
)

// Trace is a Tracer with its level. All sets of an owner may have the same one.
type Trace struct {
	tracer Tracer
	level  atomic.Uint32
}

// NewTrace makes a Trace with the level TraceOff.
func NewTrace(t Tracer) *Trace { return &Trace{tracer: t} }

// SetLevel sets what the Tracer is told of packets. A ring looks at it in each Poll that returns completions, and in the one that follows a
// RequestRefresh. Any goroutine.
func (t *Trace) SetLevel(l TraceLevel) { t.level.Store(uint32(l)) }

// noTrace is the Trace of rings whose set has none.
var noTrace = &Trace{}

// Traced is a packet or an event as a Tracer is told of it. Fields that do not apply are zero.
type Traced struct {
	What     string // "completion", "receive", "read", "callback drop", "callback hold", or the call that sends
	Socket   *Socket
	Listener *Socket        // of a new connection
	Events   Event          // of a completion; EventPacket of each packet that was received
	Peer     netip.AddrPort // the packet's source, or where it was sent to; zero for the peer of a connected socket that sends
	Length   int
	Token    uint64
	Err      error
	Bytes    []byte // the first ones, with TraceBytes
}

// tracedBytes is how many bytes of a packet a Tracer is shown.
const tracedBytes = 64

// readTraceLevel looks at the level. Sends and callbacks test what it has found: Polls that return nothing do not pay for it.
func (r *Ring) readTraceLevel() TraceLevel {
	r.tracing = TraceLevel(r.trace.level.Load())
	return r.tracing
}

// callTracer is the Tracer that wants to be told of a call of the socket; nil: none does.
func (s *Socket) callTracer() Tracer {
	if t := s.makerSet().config.Trace; t != nil && t.tracer.TracesCalls() {
		return t.tracer
	}
	return nil
}

// traced tells the Tracer, if calls are traced, of a call that has returned, and returns the call's error. given is what the call was given. It
// is generic so that a call that is not traced makes no interface of given, which allocates.
func traced[T any](s *Socket, name string, given T, err error) error {
	if t := s.callTracer(); t != nil {
		t.Call(s, name, fmt.Sprintf("%+v", given), err)
	}
	return err
}

// tracePacket tells the Tracer of a packet. Nothing is traced meanwhile: a log may be written by a socket of the same ring.
func (r *Ring) tracePacket(x *Traced) {
	level := r.tracing
	r.tracing = TraceOff
	defer func() { r.tracing = level }()
	r.trace.tracer.Packet(x)
}

// traceCompletions tells the Tracer of the completions that a call has filled in.
func (r *Ring) traceCompletions(what string, list []Completion) {
	for i := range list {
		r.tracePacket(r.tracedCompletion(what, &list[i]))
	}
}

// tracedCompletion is a completion as the Tracer is told of it.
func (r *Ring) tracedCompletion(what string, c *Completion) *Traced {
	x := &Traced{What: what, Socket: c.Socket, Listener: c.Listener, Events: c.Events, Peer: c.Source, Token: c.Token, Err: c.Err}
	r.showPacket(x, c.Packet)
	return x
}

// showPacket fills in what a packet has; nothing for the zero packet.
func (r *Ring) showPacket(x *Traced, p buffers.Packet) {
	if !p.Valid() {
		return
	}
	x.Length = p.Len()
	if r.tracing >= TraceBytes {
		x.Bytes = make([]byte, min(x.Length, tracedBytes))
		x.Bytes = x.Bytes[:p.CopyTo(x.Bytes)]
	}
}

// traceRead tells the Tracer of bytes that were copied to the application.
func (s *Socket) traceRead(r *Ring, from netip.AddrPort, b []byte, err error) {
	r.tracePacket(&Traced{What: "read", Socket: s, Events: EventPacket, Peer: from, Length: len(b), Err: err, Bytes: r.firstOf(b)})
}

// traceSend tells the Tracer of a send that has returned, of which n bytes were taken; the bytes are b, or the pieces of bufs.
func (s *Socket) traceSend(r *Ring, call string, b []byte, bufs [][]byte, to netip.AddrPort, n int, err error) {
	x := &Traced{What: call, Socket: s, Peer: to, Length: n, Err: err, Bytes: r.firstOf(b)}
	if r.tracing >= TraceBytes {
		for _, piece := range bufs {
			x.Bytes = append(x.Bytes, piece[:min(len(piece), tracedBytes-len(x.Bytes))]...)
		}
	}
	r.tracePacket(x)
}

// traceSendPacket tells the Tracer of a packet that is to be sent.
func (s *Socket) traceSendPacket(r *Ring, p buffers.Packet, to netip.AddrPort, token uint64) {
	x := &Traced{What: "send packet", Socket: s, Peer: to, Token: token}
	r.showPacket(x, p)
	r.tracePacket(x)
}

// tracedRefusal tells the Tracer of a send that was refused, if packets are traced, and returns the error.
func (s *Socket) tracedRefusal(call string, to netip.AddrPort, err error) error {
	if r := s.ring(); r != nil && r.tracing != TraceOff {
		r.tracePacket(&Traced{What: call, Socket: s, Peer: to, Err: err})
	}
	return err
}

// firstOf is a copy of the first bytes of b, nil below TraceBytes.
func (r *Ring) firstOf(b []byte) []byte {
	if r.tracing < TraceBytes {
		return nil
	}
	return append([]byte(nil), b[:min(len(b), tracedBytes)]...)
}
