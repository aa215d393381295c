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

// Attach takes a socket: into the stack if it can carry it, else onto its shadow alone, with the reason in its path.
func (d *driver) Attach(s *ring.Socket) error {
	h := ring.HandleOf(s)
	if h.Kind != ring.KindDatagram {
		return noTCP()
	}
	e := d.table.add(s)
	local := s.LocalAddr()
	switch {
	case h.Adopted:
		e.reasons = append(e.reasons, ring.Reason{Code: "offload.adopted",
			Text: "a socket made elsewhere may have options and memberships that nobody can ask for: the kernel carries it"})
	case !local.Addr().Is4():
		e.reasons = append(e.reasons, ring.Reason{Code: "offload.no_ipv6", Text: "this stack speaks IPv4: the kernel carries the socket"})
	default:
		if err := d.attachToStack(e); err != nil {
			e.s = nil
			return err
		}
	}
	if ring.ConfigOf(s).Timestamps {
		e.stamped = true
		d.stamps++
	}
	return nil
}

// attachToStack puts a socket into the stack.
func (d *driver) attachToStack(e *entry) (err error) {
	if e.id, err = d.udp.Add(d.endpoint(e.s), d.options(e.s)); err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	d.udp.SetStopped(e.id, true) // until Receive
	e.own = true
	e.groups.Open(d.system.Kernel, e.s)
	e.home = d.homeOf(e)
	if err = errors.Join(d.widen(e), d.regroup(e)); err != nil {
		d.udp.Remove(d.now, e.id)
		e.own = false
		return err
	}
	d.transport.Carry(e.s, e.id)
	d.reclaim(e)
	return nil
}

// widen gives the socket's shadow room.
func (d *driver) widen(e *entry) error {
	if d.config.MemoryHost != nil {
		return nil
	}
	why, err := shadow.Widen(d.system.Kernel, e.s)
	if why.Code != "" {
		e.reasons = append(e.reasons, why)
	}
	return err
}

// Follow follows what the application did.
func (d *driver) Follow(s *ring.Socket) error {
	e := d.table.of(s)
	if e == nil || !e.own {
		return nil
	}
	return errors.Join(d.follow(e), e.groups.ApplyFilter())
}

// follow makes what the stack knows of a socket what the socket is. It asks nothing of the kernel but entries of the steering program,
// and the size of a receive buffer that was set.
func (d *driver) follow(e *entry) error {
	if err := d.udp.Change(e.id, d.endpoint(e.s), d.options(e.s)); err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	if e.home == 0 {
		e.home = d.homeOf(e) // connecting gives an address
	}
	err := d.regroup(e)
	d.reclaim(e)
	return err
}

func (d *driver) endpoint(s *ring.Socket) udp.Endpoint {
	h, o := ring.HandleOf(s), ring.OptionsOf(s)
	e := udp.Endpoint{Owner: uint64(h.Gen)<<32 | uint64(h.Slot), Account: h.Account, LocalPort: s.LocalAddr().Port(),
		Interface: uint32(d.nics.Present(s.Device())), ReusePort: o.ReusePort, MulticastAll: o.MulticastAll}
	e.Local, _ = wire.AddrFrom(s.LocalAddr().Addr())
	if r := s.RemoteAddr(); r.IsValid() {
		e.Remote, _ = wire.AddrFrom(r.Addr())
		e.RemotePort = r.Port()
	}
	return e
}

func (d *driver) options(s *ring.Socket) udp.Options {
	o := ring.OptionsOf(s)
	size := o.ReceiveBuffer
	switch {
	case size == 0:
		size = defaultReceiveBuffer
	case d.config.MemoryHost == nil: // net.core.rmem_max bounds what the kernel gave, which is twice the value (socket(7))
		if has, err := d.system.Kernel.ReceiveBuffer(kernel.FD(s)); err == nil {
			size = min(size, has/2)
		}
	}
	return udp.Options{TTL: uint8(o.TTL), TOS: uint8(o.TOS), MulticastTTL: uint8(o.MulticastTTL), MulticastLoop: o.MulticastLoop,
		Broadcast: o.Broadcast, MulticastInterface: o.MulticastInterface, ReceiveBuffer: size}
}

// Receive starts or stops reading. What comes for a socket that is stopped is kept, up to its receive buffer.
func (d *driver) Receive(s *ring.Socket, on bool) error {
	e := d.table.of(s)
	switch {
	case e == nil && !on:
		return nil // closed by its callback: there is nothing left to stop
	case e == nil:
		return fmt.Errorf("offload: receive: socket %d is not attached", s.ID())
	}
	if e.own {
		d.udp.SetStopped(e.id, !on)
		if on && d.udp.Backlogged(e.id) > 0 && !e.resumed {
			e.resumed = true
			d.resumed = append(d.resumed, e)
		}
	}
	return d.shadows.Set(&e.watch, kernel.FD(s), e.slot, e.gen, on)
}

// NotifyWritable asks for one Writable when there is a buffer to send with; on a shadow, when the kernel has room.
func (d *driver) NotifyWritable(s *ring.Socket) error {
	e := d.table.of(s)
	if e == nil {
		return fmt.Errorf("offload: notify writable: socket %d is not attached", s.ID())
	}
	if !e.waiting {
		e.waiting = true
		d.waiters = append(d.waiters, e)
	}
	return nil
}

// Detach lets go of a socket. Packets of it that are on a link come back all the same.
func (d *driver) Detach(s *ring.Socket) bool {
	e := d.table.of(s)
	if e == nil {
		return true
	}
	if e.own {
		d.transport.Drop(s)
		d.udp.Remove(d.now, e.id)
		d.claims.ReleaseAll(&e.claims)
		if x := d.config.Exchange; x != nil {
			e.groups.Withdraw(x.watcher, d.keyOf(e))
		}
		d.forgetPort(e)
		d.forgetSends(e)
	}
	if e.stamped {
		d.stamps--
	}
	d.shadows.Remove(&e.watch)
	e.groups.Close()
	*e = entry{sending: e.sending, resumed: e.resumed, waiting: e.waiting, slot: e.slot}
	return true
}
