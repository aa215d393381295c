package offload

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// defaultReceiveBuffer is net.core.rmem_default.
const defaultReceiveBuffer = 212992

// Attach adds a socket to the ring: to the stack if the stack can carry it, else to the list of shadows alone, with the reason in its path.
func (d *driver) Attach(s *ring.Socket) error {
	h := ring.HandleOf(s)
	if h.Kind != ring.KindDatagram {
		return d.attachStream(s)
	}
	e := d.table.add(s)
	local := s.LocalAddr()
	switch {
	case h.Adopted:
		e.reasons = append(e.reasons, ring.Reason{Code: "offload.adopted",
			Text: "a socket made elsewhere may have options and memberships that nobody can ask for: the kernel carries it"})
	case !local.Addr().Is4():
		e.reasons = append(e.reasons, noIPv6)
	default:
		if err := d.attachToStack(e); err != nil {
			e.s = nil // the slot is empty; table.add clears the rest
			return err
		}
	}
	if ring.ConfigOf(s).Timestamps {
		e.stamped = true
	}
	return nil
}

// attachToStack adds a socket to UDP's table, joins its groups there, gives it the stack's transport and claims its flows. On an error the stack
// does not have it.
func (d *driver) attachToStack(e *entry) (err error) {
	if e.id, err = d.udp.Add(d.endpoint(e.s), d.options(e.s)); err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	d.udp.StopDelivery(e.id) // until SetReceiving
	e.inStack = true
	e.groups.Open(d.below.system.Kernel, e.s)
	e.boundIf = d.boundInterface(e)
	if err = errors.Join(d.widen(e), d.stopDropReports(e), d.updateMemberships(e)); err != nil {
		d.udp.Remove(d.turn.now, e.id)
		e.inStack = false
		return err
	}
	d.transport.Carry(e.s, e.id)
	d.updateClaims(e)
	return nil
}

// widen enlarges the receive buffer of the socket's shadow; the reason goes into the path where that is not permitted.
func (d *driver) widen(e *entry) error {
	if d.below.memoryHost != nil {
		return nil
	}
	why, err := shadow.Widen(d.below.system.Kernel, e.s)
	if why.Code != "" {
		e.reasons = append(e.reasons, why)
	}
	return err
}

// stopDropReports ends the kernel's reports of the datagrams that it sends for a socket of the stack and drops (ring.Config.ReportDrops). Its
// frames have none, and with the reports the answer of the network to one datagram would be the failure of the next that the kernel sends.
func (d *driver) stopDropReports(e *entry) error {
	if r, ok := d.below.transport.(ring.DropReporter); ok {
		return r.StopDropReports(e.s)
	}
	return nil
}

// SocketChanged is called by the transport when the application has changed the socket's addresses or options: the stack and the claims follow.
func (d *driver) SocketChanged(s *ring.Socket) error {
	e := d.table.of(s)
	if e == nil || !e.inStack {
		return nil
	}
	return errors.Join(d.updateSocket(e), e.groups.ApplyFilter())
}

// updateSocket brings UDP's table, memberships and claims up to date with the socket. Of the kernel it asks only entries of the steering
// program, and the size of a receive buffer that was set.
func (d *driver) updateSocket(e *entry) error {
	if err := d.udp.Change(e.id, d.endpoint(e.s), d.options(e.s)); err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	if e.boundIf == 0 {
		e.boundIf = d.boundInterface(e) // connecting gives an address
	}
	err := d.updateMemberships(e)
	d.updateClaims(e)
	return err
}

// endpoint is the socket's addresses, account and port options, as UDP's table wants them.
func (d *driver) endpoint(s *ring.Socket) udp.Endpoint {
	h, o := ring.HandleOf(s), ring.OptionsOf(s)
	e := udp.Endpoint{Owner: uint64(h.Gen)<<32 | uint64(h.Slot), Account: h.Account, LocalPort: s.LocalAddr().Port(),
		Interface: uint32(d.nics.CurrentIndex(s.Device())), ReusePort: o.ReusePort, MulticastAll: o.MulticastAll}
	e.Local, _ = wire.AddrFrom(s.LocalAddr().Addr())
	if r := s.RemoteAddr(); r.IsValid() {
		e.Remote, _ = wire.AddrFrom(r.Addr())
		e.RemotePort = r.Port()
	}
	return e
}

// options are the socket's options, as UDP wants them. The receive buffer is the smaller of what the application asked for and what the kernel
// has given its shadow.
func (d *driver) options(s *ring.Socket) udp.Options {
	o := ring.OptionsOf(s)
	size := o.ReceiveBuffer
	switch {
	case size == 0:
		size = defaultReceiveBuffer
	case d.below.memoryHost == nil: // net.core.rmem_max bounds what the kernel gave, which is twice the value (socket(7))
		if has, err := d.below.system.Kernel.ReceiveBuffer(kernel.FD(s)); err == nil {
			size = min(size, has/2)
		}
	}
	ttl := uint8(o.TTL)
	if ttl == 0 { // not set
		ttl = d.config.TTL
	}
	return udp.Options{TTL: ttl, TOS: uint8(o.TOS), MulticastTTL: uint8(o.MulticastTTL), MulticastLoop: o.MulticastLoop,
		Broadcast: o.Broadcast, MulticastInterface: o.MulticastInterface, ReceiveBuffer: size}
}

// SetReceiving starts or stops reading. Datagrams for a socket that is stopped are kept, up to its receive buffer, and delivered when it starts
// again.
func (d *driver) SetReceiving(s *ring.Socket, on bool) error {
	if d.hasStream(s) {
		return d.receiveStream(s, on)
	}
	e := d.table.of(s)
	switch {
	case e == nil && !on:
		return nil // closed by its callback: there is nothing left to stop
	case e == nil:
		return fmt.Errorf("offload: receive: socket %d is not attached", s.ID())
	}
	switch {
	case !e.inStack:
	case !on:
		d.udp.StopDelivery(e.id)
	case !d.udp.StartDelivery(e.id) && !e.resumed: // deliverBacklogs empties the backlog first
		e.resumed = true
		d.resumed = append(d.resumed, e)
	}
	return d.shadows.SetWatched(&e.watch, kernel.FD(s), e.slot, e.gen, on)
}

// NotifyWritable asks for one Writable when there is a buffer to send with. Where it was the kernel that had no room, the Writable comes with
// the next turn all the same: the list of shadows does not report room for sends.
func (d *driver) NotifyWritable(s *ring.Socket) error {
	if d.hasStream(s) {
		return d.notifyStreamWritable(s)
	}
	e := d.table.of(s)
	if e == nil {
		return fmt.Errorf("offload: notify writable: socket %d is not attached", s.ID())
	}
	d.sending.await(e)
	return nil
}

// Detach removes a socket from the stack, the claims and the list of shadows. Always done at once: packets of it that a link still has are
// completed as others are.
func (d *driver) Detach(s *ring.Socket) bool {
	if d.hasStream(s) {
		d.detachStream(s)
		return true
	}
	e := d.table.of(s)
	if e == nil {
		return true
	}
	if e.inStack {
		d.transport.Drop(s)
		d.udp.Remove(d.turn.now, e.id)
		d.claims.ReleaseAll(&e.claims) // the kernel gets what comes later, for the shadow that Close closes
		if w := d.others.watcher; w != nil {
			e.groups.Withdraw(w, d.keyOf(e))
		}
		d.withdrawPort(e)
		d.withdrawGroupFlows(e)
	}
	d.shadows.Remove(&e.watch)
	e.groups.Close()
	d.table.remove(e)
	return true
}
