package offload

import (
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// tellPort notes a socket whose port may be shared, or that it is none any more.
func (d *driver) tellPort(e *entry) {
	x := d.config.Exchange
	if x == nil {
		return
	}
	o, at := ring.OptionsOf(e.s), e.s.LocalAddr()
	if !e.own || !o.ReusePort && !o.ReuseAddr || at.Addr().IsMulticast() {
		d.forgetPort(e)
		return
	}
	u := shadow.PortUse{Inode: d.inode(e), Local: at.Addr().As4(), Port: at.Port(), IfIndex: uint32(d.nics.Present(e.s.Device())),
		Broadcast: isBroadcast(x.config.Host.Snapshot(), at.Addr())}
	if u == e.port {
		return
	}
	e.port = u
	x.watcher.SetPort(d.keyOf(e), u)
}

// isBroadcast reports whether an address is a broadcast address of an interface.
func isBroadcast(s *host.Snapshot, a netip.Addr) bool {
	return slices.ContainsFunc(s.Links(), func(l host.Link) bool { return s.IsBroadcast(l.Index, a) })
}

// forgetPort undoes tellPort.
func (d *driver) forgetPort(e *entry) {
	if e.port == (shadow.PortUse{}) {
		return
	}
	e.port = shadow.PortUse{}
	d.config.Exchange.watcher.RemovePort(d.keyOf(e))
}

// sharesPort reports whether another socket of this host has the port too.
func (d *driver) sharesPort(e *entry) bool {
	_, ok := d.news.Ports[e.port]
	return ok
}

// cedesPort reports whether the socket's own address is left to the kernel for that: not by sockets that must be offloaded.
func (d *driver) cedesPort(e *entry) bool {
	return d.sharesPort(e) && !ring.ConfigOf(e.s).RequireOffload
}

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
	case ring.ConfigOf(e.s).RequireOffload:
		return []ring.Reason{keptPort}
	}
	return []ring.Reason{sharedPort}
}

// reviewPorts follows which ports are shared now: claims are given back and made, and sockets are told whose path has changed. before is
// the news until now.
func (d *driver) reviewPorts(before *shadow.News) {
	d.table.each(func(e *entry) {
		_, was := before.Ports[e.port]
		if _, is := d.news.Ports[e.port]; was == is {
			return
		}
		d.reclaim(e)
		e.moved, d.moved = true, true
	})
	d.shadows.LookSoon()
	d.stats.PathChanges++
}
