package extraapi

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The verdicts of a callback, under VMA's names.
const (
	PacketDrop = ring.Drop // the packet is released
	PacketRecv = ring.Keep // it goes on: to Poll's completions, or to where RecvFromZeroCopy finds it
	PacketHold = ring.Hold // the callback has it, and releases it later
)

// Info is what a callback is notified of a packet. It is a value: everything in it may be kept. (VMA: struct vma_info_t, whose pointers are
// good during the call only, and whose payload_sz is never filled in.)
type Info struct {
	Socket        *xtreme.Socket // children share their listener's callback: this is the one that received
	Source        netip.AddrPort
	Destination   netip.AddrPort // where the packet was sent to; the zero Addr where the ring cannot know
	IfIndex       uint32         // interface it came in on; 0 where the ring cannot know
	Bytes         int            // payload of the whole packet
	Time          ring.Stamp     // zero unless timestamps were asked for
	ViaKernel     bool           // on an offloaded socket: it came through the kernel's socket beside it
	Err           error          // ErrTruncated: the datagram was cut
	QueuedPackets int            // that wait on the socket before this one
	QueuedBytes   int
}

// Callback sees each packet of a socket inside Poll, in order and before it is queued. The packet is the callback's for the call; with
// PacketHold it stays so.
type Callback func(Info, buffers.Packet) ring.Verdict

// receiveCallback makes a receive callback of a callback. It keeps no state: children on whatever ring share it.
func (f Callback) receiveCallback() ring.ReceiveCallback {
	return func(s *ring.Socket, c *ring.Completion) ring.Verdict {
		packets, bytes := s.Waiting()
		return f(Info{Socket: s, Source: c.Source, Destination: c.Destination, IfIndex: c.IfIndex, Bytes: c.Packet.Len(), Time: c.Time,
			ViaKernel: c.ViaKernel, Err: c.Err, QueuedPackets: packets, QueuedBytes: bytes}, c.Packet)
	}
}

// RegisterRecvCallback makes f see each packet of s before it is queued; nil unregisters. It may be called at any time, inside a callback
// as well, on the poller's goroutine: from another it is ErrOwner. Packets that wait already are not shown to it. What f keeps goes
// where the socket's packets go: to Poll, or, on a socket in pull mode, to RecvFromZeroCopy. Connections accepted later have their listener's
// callback. Errors: nil socket, closed (ErrClosed), another goroutine's (ErrOwner).
func RegisterRecvCallback(s *xtreme.Socket, f Callback) error {
	if s == nil {
		return noSocket("RegisterRecvCallback")
	}
	m, h := s.Mode(), ring.ReceiveCallback(nil)
	if f != nil {
		h = f.receiveCallback()
	}
	switch {
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

// RecvCallback configures a socket with a callback: in completion mode what it keeps comes from Poll, with pull in pull mode
// it waits for RecvFromZeroCopy. From the first packet on, unlike RegisterRecvCallback after the socket was opened.
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

// Pull configures a socket in pull mode: its packets wait on it, Poll reports them with EventIn, and RecvFromZeroCopy or Recv
// takes them. The mode is fixed once the socket is bound, connected or listening; a listener's children have it too.
func Pull() xtreme.SocketConfig { return xtreme.SocketConfig{ReceiveMode: ring.Queue} }

// SetPull does what Pull does for a socket that was made in steps (NewTCP, NewUDP), or a connection in the turn that announced it; with
// on false it goes back to completion mode. A registered callback stays. Later it is ErrMode.
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
