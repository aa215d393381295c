package offload

import (
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
)

// portUse is a socket of ours whose port others may have as well: SO_REUSEPORT or SO_REUSEADDR is set. A claim takes all datagrams of its flow, so
// where a foreign socket has the port too, on the same address or on one that ours has among others, the kernel is left to choose between them
// as it does without us. Foreign are the sockets that the exchange does not know, those of this process on kernel rings among them.
type portUse struct {
	inode uint64
	local [4]byte // zero: all addresses
	port  uint16
	iface uint32 // that ours is tied to; 0: to none

	broadcast bool // local is a broadcast address: every socket with the port receives its datagrams
}

// sharedPorts are those that foreign sockets have too. It is never changed.
type sharedPorts map[portUse]struct{}

// meets tells whether the kernel gives datagrams to a foreign socket that ours would take from it. Of two sockets the one with the more precise
// address has them, so a foreign one on all addresses loses nothing to one of ours that names its own. A
// broadcast is for both.
func (p *portUse) meets(b *host.Bound) bool {
	return b.Port == p.port && (p.local == [4]byte{} || b.Local == p.local || p.broadcast && b.Local == [4]byte{}) && !(p.iface != 0 && b.Interface != 0 && p.iface != b.Interface) &&
		!groupOf(b.Local)
}

func groupOf(a [4]byte) bool { return a[0]>>4 == 14 }

// tellPort notes a socket whose port may be shared, or that it is none any more.
func (d *driver) tellPort(e *entry) {
	x := d.config.Exchange
	if x == nil {
		return
	}
	o, at := e.s.Settings(), e.s.LocalAddr()
	if !e.own || !o.ReusePort && !o.ReuseAddr || at.Addr().IsMulticast() {
		d.forgetPort(e)
		return
	}
	u := portUse{inode: e.inode(), local: at.Addr().As4(), port: at.Port(), iface: uint32(d.nics.Present(e.s.Device())),
		broadcast: isBroadcast(x.config.Host.Snapshot(), at.Addr())}
	if u == e.port {
		return
	}
	e.port = u
	f := &x.foreign
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ports == nil {
		f.ports = map[memberKey]portUse{}
	}
	f.ports[memberKey{d.number, e.slot}] = u
	f.lookSoon(x)
}

// isBroadcast tells whether an address is a broadcast address of an interface.
func isBroadcast(s *host.Snapshot, a netip.Addr) bool {
	return slices.ContainsFunc(s.Links(), func(l host.Link) bool { return s.IsBroadcast(l.Index, a) })
}

// forgetPort undoes tellPort.
func (d *driver) forgetPort(e *entry) {
	if e.port == (portUse{}) {
		return
	}
	e.port = portUse{}
	f := &d.config.Exchange.foreign
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ports, memberKey{d.number, e.slot})
}

// sharesPort tells whether a foreign socket has the port too.
func (d *driver) sharesPort(e *entry) bool {
	_, ok := d.sharedPorts[e.port]
	return ok
}

// cedesPort tells whether the socket's own address is left to the kernel for that: not by sockets that must be offloaded.
func (d *driver) cedesPort(e *entry) bool { return d.sharesPort(e) && !e.s.Config().RequireOffload }

var (
	sharedPort = ring.Reason{Code: "udp.port_shared", Text: "another socket of this host has the port too (SO_REUSEPORT): the kernel chooses " +
		"who gets a datagram, because one that is redirected does not reach the other"}
	keptPort = ring.Reason{Code: "udp.port_kept", Text: "another socket of this host has the port too (SO_REUSEPORT): it gets nothing of what " +
		"comes by an offloaded interface, because this socket requires offload"}
)

// portReasons are what a socket's path says of a shared port.
func (d *driver) portReasons(e *entry) []ring.Reason {
	switch {
	case !d.sharesPort(e):
		return nil
	case e.s.Config().RequireOffload:
		return []ring.Reason{keptPort}
	}
	return []ring.Reason{sharedPort}
}

// reviewPorts takes over which ports are shared: claims are given back and made, and sockets are told whose way has changed.
func (d *driver) reviewPorts(now sharedPorts) {
	before := d.sharedPorts
	d.sharedPorts = now
	d.table.each(func(e *entry) {
		_, was := before[e.port]
		if _, is := now[e.port]; was == is {
			return
		}
		d.reclaim(e)
		e.moved, d.moved = true, true
	})
	d.shadow.now = true
	d.stats.PathChanges++
}
