package stream

import (
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// The moves of accepted connections between rings: see Transit. The choice of the ring is the application's, after the connection was accepted
// and with the peer's address. Between AcceptTo and Adopt no ring has the connection, for as long as the application likes. So it is accepted
// by the listener's ring and moves whole, before anything was sent on it.

var _ ring.Offerer = (*Transport)(nil)

// Offer implements ring.Offerer. Connections of the kernel have descriptors.
func (t *Transport) Offer(c ring.Conn) (ring.Conn, error) {
	id := idOf(c)
	if id == tcp.NoID {
		return c, nil
	}
	t.takeEvents()
	return t.transit.put(func() (*parcel, error) { return t.export(id) })
}

// TakeBack implements ring.Offerer.
func (t *Transport) TakeBack(c ring.Conn) (ring.Conn, bool) {
	if c < TransitBase {
		return c, true
	}
	p := t.transit.begin(c)
	if p == nil {
		return 0, false
	}
	id, err := t.importParcel(c, p)
	return connOf(id), err == nil
}

// export takes a connection out of the ring.
func (t *Transport) export(id tcp.ID) (*parcel, error) {
	r := t.record(id)
	child, err := t.table.ExportChild(t.now(), id)
	if err != nil {
		return nil, err
	}
	p := &parcel{child: child, device: r.device, ended: r.flags&hasEnded != 0, origin: t, data: t.backlogs[id]}
	if r.flags&hasFailed != 0 {
		p.failed = r.reason
	}
	for k := r.first; k != none; k = t.arrivals[k].next {
		a := &t.arrivals[k]
		at := len(p.data)
		p.data = append(p.data, make([]byte, a.length)...)
		copyFrom(p.data[at:], a.packet, int(a.off))
	}
	return p, nil // EventGone ends the record
}

// Adopt makes a connection in transit that of a socket, which is on the ring now. Errors: EBADF for a number of none, ENOBUFS; a
// *ring.FeatureError where the ring has no way to the peer. The connection stays in transit then.
func (t *Transport) Adopt(s *ring.Socket) error {
	number := ring.HandleOf(s).Conn
	p := t.transit.begin(number)
	if p == nil {
		return syscall.EBADF
	}
	id, err := t.importParcel(number, p)
	if err != nil {
		return err
	}
	settings := t.table.Settings(id)
	for _, x := range ring.OptionsOf(s).Stream {
		_ = setOption(&settings, x.Option, x.Value)
	}
	_ = t.table.Configure(t.now(), id, settings) // the option's call has checked it
	r := t.record(id)
	r.socket = ring.RefOf(s)
	r.flags |= isOpen
	ring.SetTransport(s, t, connOf(id))
	t.markReady(id, r)
	return nil
}

// importParcel makes a connection in transit one of the ring, without a socket. On an error it stays in transit.
func (t *Transport) importParcel(number ring.Conn, p *parcel) (tcp.ID, error) {
	t.takeEvents() // before a record is made: see there
	now := t.now()
	settings := &p.child.Settings
	x := t.findDestination(p.child.Local.Addr, p.child.Remote.Addr, settings.TOS, settings.TTL, p.device)
	// Without any route for now it is adopted all the same: the route may come back, as for connections that are here already.
	if x.errno == 0 && x.route.Kind == ip.RouteViaKernel {
		t.transit.cancel(p)
		return 0, &ring.FeatureError{Feature: "a connection over an interface of which the ring has no queue", Code: "tcp.no_link"}
	}
	var held int32
	var err error
	if t.transit.adopting(t, p) {
		held, err = t.addHold(p.child.Local.AddrPort(), p.child.Remote.AddrPort(), int(p.device), 0)
	} else {
		held, err = t.holdOf(holdKey{p.child.Local, p.device})
	}
	if err != nil {
		t.transit.cancel(p)
		return 0, err
	}
	id, err := t.table.ImportChild(now, &p.child, userOf(p.device))
	if err != nil {
		t.dropHold(held)
		t.transit.cancel(p)
		return 0, errnoOf(err)
	}
	r := t.newRecord(id)
	r.device, r.hold = p.device, held
	if p.ended {
		r.flags |= hasEnded
	}
	if p.failed != 0 {
		r.flags |= hasFailed
		r.reason = p.failed
	} else {
		t.recordFlow(id)
	}
	if len(p.data) > 0 {
		t.backlogs[id] = p.data
		r.flags |= hasBacklog
	}
	for _, packet := range t.transit.finish(number, p) {
		t.InputCopy(packet)
	}
	t.takeEvents()
	return id, nil
}

// holdKey is what connections that were adopted here rest on together: a claim of their listener's flow.
type holdKey struct {
	local  tcp.Endpoint
	device int32
}

// holdOf is the hold of adopted connections, with one user more.
func (t *Transport) holdOf(key holdKey) (int32, error) {
	if at := t.holds.adopted[key]; at != 0 {
		t.holds.at(at).users++
		return at, nil
	}
	at, err := t.addHold(key.local.AddrPort(), netip.AddrPort{}, int(key.device), 0)
	if err == nil {
		h := t.holds.at(at)
		h.adopted, h.isListeners, t.holds.adopted[key] = key, true, at
	}
	return at, err
}

// requests are what other goroutines want of a ring. All but pending is under the transit's lock.
type requests struct {
	refused     []*parcel      // that are to be reset
	closedPorts []tcp.Endpoint // of listeners of other rings, whose connections were adopted here
	isClosed    bool           // the ring
	pending     atomic.Bool    // there are some
}

// refuse has the ring reset a connection.
func (x *requests) refuse(p *parcel) {
	x.refused = append(x.refused, p)
	x.pending.Store(true)
}

// leavePort has the ring leave the port of a listener that is closed.
func (x *requests) leavePort(local tcp.Endpoint) {
	x.closedPorts = append(x.closedPorts, local)
	x.pending.Store(true)
}

// take empties the lists.
func (x *requests) take() (refused []*parcel, closedPorts []tcp.Endpoint) {
	refused, closedPorts = x.refused, x.closedPorts
	x.refused, x.closedPorts = nil, nil
	x.pending.Store(false)
	return refused, closedPorts
}

// serveRequests does what other goroutines want of this ring: it resets connections that came back from the transit because nobody is to have
// them, and leaves the ports of closed listeners whose connections were adopted here.
func (t *Transport) serveRequests() {
	if !t.requests.pending.Load() {
		return
	}
	t.transit.mu.Lock()
	list, ports := t.requests.take()
	t.transit.mu.Unlock()
	t.takeEvents()
	for _, p := range list {
		if id, err := t.table.ImportChild(t.now(), &p.child, userOf(p.device)); err == nil {
			t.newRecord(id).flags |= isClosed // the event of its end looks for one
			t.table.Abort(t.now(), id)
		} else {
			t.transit.forget(p)
		}
	}
	for _, local := range ports {
		if !t.leavePort(local) {
			t.stats.PortsKept++
		}
		t.transit.mu.Lock()
		t.transit.portLeft(local)
		t.transit.mu.Unlock()
	}
}

// HasRequests reports whether serveRequests has something to do. Any goroutine.
func (t *Transport) HasRequests() bool { return t.requests.pending.Load() }

// deliverBacklog reports what a connection had received before it came to this ring, after a failure also to an application that has stopped
// reading: as Report does with what came later. more: the sink has no room. waits: that, or no buffer is free, or the application has stopped
// reading: what came later is to wait behind it.
func (t *Transport) deliverBacklog(k *ring.Sink, id tcp.ID, r *record, s *ring.Socket) (more, waits bool) {
	for r.flags&isOpen != 0 && r.flags&hasBacklog != 0 {
		data := t.backlogs[id]
		switch {
		case r.flags&(isReading|hasFailed) == 0:
			return false, true
		case k.Room() == 0:
			return true, true
		}
		n := min(len(data), t.pool.Layout().SmallSize)
		i, ok := t.pool.TakeForCopy(buffers.Small)
		if !ok {
			t.unfilled = append(t.unfilled, int32(id))
			return false, true
		}
		headroom := t.pool.Layout().Headroom
		copy(t.pool.Memory(i)[headroom:], data[:n])
		if data = data[n:]; len(data) == 0 {
			delete(t.backlogs, id)
			r.flags &^= hasBacklog
		} else {
			t.backlogs[id] = data
		}
		k.Data(s, t.pool.Fill(i, headroom, n, ring.AccountOf(s)))
	}
	return false, false
}
