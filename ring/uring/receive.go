package uring

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// The header of a received datagram: struct io_uring_recvmsg_out, the source in nameLen bytes (so many that the control messages
// behind it are aligned), the control messages in the rest of the headroom.
const (
	nameLen     = 32
	minHeadroom = sys.RecvmsgOutLen + nameLen + sys.ControlLen
)

// onReceive handles a completion of a multishot receive: it delivers the buffer that the completion names, and after the last completion of the
// operation arms the next one or reports why receiving has ended.
func (d *Driver) onReceive(k *ring.Sink, c *sys.CQE) {
	r := d.record(c)
	// Noted first: what the core does with the data may stop, restart or let go of the socket.
	last := r != nil && r.noteCompletion(opReceive, c)
	if id, ok := c.Buffer(); ok {
		g := d.groups[c.UserData>>56&1]
		i := g.takeByID(id)
		switch {
		case r == nil || k == nil || c.Res < 0 || c.Res == 0 && r.kind == ring.KindStream:
			d.pool.Return(i)
		case r.kind == ring.KindStream:
			d.noteActivity(r)
			k.Data(r.socket, d.pool.Fill(i, 0, int(c.Res), ring.AccountOf(r.socket)))
		default:
			d.deliverDatagram(k, r, i, int(c.Res))
		}
	}
	if !last {
		return
	}
	if c.Res <= 0 && k != nil && !r.detaching && !r.failed {
		d.onReceiveEnd(k, r, c)
	}
	if r.promoting {
		d.promote(r)
	}
	if r.endSeen && k != nil {
		d.reportReset(k, r)
	}
	d.rearmOrDetach(k, r)
}

// deliverDatagram delivers buffer i, which the kernel has filled with n bytes of header and payload.
func (d *Driver) deliverDatagram(k *ring.Sink, r *record, i uint32, n int) {
	if n < d.headroom {
		d.pool.Return(i) // shorter than its own header: not what this driver asked for
		return
	}
	b := d.pool.Memory(i)
	out := sys.ParseRecvmsgOut(b)
	const control = sys.RecvmsgOutLen + nameLen
	m := ring.Meta{
		Source:    sys.ParseSockaddr(b[sys.RecvmsgOutLen:][:min(out.NameLen, nameLen)]),
		Truncated: out.Flags&unix.MSG_TRUNC != 0,
	}
	if r.handle.PktInfo {
		info := sys.ParseControl(b[control:][:min(int(out.ControlLen), d.headroom-control)])
		m.Destination, m.IfIndex = info.Destination, info.IfIndex
		if r.handle.HasTimestamps {
			m.RawHardware = info.Hardware
			if info.Stamp != 0 {
				m.Time = ring.Stamp{Nanos: info.Stamp, Source: ring.StampSoftware}
			}
		}
	}
	d.noteActivity(r)
	k.DatagramIn(r.socket, i, d.headroom, n-d.headroom, &m)
}

// onReceiveEnd handles the end of a multishot receive: for want of buffers, by FIN or with an error. It reports what the core must know, and
// clears wantsReceive where arming it again would be of no use.
func (d *Driver) onReceiveEnd(k *ring.Sink, r *record, c *sys.CQE) {
	e := syscall.Errno(-c.Res)
	switch {
	case e == unix.ENOBUFS:
		if !d.replenish(r.class) {
			r.wantsReceive, r.starved = false, true
			k.Starved(r.socket)
		}
	case e == unix.ECANCELED || e == unix.EINTR || e == unix.EAGAIN:
		// Asked for, or nothing to speak of: armed again if wanted.
	case r.kind == ring.KindStream && e == 0:
		r.wantsReceive = false
		k.EndOfStream(r.socket)
		d.watchReset(r)
	case r.kind == ring.KindStream:
		d.fail(k, r, e)
	case e != 0:
		switch e {
		case unix.EBADF, unix.EFAULT, unix.EINVAL, unix.ENOTSOCK, unix.EOPNOTSUPP:
			r.wantsReceive = false // it would not be better the next time
		}
		k.Failed(r.socket, e)
	}
}

// fail reports the end of a connection, once.
func (d *Driver) fail(k *ring.Sink, r *record, e syscall.Errno) {
	r.failed, r.wantsReceive = true, false
	k.Failed(r.socket, e)
}

// onAccept handles a completion of a multishot accept: a new connection, or an error of the listener.
func (d *Driver) onAccept(k *ring.Sink, c *sys.CQE) {
	r := d.record(c)
	last := r != nil && r.noteCompletion(opReceive, c)
	switch {
	case c.Res >= 0 && (r == nil || k == nil):
		_ = unix.Close(int(c.Res)) // the listener is gone
	case c.Res >= 0:
		kernel.Accepted(k, r.socket, int(c.Res), netip.AddrPort{})
	}
	if !last {
		return
	}
	if c.Res < 0 && k != nil && !r.detaching {
		switch e := syscall.Errno(-c.Res); e {
		case unix.ECANCELED, unix.EINTR, unix.EAGAIN, unix.ECONNABORTED, unix.EPROTO, unix.EPERM,
			unix.ENETDOWN, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET, unix.EHOSTUNREACH, unix.ENETUNREACH:
			// accept(2): errors of the connection that was to be accepted, to be treated like EAGAIN.
		default:
			r.wantsReceive = false
			k.AcceptFailed(r.socket)
		}
	}
	d.rearmOrDetach(k, r)
}
