// Package direct receives from kernel sockets by plain non-blocking system calls into pool buffers. The epoll ring receives
// everything this way; the io_uring ring reads its few hottest datagram sockets so, because while spinning an empty recvmsg is
// cheaper than going through the ring.
package direct

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Outcome is the result of one attempt to receive.
type Outcome uint8

// The outcomes.
const (
	Received  Outcome = iota // something was delivered and there may be more
	Last                     // something was delivered and most likely nothing is left
	Empty                    // nothing was there
	Starved                  // no buffer was free, which was reported to the sink
	Ended                    // end of stream, which was reported to the sink
	Failed                   // an error, which was reported to the sink
	Discarded                // something was there and Refuse threw it away; there may be more
)

// Receiver receives for the sockets of one ring. It keeps the memory for its system calls, so that receiving allocates nothing. Make it with
// New and do not copy it.
type Receiver struct {
	pool     *buffers.DriverPool
	headroom int
	spare    [buffers.NumClasses]uint32 // a buffer taken from the pool and not filled yet, for the next attempt
	have     [buffers.NumClasses]bool
	message  sys.Message
	meta     ring.Meta

	// ViaKernel marks what is received, see ring.Completion: set by drivers that read kernel sockets beside a link.
	ViaKernel bool
	// Refuse, when not nil, is asked before a datagram is delivered: true throws it away. Its destination and interface are known where
	// the socket asked for them.
	Refuse func(m *ring.Meta) bool
}

// New makes a receiver on the pool.
func New(pool *buffers.DriverPool) *Receiver {
	return &Receiver{pool: pool, headroom: pool.Layout().Headroom}
}

// Datagram receives at most one datagram from s.
func (r *Receiver) Datagram(k *ring.Sink, s *ring.Socket) Outcome {
	h := ring.HandleOf(s)
	b, ok := r.spareBuffer(h.Class)
	if !ok {
		k.Starved(s)
		return Starved
	}
	var n int
	var e syscall.Errno
	if h.PktInfo {
		n, e = r.message.Recv(int(h.Conn), b)
	} else {
		n, e = r.message.RecvFrom(int(h.Conn), b) // 240 ns against 315 when nothing is there
	}
	if e != 0 {
		if e == unix.EAGAIN || e == unix.EINTR {
			return Empty
		}
		k.Failed(s, e)
		return Ended
	}
	r.meta = ring.Meta{Source: r.message.Source(), Truncated: r.message.Truncated(), ViaKernel: r.ViaKernel}
	if h.PktInfo {
		c := sys.ParseControl(r.message.Control())
		r.meta.Destination, r.meta.IfIndex = c.Destination, c.IfIndex
		if h.HasTimestamps {
			r.meta.RawHardware = c.Hardware
			if c.Stamp != 0 {
				r.meta.Time = ring.Stamp{Nanos: c.Stamp, Source: ring.StampSoftware}
			}
		}
	}
	if r.Refuse != nil && r.Refuse(&r.meta) {
		return Discarded // the buffer serves the next attempt
	}
	k.Datagram(s, r.fill(s, h, n), &r.meta)
	return Received
}

// Stream receives at most one buffer of data from s.
func (r *Receiver) Stream(k *ring.Sink, s *ring.Socket) Outcome {
	o, e := r.Read(k, s)
	switch {
	case o != Ended:
	case e != 0:
		k.Failed(s, e)
	default:
		k.EndOfStream(s)
	}
	return o
}

// Read is Stream for a driver that knows more than the kernel says about how the stream ended: with Ended the sink was not told.
// The errno says what ended it, 0 stands for the peer's FIN.
func (r *Receiver) Read(k *ring.Sink, s *ring.Socket) (Outcome, syscall.Errno) {
	h := ring.HandleOf(s)
	b, ok := r.spareBuffer(h.Class)
	if !ok {
		k.Starved(s)
		return Starved, 0
	}
	n, e := sys.Recv(int(h.Conn), b, 0)
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
		return Empty, 0
	case e != 0 || n == 0:
		return Ended, e
	}
	k.Data(s, r.fill(s, h, n))
	if n < len(b) {
		return Last, 0
	}
	return Received, 0
}

// ReturnSpare returns the buffers that were taken for the next receive to the pool. A ring calls it before it sleeps, because other rings of its
// owner may need them.
func (r *Receiver) ReturnSpare() {
	for c, have := range r.have {
		if have {
			r.pool.Return(r.spare[c])
			r.have[c] = false
		}
	}
}

// Close returns the spare buffers to the pool.
func (r *Receiver) Close() { r.ReturnSpare() }

// Ready takes the buffer that the next receive of class c fills from the pool, unless there is one; false when the pool has none.
func (r *Receiver) Ready(c buffers.Class) bool {
	if !r.have[c] {
		r.spare[c], r.have[c] = r.pool.Take(c)
	}
	return r.have[c]
}

// spareBuffer is the memory that the next receive fills, of a buffer that is taken from the pool when there is none yet; false when the pool
// is empty.
func (r *Receiver) spareBuffer(c buffers.Class) ([]byte, bool) {
	if !r.Ready(c) {
		return nil, false
	}
	return r.pool.Memory(r.spare[c])[r.headroom:], true
}

// fill makes a packet of the spare buffer, which has received n bytes.
func (r *Receiver) fill(s *ring.Socket, h *ring.Handle, n int) buffers.Packet {
	r.have[h.Class] = false
	return r.pool.Fill(r.spare[h.Class], r.headroom, n, ring.AccountOf(s))
}
