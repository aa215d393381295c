package extraapi

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The verdicts of a callback, under VMA's names.
const (
	PacketDrop = ring.Drop // release the packet
	PacketRecv = ring.Keep // deliver it: by Poll's completions, or in pull mode by RecvFromZeroCopy
	PacketHold = ring.Hold // the callback keeps the packet and releases it later
)

// Info describes the packet that a callback sees. It is a value: everything in it may be kept. (VMA: struct vma_info_t, whose pointers are
// valid during the call only, and whose payload_sz is never set.)
type Info struct {
	Socket        *xtreme.Socket // the socket that received the packet; accepted connections share their listener's callback
	Source        netip.AddrPort
	Destination   netip.AddrPort // to which the packet was sent; the zero AddrPort if the ring cannot know
	IfIndex       uint32         // index of the interface on which it arrived; 0 if the ring cannot know
	Bytes         int            // length of the whole packet's payload
	Time          xtreme.Stamp   // when it arrived; zero unless timestamps were asked for
	ViaKernel     bool           // the socket is offloaded, and this packet was received through the kernel's socket beside it
	Err           error          // ErrTruncated: the datagram was cut
	QueuedPackets int            // packets that are queued on the socket before this one
	QueuedBytes   int            // their bytes
}

// Callback is called inside Poll for each packet of a socket, in order and before the packet is queued. It may use the packet until it returns,
// and longer if it returns PacketHold.
type Callback func(Info, xtreme.Packet) xtreme.Verdict

// receiveCallback converts f to the form of package ring. The result has no state, so that a listener's connections can share it.
func (f Callback) receiveCallback() ring.ReceiveCallback {
	return func(s *ring.Socket, c *ring.Completion) ring.Verdict {
		packets, bytes := s.Waiting()
		return f(Info{Socket: s, Source: c.Source, Destination: c.Destination, IfIndex: c.IfIndex, Bytes: c.Packet.Len(), Time: c.Time,
			ViaKernel: c.ViaKernel, Err: c.Err, QueuedPackets: packets, QueuedBytes: bytes}, c.Packet)
	}
}

// RegisterRecvCallback makes f see each packet of s before it is queued; a nil f ends that. It may be called at any time, inside a callback too.
// Packets that are queued already are not shown to f. Packets for which f returns PacketRecv are delivered as the socket's mode says: by Poll,
// or in pull mode by RecvFromZeroCopy. Connections that a listener accepts later have its callback. Errors: a nil socket (EBADF), a closed
// one (ErrClosed), another goroutine than the owner (ErrOwner). (VMA: register_recv_callback.)
func RegisterRecvCallback(s *xtreme.Socket, f Callback) error {
	if s == nil {
		return noSocket("RegisterRecvCallback")
	}
	m, h := s.Mode(), ring.ReceiveCallback(nil)
	if f != nil {
		h = f.receiveCallback()
	}
	switch { // pull mode has two names in package ring: Queue without a callback, Callback with one
	case m == ring.Queue && f != nil:
		m = ring.Callback
	case m == ring.Callback && f == nil:
		m = ring.Queue
	}
	if err := s.SetReceiveMode(m, h); err != nil {
		return fmt.Errorf("extraapi: RegisterRecvCallback: %w", err)
	}
	return nil
}

// RecvCallback returns the configuration of a socket with a callback, in pull mode if pull is true, else in completion mode. The callback sees
// every packet, while RegisterRecvCallback, after the socket was opened, may miss the first ones.
func RecvCallback(f Callback, pull bool) xtreme.SocketConfig {
	switch {
	case f == nil && pull:
		return Pull()
	case f == nil:
		return xtreme.SocketConfig{}
	case pull:
		return xtreme.SocketConfig{ReceiveMode: ring.Callback, ReceiveCallback: f.receiveCallback()}
	}
	return xtreme.SocketConfig{ReceiveCallback: f.receiveCallback()}
}

// Pull returns the configuration of a socket in pull mode: its packets are queued on the socket, Poll reports them with EventIn, and
// RecvFromZeroCopy or Recv returns them. Connections that a listener accepts have its mode.
func Pull() xtreme.SocketConfig { return xtreme.SocketConfig{ReceiveMode: ring.Queue} }

// SetPull turns pull mode on or off. It is possible before a socket of NewTCP or NewUDP is bound, connected or listening, and for an accepted
// connection until the next Poll after the one that announced it; later it is ErrMode. A registered callback stays registered. Owner only.
func SetPull(s *xtreme.Socket, on bool) error {
	if s == nil {
		return noSocket("SetPull")
	}
	h := s.ReceiveCallback()
	m := ring.Completions
	if on {
		m = ring.Queue
		if h != nil {
			m = ring.Callback
		}
	}
	if err := s.SetReceiveMode(m, h); err != nil {
		return fmt.Errorf("extraapi: SetPull: %w", err)
	}
	return nil
}
