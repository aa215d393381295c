package ring

// What drivers and transports that speak a protocol themselves add to the core: work that no socket stands for, windows that open when packets are
// released, and sockets that change their transport.

// ProtocolDriver is a Driver that speaks a protocol itself. What it has to send waits for Flush, so the ring flushes it before it sleeps. It has
// work without a socket: frames on their way, neighbours that are asked, records of connections whose Socket is closed (data that is not
// acknowledged, TIME-WAIT). Arm and Wait honour its own deadlines beside the core's.
type ProtocolDriver interface {
	Driver
	// HasBackground reports that the ring is to be polled though it has no socket.
	HasBackground() bool
}

// Creditor is a Transport whose streams have windows that open when the application releases what was received: the owner, or from Lent. The ring asks
// the pool for it when such a stream gets its ring, and calls Credit in Poll, Flush, Arm and Wait, with all that came back since.
type Creditor interface {
	Transport
	Credit(s *Socket, bytes int)
}

// askCredit notes a stream whose transport wants to know what is released.
func (r *Ring) askCredit(s *Socket) error {
	to, ok := s.transport.(Creditor)
	if !ok || s.handle.Kind != KindStream {
		return nil
	}
	if err := r.pool.AskCredit(s.handle.Account); err != nil {
		return err
	}
	x := &r.set.credits
	at := s.handle.Account.Slot()
	for len(x.entries) <= at {
		x.entries = append(x.entries, creditEntry{})
	}
	x.entries[at] = creditEntry{s, to}
	return nil
}

// credits finds the streams of a set by the slots of their accounts.
type credits struct{ entries []creditEntry }

type creditEntry struct {
	s  *Socket
	to Creditor
}

// forgetCredit undoes askCredit; the account is closed.
func (r *Ring) forgetCredit(s *Socket) {
	if x := r.set.credits.entries; s.handle.Account.Slot() < len(x) && x[s.handle.Account.Slot()].s == s {
		x[s.handle.Account.Slot()] = creditEntry{}
	}
}

// hasCredit reports whether takeCredit has something to do: two loads where no transport asks.
func (r *Ring) hasCredit() bool { return len(r.set.credits.entries) > 0 && r.pool.HasCredit() }

// takeCredit passes on what was released. The pool is the owner's, so the stream may be on another ring of the set.
func (r *Ring) takeCredit() {
	x := &r.set.credits
	for {
		c, ok := r.pool.TakeCredit()
		if !ok {
			return
		}
		if at := c.Account.Slot(); at < len(x.entries) {
			if e := &x.entries[at]; e.s != nil && e.s.handle.Account == c.Account && e.s.state < stateGone {
				e.to.Credit(e.s, c.Bytes)
			}
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
// again, and EventPath is raised. Its driver calls it when it receives from the new one and not from the old one any more. The new connection is as
// far as the old one was: a write side that was closed stays closed. The old one is the driver's to end; transmissions that are under way
// there are given back with Sent as ever.
func (k *Sink) Move(s *Socket, t Transport, c Conn) {
	if s.state >= stateGone {
		return
	}
	r := s.ring
	s.setTransport(t, c)
	r.forgetCredit(s)
	if err := r.askCredit(s); err != nil {
		r.fail(&OpError{Op: "move", Err: err})
	}
	if s.wantOut || s.shaper != nil && s.shaper.blocked || s.files != nil && s.files.blocked || s.state == stateConnecting {
		if err := r.drv.NotifyWritable(s); err != nil {
			r.fail(&OpError{Op: "notify writable", Err: err})
		}
	}
	if s.sending.queued() && s.shaper == nil && s.state == stateOpen {
		s.transmit()
	}
	k.PathChanged(s)
}
