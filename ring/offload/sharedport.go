package offload

import (
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// publishPort tells the exchange's watcher that a socket's port may be shared (SO_REUSEPORT, SO_REUSEADDR), so that it looks for other sockets
// with it, or that it may not be shared any more.
func (d *driver) publishPort(e *entry) {
	w := d.others.watcher
	if w == nil {
		return
	}
	o, at := ring.OptionsOf(e.s), e.s.LocalAddr()
	if !e.inStack || !o.ReusePort && !o.ReuseAddr || at.Addr().IsMulticast() { // publishMembers does it for a group
		d.withdrawPort(e)
		return
	}
	u := shadow.PortUse{Inode: d.inode(e), Local: at.Addr().As4(), Port: at.Port(), IfIndex: uint32(d.nics.CurrentIndex(e.s.Device())),
		Broadcast: isBroadcast(d.below.snapshot(), at.Addr()), Strangers: d.config.ThreeTuple && e.s.RemoteAddr().IsValid()}
	if u == e.publishedPort {
		return
	}
	e.publishedPort = u
	w.SetPort(d.keyOf(e), u)
}

// isBroadcast reports whether an address is a broadcast address of an interface.
func isBroadcast(s *host.Snapshot, a netip.Addr) bool {
	return slices.ContainsFunc(s.Links(), func(l host.Link) bool { return s.IsBroadcast(l.Index, a) })
}

// withdrawPort undoes publishPort.
func (d *driver) withdrawPort(e *entry) {
	if e.publishedPort == (shadow.PortUse{}) {
		return
	}
	e.publishedPort = shadow.PortUse{}
	d.others.watcher.RemovePort(d.keyOf(e))
}

// sharesPort reports whether another socket of this host has the port too.
func (d *driver) sharesPort(e *entry) bool {
	_, ok := d.others.known.Ports[e.publishedPort]
	return ok
}

// leavesPortToKernel reports whether the socket's address is not claimed because another socket has the port too. A socket with RequireOffload
// claims it all the same.
func (d *driver) leavesPortToKernel(e *entry) bool {
	return d.sharesPort(e) && !ring.ConfigOf(e.s).RequireOffload
}

var (
	sharedPort = ring.Reason{Code: "udp.port_shared", Text: "another socket of this host has the port too (SO_REUSEPORT): the kernel chooses " +
		"who gets a datagram, because one that is redirected does not reach the other"}
	keptPort = ring.Reason{Code: "udp.port_kept", Text: "another socket of this host has the port too (SO_REUSEPORT): it gets nothing of what " +
		"comes by an offloaded interface, because this socket requires offload"}
)

// portReasons are the reasons in a socket's path for a port that is shared.
func (d *driver) portReasons(e *entry) []ring.Reason {
	switch {
	case !d.sharesPort(e):
		return nil
	case ring.ConfigOf(e.s).RequireOffload:
		return []ring.Reason{keptPort}
	}
	return []ring.Reason{sharedPort}
}

// reviewPorts is called when the watcher has found other shared ports than before: claims follow, and sockets whose path has changed receive
// PATH. before is the state until now.
func (d *driver) reviewPorts(before *shadow.OtherSockets) {
	d.table.each(func(e *entry) {
		_, was := before.Ports[e.publishedPort]
		if _, is := d.others.known.Ports[e.publishedPort]; was == is {
			return
		}
		d.updateClaims(e)
		d.paths.note(e)
	})
	d.shadows.LookSoon()
	d.stats.PathChanges++
}
