package ring

import "github.com/socketxtreme/socketxtreme/buffers"

// Frame is Datagram for a received frame whose bytes off to off+n are the datagram, which goes straight into the caller's slice: the headers come
// off, the socket's account is charged, and the completion is written in one pass. The sink takes the packet. False, and nothing has happened, when
// the datagram cannot go straight there (a callback, another mode, something pending, no reader, no room): it is Datagram's then. m has no
// timestamp, and is not cut.
func (k *Sink) Frame(s *Socket, frame buffers.Packet, off, n int, m *Meta) bool {
	if s.needsSlowPath() || k.n == len(k.dst) {
		return false
	}
	r := k.ring
	over, ok := r.pool.DeliverFrame(frame, off, n, s.handle.Account)
	if !ok {
		return false
	}
	c := &k.dst[k.n]
	k.n++
	c.Events = EventPacket
	c.UserData = s.userData
	c.Socket = s
	c.Listener = nil
	c.Packet = frame
	c.Source = m.Source
	c.Destination = s.destination(m)
	c.IfIndex = m.IfIndex
	c.ViaKernel = false
	c.Token = 0
	c.Time = Stamp{}
	c.Err = nil
	r.stats.Packets++
	r.stats.Bytes += uint64(n)
	s.countReceived(n)
	if over {
		s.stop(stopBudget)
	}
	return true
}
