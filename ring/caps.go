package ring

import (
	"fmt"
	"math/bits"
	"strings"
)

// Caps is what a kind of ring can do beyond the common contract. The list is closed: what is not in it every ring does.
type Caps uint32

// The capabilities.
const (
	// CapZeroCopySend: a large packet given to SendPacket goes out without a copy by the kernel's socket layer, and SENT comes when
	// the kernel or the link let go of it (io_uring: from 8 KiB on; below, pinning pages costs more than copying). Without it, and below that
	// size, SendPacket copies once and SENT comes when the copy was taken.
	CapZeroCopySend Caps = 1 << iota
	// CapThreadBound: the ring lives on the thread of its first Poll; Poll locks the goroutine to it until Close.
	CapThreadBound
	// CapWindowAtRelease: TCP's receive window grows when the application releases a packet. Kernel sockets credit it when
	// the ring takes the data; there the socket's budget stops the reading instead.
	CapWindowAtRelease
	// CapOutPerAck: EventOut may be asked for on every acknowledgement that advances (VMA's meaning of it).
	CapOutPerAck
	// CapSharedMulticast: members of one group on one ring share a packet's buffer. Kernel sockets get a copy each.
	CapSharedMulticast
	// CapBackgroundProgress: the protocol may be advanced by a thread of the library. The kernel's own stack needs none.
	CapBackgroundProgress
	// CapTxTimestamps: Config.TxTimestamps: an EventTxTimestamp reports when each datagram left.
	CapTxTimestamps
	// CapLaunchTime: a packet can be given the time at which the card is to send it.
	CapLaunchTime
	// CapPathChanges: a socket's packets may come to travel another way, and EventPath tells. Kernel sockets have one way only.
	CapPathChanges
)

var capNames = [...]string{"zero-copy-send", "thread-bound", "window-at-release", "out-per-ack", "shared-multicast", "background-progress",
	"tx-timestamps", "launch-time", "path-changes"}

// AllCaps is every capability, for tests that assert each one both ways.
func AllCaps() []Caps {
	all := make([]Caps, len(capNames))
	for i := range all {
		all[i] = 1 << i
	}
	return all
}

// Has reports whether all of want are there.
func (c Caps) Has(want Caps) bool { return c&want == want }

// String lists the capabilities by name.
func (c Caps) String() string {
	var names []string
	for rest := c; rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros32(uint32(rest)); i < len(capNames) {
			names = append(names, capNames[i])
		} else {
			names = append(names, fmt.Sprintf("%#x", uint32(1)<<i))
		}
	}
	return strings.Join(names, ",")
}

// The reasons for which a socket lacks a capability that its ring has.
var (
	notOfDatagrams = Reason{Code: "socket.datagram", Text: "datagrams have neither a window nor acknowledgements"}
	notOfStreams   = Reason{Code: "socket.stream", Text: "a connection is no member of groups"}
	notOfListeners = Reason{Code: "socket.listener", Text: "a listener sends nothing: it is asked for on its connections"}
)

// Why says why the socket lacks a capability: its ring lacks it, or it is of other sockets; the zero Reason when it has it, and before it has a
// ring. Owner only.
func (s *Socket) Why(c Caps) Reason {
	if !s.readable() || s.ring() == nil {
		return Reason{}
	}
	if why := s.ring().Why(c); why.Code != "" {
		return why
	}
	switch kind := s.handle.Kind; {
	case kind == KindDatagram && (c == CapOutPerAck || c == CapWindowAtRelease):
		return notOfDatagrams
	case kind != KindDatagram && c == CapSharedMulticast:
		return notOfStreams
	case kind == KindListener && c == CapOutPerAck:
		return notOfListeners
	}
	if x, ok := s.ring().drv.(SocketReasoner); ok {
		return x.WhySocket(s, c)
	}
	return Reason{}
}
