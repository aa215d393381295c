package ring

// What drivers and transports that speak a protocol themselves add to the core: work that no socket stands for, windows that open when
// packets are released, and sockets that change their transport.

// ProtocolDriver is a Driver that speaks a protocol itself. What it has to send waits for Flush, so the ring flushes it before it sleeps. It has
// work without a socket: frames on their way, neighbours that are asked, records of connections whose Socket is closed (data that is not
// acknowledged, TIME-WAIT). Arm and Wait honour its own deadlines beside the core's.
type ProtocolDriver interface {
	Driver
	// HasBackground reports that the ring is to be polled though it has no socket.
	HasBackground() bool
}

// Creditor is a Transport whose streams have windows that open when the application releases what was received: the owner, or from Lent.
// The ring asks the pool for it when such a stream gets its account, and calls Credit in Poll, Flush, Arm and Wait, with all that came back
// since.
type Creditor interface {
	Transport
	Credit(s *Socket, bytes int)
}

// hasCredit reports whether takeCredit has something to do: two loads where no transport asks.
func (r *Ring) hasCredit() bool { return r.pool.HasCredit() }

// takeCredit passes the bytes that the application has released to the transports whose windows they open. The rings of one owner share a
// pool, so the stream may be on another ring than r.
func (r *Ring) takeCredit() {
	for {
		c, ok := r.pool.TakeCredit()
		if !ok {
			return
		}
		s := SocketRef(c.Holder).Socket()
		if to, ok := s.transport().(Creditor); ok && s.state < stateGone {
			to.Credit(s, c.Bytes)
			x := s.ring()
			x.idleAccounts.add(x, s)
		}
	}
}

// Acknowledged reports that the peer has confirmed some of what the stream has sent; EventOut follows where SetOutPerAck asked for it.
func (k *Sink) Acknowledged(s *Socket) {
	if s.handle.OutPerAck && s.state == stateOpen {
		s.raise(EventOut, nil)
	}
}

// Move gives a live socket another transport: t has it as c from here on. Order, user data, queues and deadlines stay; what waited for room asks
// again, and EventPath is raised. Its driver calls it when it receives from the new one and not from the old one any more. The new
// connection is as far as the old one was: a write side that was closed stays closed. The old one is the driver's to end; transmissions
// that are under way there are given back with Sent as ever.
func (k *Sink) Move(s *Socket, t Transport, c Conn) {
	if s.state >= stateGone {
		return
	}
	r := s.ring()
	s.setTransport(t, c)
	if err := s.askCredit(); err != nil {
		r.fail(&OpError{Op: "move", Err: err})
	}
	if s.wantOut || s.active().shaper != nil && s.active().shaper.blocked || s.active().files != nil && s.active().files.blocked || s.state == stateConnecting {
		if err := r.drv.NotifyWritable(s); err != nil {
			r.fail(&OpError{Op: "notify writable", Err: err})
		}
	}
	if s.active().sending.hasWaiting() && s.active().shaper == nil && s.state == stateOpen {
		s.transmit()
	}
	k.PathChanged(s)
}
