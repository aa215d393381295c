package ring

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Frame is Datagram for a received frame whose bytes off to off+n are the datagram, which goes straight into the caller's slice: the
// headers come off, the socket's account is charged, and the completion is written in one pass. The sink takes the packet. False, and
// nothing has happened, when the datagram cannot go straight there (a callback, another mode, something pending, no reader, no room): it is
// Datagram's then. m has no timestamp, and is not cut.
func (k *Sink) Frame(s *Socket, frame buffers.Packet, off, n int, m *Meta) bool {
	if s.needsSlowPath() || k.n == len(k.dst) {
		return false
	}
	over, ok := k.ring.pool.DeliverFrame(frame, off, n, s.handle.Account)
	if !ok {
		return false
	}
	k.completeDatagram(s, frame, n, over, m)
	return true
}

// DatagramIn is Datagram for a buffer that its driver took and the kernel has filled: the datagram is n bytes from off on. It writes what
// completeDatagram writes: calling that would take 0.6 ns of 26.
func (k *Sink) DatagramIn(s *Socket, buffer uint32, off, n int, m *Meta) {
	if s.needsSlowPath() || k.n == len(k.dst) || m.Truncated || m.RawHardware != 0 {
		k.Datagram(s, k.ring.pool.Fill(buffer, off, n, s.handle.Account), m)
		return
	}
	p, over := k.ring.pool.FillHeld(buffer, off, n, s.handle.Account)
	r := k.ring
	c := &k.dst[k.n]
	k.n++
	c.Events = EventPacket
	c.UserData = s.userData
	c.Socket = s
	c.Listener = nil
	c.Packet = p
	c.Source = m.Source
	if m.Destination.IsValid() { // destination, without its call
		c.Destination = netip.AddrPortFrom(m.Destination, s.localPort())
	} else {
		e := r.locals.entry(s)
		if !e.isOf(s) {
			e.fill(s)
		}
		c.Destination = e.address
	}
	c.IfIndex = m.IfIndex
	c.ViaKernel = m.ViaKernel
	c.Token = 0
	c.Time = m.Time
	c.Err = nil
	r.stats.Packets++
	r.stats.Bytes += uint64(n)
	if !r.pageReceived(s.handle.Slot, n, m.ViaKernel) && !s.totals.receive(uint32(n)) {
		s.addCounts(1, uint64(n), 0, 0)
	}
	if over {
		s.stop(stopBudget)
	}
}

// completeDatagram writes the completion of a datagram that goes straight into the caller's slice; over is DeliverFrame's answer. It writes each
// field by itself: see fillCompletion.
func (k *Sink) completeDatagram(s *Socket, p buffers.Packet, n int, over bool, m *Meta) {
	r := k.ring
	c := &k.dst[k.n]
	k.n++
	c.Events = EventPacket
	c.UserData = s.userData
	c.Socket = s
	c.Listener = nil
	c.Packet = p
	c.Source = m.Source
	if m.Destination.IsValid() { // destination, without its call
		c.Destination = netip.AddrPortFrom(m.Destination, s.localPort())
	} else {
		e := r.locals.entry(s)
		if !e.isOf(s) {
			e.fill(s)
		}
		c.Destination = e.address
	}
	c.IfIndex = m.IfIndex
	c.ViaKernel = m.ViaKernel
	c.Token = 0
	c.Time = m.Time
	c.Err = nil
	r.stats.Packets++
	r.stats.Bytes += uint64(n)
	if !r.pageReceived(s.handle.Slot, n, m.ViaKernel) && !s.totals.receive(uint32(n)) {
		s.addCounts(1, uint64(n), 0, 0)
	}
	if over {
		s.stop(stopBudget)
	}
}
