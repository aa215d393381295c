package offload

import (
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// shadows are the kernel's side of the sockets.
type shadows struct {
	shadow.List
	tookAll   bool                  // they used all the room of the turn: the next turn reads the links alone
	readingID udp.ID                // socket whose shadow is being read, see isNotJoined
	refuse    func(*ring.Meta) bool // isNotJoined
}

// openShadows makes the list of the sockets' shadows.
func (d *driver) openShadows() error {
	d.shadows.refuse = d.isNotJoined // made once: a method value is an allocation
	return d.shadows.Open(d.below.system.Kernel, d.pool, d.config.ShadowEvery, func(slot, gen uint32) *shadow.Watch {
		if e := d.table.find(slot, gen); e != nil {
			return &e.watch
		}
		return nil
	})
}

// inode is the number of the socket's shadow in the kernel's lists.
func (d *driver) inode(e *entry) uint64 { return d.below.system.Kernel.Inode(kernel.FD(e.s)) }

// readShadows delivers what the kernel has received for the sockets whose shadows are ready, and for the streams that it carries.
func (d *driver) readShadows(k *ring.Sink) error {
	room := k.Room()
	if room == 0 {
		return nil
	}
	d.stats.ShadowReads++
	ready, burst := d.shadows.Look(room, d.turn.idle, d.turn.now)
	if ready == nil {
		return nil
	}
	more, err := d.reapKernelStreams(k)
	for i := range ready {
		slot, gen := ready[i].Key()
		if slot == icmpErrorsSlot {
			more = d.tcp.icmp.read(d.ip, d.turn.now) || more
		} else if e := d.table.find(slot, gen); e != nil {
			more = d.readShadow(k, e, ready[i].Events, burst) || more
		}
	}
	d.shadows.EndLook(more)
	return err
}

// readShadow reads the shadow of one socket, at most burst datagrams, and reports whether there may be more.
func (d *driver) readShadow(k *ring.Sink, e *entry, events uint32, burst int) (more bool) {
	s, in := e.s, d.shadows.Receiver()
	d.shadows.StopWatching(&e.watch) // if the socket does not read
	if e.groups.NeedsFilter() {
		d.shadows.readingID = e.id
		in.SetRefuse(d.shadows.refuse)
		defer in.SetRefuse(nil)
	}
	if events&unix.EPOLLERR != 0 {
		if errno := d.below.system.Kernel.PendingError(kernel.FD(s)); errno != 0 {
			k.Failed(s, errno)
			if e.s != s { // a callback closed the socket; another may have the slot
				return false
			}
		}
	}
	for range burst {
		if !e.watch.On || e.s != s || e.inStack && d.udp.Backlogged(e.id) > 0 { // what was kept is older
			return false
		}
		if k.Room() == 0 {
			return true
		}
		switch in.Datagram(k, s) {
		case shadow.Received:
			d.stats.ShadowPackets++
		case shadow.Discarded:
		default:
			return false
		}
	}
	return true
}

// isNotJoined reports whether a datagram at the shadow that is being read was sent to a group, or from a source, that its socket has not
// joined: a shadow with IP_MULTICAST_ALL also receives what membership sockets have joined for others. Such a datagram is dropped and counted.
func (d *driver) isNotJoined(m *ring.Meta) bool {
	if !m.Destination.IsMulticast() {
		return false
	}
	target, _ := wire.AddrFrom(m.Destination)
	source, _ := wire.AddrFrom(m.Source.Addr())
	if d.udp.ReceivesGroup(d.shadows.readingID, target, source, m.IfIndex) {
		return false
	}
	d.stats.ShadowNotJoined++
	return true
}
