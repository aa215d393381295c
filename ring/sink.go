package ring

import (
	"net/netip"
	"runtime/debug"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Sink takes a driver's facts during Reap and turns them into completions: straight into the caller's slice where nothing of
// that socket is waiting, through the socket's pending record otherwise.
type Sink struct {
	ring *Ring
	dst  []Completion
	n    int
}

// Room is how many more completions the caller's slice takes. A driver stops reaping at zero: unread packets stay in the kernel's or the link's
// queue, in order.
func (k *Sink) Room() int { return len(k.dst) - k.n }

// Socket finds the socket of a fact; nil when the slot was given to another since.
func (k *Sink) Socket(slot, gen uint32) *Socket {
	return k.ring.slots.find(slot, gen)
}

// Data is a piece of a stream. The sink takes the packet.
func (k *Sink) Data(s *Socket, p buffers.Packet) {
	if s.needsSlowPath() || k.n == len(k.dst) {
		k.deliverSlow(s, p, &Meta{Source: s.remote()}, nil)
		return
	}
	c := &k.dst[k.n]
	k.n++
	c.Source = s.remote()
	c.Destination = s.local()
	c.IfIndex = 0
	c.ViaKernel = false
	c.Time = Stamp{}
	c.Err = nil
	k.fillCompletion(c, s, p)
}

// Datagram is a received datagram. The sink takes the packet.
func (k *Sink) Datagram(s *Socket, p buffers.Packet, m *Meta) {
	var err error
	if m.Truncated {
		k.ring.stats.Truncated++
		err = ErrTruncated
	}
	if m.RawHardware != 0 {
		k.ring.convertHardwareTimestamp(s, m)
	}
	if s.needsSlowPath() || k.n == len(k.dst) {
		k.deliverSlow(s, p, m, err)
		return
	}
	c := &k.dst[k.n]
	k.n++
	c.Source = m.Source
	c.Destination = s.local()
	if m.Destination.IsValid() {
		c.Destination = s.destination(m)
	}
	c.IfIndex = m.IfIndex
	c.ViaKernel = m.ViaKernel
	c.Time = m.Time
	c.Err = err
	k.fillCompletion(c, s, p)
}

// fillCompletion fills in the rest of a packet's completion and hands the packet over. Field by field, all of them: a composite literal is put
// together on the stack and copied, which costs 4 ns.
func (k *Sink) fillCompletion(c *Completion, s *Socket, p buffers.Packet) {
	r := k.ring
	c.Events = EventPacket
	c.UserData = s.userData
	c.Socket = s
	c.Listener = nil
	c.Packet = p
	c.Token = 0
	length, over := r.pool.DeliverTo(p, s.handle.Account)
	r.stats.Packets++
	r.stats.Bytes += uint64(length)
	s.countReceived(r, length, c.ViaKernel)
	if over {
		s.stop(stopBudget)
	}
}

// DropClosed counts a packet whose socket is closed, and releases it.
func (k *Sink) DropClosed(p buffers.Packet) {
	r := k.ring
	r.stats.Packets++
	r.stats.Bytes += uint64(p.Len())
	r.stats.ClosedDrops++
	_ = p.Release()
}

// deliverSlow delivers a packet whose socket has a callback, another mode than Completions, other packets pending, or was closed, and packets
// for which the caller's slice has no room: to the callback, to the caller's slice at once, or to the socket's queue.
func (k *Sink) deliverSlow(s *Socket, p buffers.Packet, m *Meta, err error) {
	r := k.ring
	r.stats.Packets++
	r.stats.Bytes += uint64(p.Len())
	if s.state >= stateDead {
		r.stats.ClosedDrops++
		_ = p.Release()
		return
	}
	s.countReceived(r, p.Len(), m.ViaKernel)
	rec := record{packet: p, source: m.Source, destination: s.destination(m), ifIndex: m.IfIndex, time: m.Time, viaKernel: m.ViaKernel,
		err: err}
	if a := s.active(); a.callback != nil && (a.unseen.n > 0 || s.suspended()) {
		a.unseen.push(&r.slab, rec)
		a.waiting += rec.packet.Len()
		if r.pool.Over(s.handle.Account) {
			s.stop(stopBudget)
		}
		return
	}
	if s.active().callback != nil && !k.runCallback(s, &rec) {
		return
	}
	if s.mode != Completions {
		s.enqueue(r, rec)
		s.raise(EventIn, nil)
	} else if s.ready || s.suspended() || s.announced || k.n == len(k.dst) {
		s.enqueue(r, rec)
	} else {
		r.pool.Deliver(p)
		c := &k.dst[k.n]
		k.n++
		rec.fill(c, s)
	}
	if r.pool.Over(s.handle.Account) {
		s.stop(stopBudget)
	}
}

// runCallback runs the socket's callback on the packet. keep: the packet goes on to the completions or the socket's queue; else the callback has
// taken it, or it was released.
func (k *Sink) runCallback(s *Socket, rec *record) (keep bool) {
	r := k.ring
	r.pool.Deliver(rec.packet) // the callback is the application: the buffer is in its hands for the call
	rec.fill(&r.callbackCompletion, s)
	var x *Traced // taken before the callback, which may release the packet
	if r.tracing != TraceOff {
		x = r.tracedCompletion("", &r.callbackCompletion)
	}
	v := k.callCallback(s)
	r.callbackCompletion = Completion{}
	if v == Keep && s.state >= stateClosing {
		v = Drop // the callback closed its socket: nobody is left to keep it for
	}
	keep = v == Keep && rec.packet.Valid() // a callback that released and kept at once has dropped
	if x != nil && !keep {
		x.What = "callback drop"
		if v == Hold {
			x.What = "callback hold"
		}
		r.tracePacket(x)
	}
	switch v {
	case Keep:
		return keep
	case Hold:
		r.stats.CallbackHolds++
		s.activate().counts.CallbackHolds++
	default:
		r.stats.CallbackDrops++
		s.activate().counts.CallbackDrops++
		if rec.packet.Valid() { // the callback may have released it itself
			_ = rec.packet.Release()
		}
	}
	if r.pool.Over(s.handle.Account) {
		s.stop(stopBudget)
	}
	return false
}

// runCallbackUnseen runs the callback on the packets that came while the socket was suspended, until it suspends or closes the socket again.
func (k *Sink) runCallbackUnseen(s *Socket) {
	a := s.active()
	for a.unseen.n > 0 && !s.suspended() {
		rec := *k.ring.slab.at(a.unseen.head)
		a.unseen.pop(&k.ring.slab)
		a.waiting -= rec.packet.Len()
		if a.callback != nil && !k.runCallback(s, &rec) {
			continue
		}
		a.received.push(&k.ring.slab, rec)
		a.waiting += rec.packet.Len()
		if s.mode != Completions {
			a.flags |= EventIn
		}
	}
}

// callCallback calls the socket's callback and returns its verdict. A panic resets this socket's connection, and a Poll returns it as an
// error. A callback that ends its goroutine (runtime.Goexit, as a failing test does) resets the connection as well; the Poll does not return
// then, but deferred calls of the goroutine may close the ring.
func (k *Sink) callCallback(s *Socket) (v Verdict) {
	returned := false
	defer func() {
		k.ring.inCallback = false
		if returned {
			return
		}
		p := recover()
		k.ring.didNotReturn(s, p)
		v = Drop
		if s.state < stateClosing {
			_ = s.abort()
		}
		if rec := &k.ring.callbackCompletion; p == nil { // the goroutine ends: runCallback does not go on
			if rec.Packet.Valid() {
				_ = rec.Packet.Release()
			}
			*rec = Completion{}
			k.abandonPoll()
		}
	}()
	k.ring.inCallback = true
	v = s.active().callback(s, &k.ring.callbackCompletion)
	returned = true
	return v
}

// abandonPoll ends a Poll whose goroutine ends inside it: the packets that it has delivered are released, because it does not return them.
// Nothing is to be done outside of Poll (Resume): those of the last one are the program's.
func (k *Sink) abandonPoll() {
	if k.dst == nil {
		return
	}
	for i := range k.dst[:k.n] {
		if p := &k.dst[i].Packet; p.Valid() {
			_ = p.Release()
		}
	}
	k.dst = nil
}

// didNotReturn notes that a callback of s panicked with p, or ended its goroutine.
func (r *Ring) didNotReturn(s *Socket, p any) {
	if p == nil {
		p = "runtime.Goexit was called"
	}
	r.stats.CallbackPanics++
	r.fail(&CallbackPanic{Socket: s.ID(), Value: p, Stack: debug.Stack()})
}

// Accepted is a new connection on listener l: the transport's number for it and its peer (zero for a unix-domain one, whose peers have no
// address). The listener's transport is asked for the rest: Accept, or Refuse.
func (k *Sink) Accepted(l *Socket, conn Conn, peer netip.AddrPort) { k.ring.onAccepted(l, conn, peer) }

// Connected reports that a stream is connected, and its local address. The core then asks the driver to receive; data that the peer has sent
// before waits in the transport.
func (k *Sink) Connected(s *Socket, local netip.AddrPort) { s.onConnected(local) }

// AcceptFailed reports that the listener could not accept, as a rule for want of descriptors or memory, and that the driver has
// stopped accepting.
func (k *Sink) AcceptFailed(l *Socket) { k.ring.onAcceptFailed(l) }

// EndOfStream is the peer's FIN.
func (k *Sink) EndOfStream(s *Socket) { s.onEndOfStream() }

// Writable answers NotifyWritable.
func (k *Sink) Writable(s *Socket) { s.onWritable() }

// Failed is an error of the socket: what ended a connection or kept it from being made, or a passing error of a datagram socket.
func (k *Sink) Failed(s *Socket, e syscall.Errno) { s.onFailed(e) }

// Starved reports that receiving stopped because the pool had no buffer; the core restarts it when one came back.
func (k *Sink) Starved(s *Socket) {
	k.ring.stats.Starved++
	s.stop(stopStarved)
}

// Sent returns a transmission that the driver took with TakeTransmission: done, or failed with e.
func (k *Sink) Sent(s *Socket, t Transmission, e syscall.Errno) { s.onSent(t, e) }

// PathChanged reports that Socket.Path has another answer than before.
func (k *Sink) PathChanged(s *Socket) {
	if s.state < stateDead {
		s.happened(HappenedPath, "")
		s.raise(EventPath, nil)
	}
}

// Detached answers a Detach that was not done at once.
func (k *Sink) Detached(s *Socket) { s.onDetached() }
