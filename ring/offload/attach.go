package offload

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/udp"
)

// defaultReceiveBuffer is net.core.rmem_default.
const defaultReceiveBuffer = 212992

// Attach takes a socket: into the stack if it can carry it, else onto its shadow alone, with the reason in its path.
func (d *driver) Attach(s *ring.Socket) error {
	h := s.Handle()
	if h.Kind != ring.Datagram {
		return noTCP()
	}
	e := d.table.add(s)
	local := s.LocalAddr()
	switch {
	case h.Foreign:
		e.reasons = append(e.reasons, ring.Reason{Code: "offload.adopted",
			Text: "a socket made elsewhere may have options and memberships that nobody can ask for: the kernel carries it"})
	case !local.Addr().Is4():
		e.reasons = append(e.reasons, ring.Reason{Code: "offload.no_ipv6", Text: "this stack speaks IPv4: the kernel carries the socket"})
	default:
		if err := d.carry(e); err != nil {
			e.s = nil
			return err
		}
	}
	if s.Config().Timestamps {
		e.stamped = true
		d.stamps++
	}
	return nil
}

// carry puts a socket into the stack.
func (d *driver) carry(e *entry) (err error) {
	if e.id, err = d.stack.Add(d.endpoint(e.s), options(e.s)); err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	d.stack.Stop(e.id, true) // until Receive
	e.own = true
	e.s.Handle().Stack = true
	if err = d.regroup(e); err != nil {
		d.stack.Remove(d.now, e.id)
		e.own, e.s.Handle().Stack = false, false
		return err
	}
	d.reclaim(e)
	return nil
}

// Changed follows what the application did.
func (d *driver) Changed(s *ring.Socket) error {
	e := d.table.of(s)
	if e == nil || !e.own {
		return nil
	}
	if err := d.stack.Change(e.id, d.endpoint(s), options(s)); err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	err := d.regroup(e)
	d.reclaim(e)
	return err
}

func (d *driver) endpoint(s *ring.Socket) udp.Endpoint {
	h, o := s.Handle(), s.Settings()
	e := udp.Endpoint{Owner: uint64(h.Gen)<<32 | uint64(h.Slot), Account: h.Account, LocalPort: s.LocalAddr().Port(),
		Interface: uint32(s.Device()), ReusePort: o.ReusePort, MulticastAll: o.MulticastAll}
	e.Local, _ = wire.AddrFrom(s.LocalAddr().Addr())
	if r := s.RemoteAddr(); r.IsValid() {
		e.Remote, _ = wire.AddrFrom(r.Addr())
		e.RemotePort = r.Port()
	}
	return e
}

func options(s *ring.Socket) stack.Options {
	o := s.Settings()
	size := o.ReceiveBuffer
	if size == 0 {
		size = defaultReceiveBuffer
	}
	return stack.Options{TTL: uint8(o.TTL), TOS: uint8(o.TOS), MulticastTTL: uint8(o.MulticastTTL), MulticastLoop: o.MulticastLoop,
		Broadcast: o.Broadcast, MulticastInterface: o.MulticastInterface, ReceiveBuffer: size}
}

// regroup makes the stack's memberships those of the socket.
func (d *driver) regroup(e *entry) error {
	var want []group
	for _, m := range e.s.Settings().Groups {
		a, ok := wire.AddrFrom(m.Group)
		if !ok {
			continue
		}
		index, err := groupInterface(d.snapshot(), m.Group, m.Interface)
		if err != nil {
			return fmt.Errorf("offload: group %v: %w", m.Group, err)
		}
		g := group{addr: a, iface: uint32(index)}
		if m.Source.IsValid() {
			g.source, _ = wire.AddrFrom(m.Source)
		}
		want = append(want, g)
	}
	var err error
	for _, g := range e.groups {
		if !slices.Contains(want, g) {
			err = errors.Join(err, d.stack.Leave(d.now, e.id, g.addr, g.iface, g.source))
		}
	}
	for _, g := range want {
		if !slices.Contains(e.groups, g) {
			err = errors.Join(err, d.stack.Join(d.now, e.id, g.addr, g.iface, g.source))
		}
	}
	e.groups = want
	return err
}

// Receive starts or stops reading. What comes for a socket that is stopped is kept, up to its receive buffer.
func (d *driver) Receive(s *ring.Socket, on bool) error {
	e := d.table.of(s)
	switch {
	case e == nil && !on:
		return nil // closed by its hook: there is nothing left to stop
	case e == nil:
		return fmt.Errorf("offload: receive: socket %d is not attached", s.ID())
	}
	e.on = on
	if e.own {
		d.stack.Stop(e.id, !on)
		if on && d.stack.Kept(e.id) > 0 && !e.resumed {
			e.resumed = true
			d.resumed = append(d.resumed, e)
		}
	}
	return d.watch(e)
}

// NotifyWritable promises one Writable when there is a buffer to send with; on a shadow, when the kernel has room.
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
		d.stack.Remove(d.now, e.id)
		d.release(e.flows)
	}
	if e.stamped {
		d.stamps--
	}
	e.on = false
	d.unwatchShadow(e)
	*e = entry{sending: e.sending, resumed: e.resumed, waiting: e.waiting, slot: e.slot}
	return true
}

// Claims: a flow is claimed from the links once, however many sockets want it.
type claim struct{ users int }

// reclaim makes the claims those of the socket. One that is refused leaves the packets to the kernel, and so to the shadow.
func (d *driver) reclaim(e *entry) {
	steered := slices.ContainsFunc(d.links, func(l Link) bool { return l.Steering != nil })
	if !steered {
		return
	}
	want := d.flows(e)
	var gone []Flow
	for _, f := range e.flows {
		if !slices.Contains(want, f) {
			gone = append(gone, f)
		}
	}
	e.reasons = slices.DeleteFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "xdp.not_claimed" })
	var have []Flow
	for _, f := range want {
		if slices.Contains(e.flows, f) {
			have = append(have, f)
		} else if err := d.claim(f); err != nil {
			e.reasons = append(e.reasons, ring.Reason{Code: "xdp.not_claimed", Text: err.Error()})
		} else {
			have = append(have, f)
			d.shadow.first = claimTurns
		}
	}
	d.release(gone)
	e.flows = have
}

// flows are what the socket wants to have of the links.
func (d *driver) flows(e *entry) (list []Flow) {
	local, remote := e.s.LocalAddr(), e.s.RemoteAddr()
	if !local.Addr().IsMulticast() {
		list = append(list, Flow{Local: local, Remote: remote})
	}
	for _, g := range e.groups {
		a := netip.AddrFrom4(g.addr)
		if !local.Addr().IsUnspecified() && local.Addr() != a || !d.isLink(int(g.iface)) {
			continue
		}
		f := Flow{Local: netip.AddrPortFrom(a, local.Port())}
		if g.source != ([4]byte{}) {
			f.Remote = netip.AddrPortFrom(netip.AddrFrom4(g.source), 0)
		}
		if !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

func (d *driver) isLink(index int) bool {
	return slices.ContainsFunc(d.links, func(l Link) bool { return l.Index == index })
}

func (d *driver) claim(f Flow) error {
	c := d.claims[f]
	if c != nil {
		c.users++
		return nil
	}
	for i := range d.links {
		if err := d.steer(i, f, Steering.Claim); err != nil {
			for j := range i {
				err = errors.Join(err, d.steer(j, f, Steering.Release))
			}
			return err
		}
	}
	d.claims[f] = &claim{users: 1}
	return nil
}

func (d *driver) release(list []Flow) {
	for _, f := range list {
		c := d.claims[f]
		if c.users--; c.users > 0 {
			continue
		}
		delete(d.claims, f)
		for i := range d.links {
			if d.steer(i, f, Steering.Release) != nil {
				d.stats.ReleaseFailures++
			}
		}
	}
}

// steer claims or releases on one link. Queues of one interface share their steering: it is spoken to once.
func (d *driver) steer(i int, f Flow, do func(Steering, Flow) error) error {
	l := &d.links[i]
	if l.Steering == nil {
		return nil
	}
	for j := range i {
		if d.links[j].Steering == l.Steering && d.links[j].VLAN == l.VLAN {
			return nil
		}
	}
	f.VLAN = l.VLAN
	return do(l.Steering, f)
}
