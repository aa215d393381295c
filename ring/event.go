package ring

import (
	"fmt"
	"strings"
)

// Event is a set of event bits. The low 32 are epoll's, bits 32 and 33 are VMA's (VMA_SOCKETXTREME_PACKET and
// VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED), so that code ported from C keeps its constants; bits 34 to 37 are ours.
type Event uint64

// The event bits.
const (
	EventIn    Event = 0x001  // end of stream, data to pull in queue mode, a read deadline, or part of an error
	EventOut   Event = 0x004  // connected, or writable again after a short send
	EventErr   Event = 0x008  // an error; Completion.Err says which
	EventHup   Event = 0x010  // the socket is dead in both directions
	EventRdHup Event = 0x2000 // the peer will send nothing more

	EventPacket        Event = 1 << 32 // Completion.Packet holds data; the caller owns it
	EventNewConnection Event = 1 << 33 // Completion.Socket was accepted by Completion.Listener
	EventSent          Event = 1 << 34 // a SendPacket finished; Completion.Token is its token
	EventClosed        Event = 1 << 35 // the last completion of a socket, after Close or Abort
	EventPath          Event = 1 << 36 // the way of the socket's packets has changed: Socket.Path tells
	EventTxTimestamp   Event = 1 << 37 // a datagram left: Completion.Time says when, Completion.Token which, see Config.TxTimestamps
)

// The combinations the contract names. A completion may carry other bits beside them.
const (
	eventFin     = EventIn | EventRdHup
	eventReset   = EventIn | EventErr | EventHup | EventRdHup
	eventRefused = EventIn | EventErr | EventHup
	eventTimeout = EventIn | EventHup

	// trailing bits tell of an end: they never come before data that was received earlier.
	trailing = EventIn | EventErr | EventHup | EventRdHup
)

// Has reports whether all bits of want are set.
func (e Event) Has(want Event) bool { return e&want == want }

// Any reports whether at least one bit of want is set.
func (e Event) Any(want Event) bool { return e&want != 0 }

var eventNames = []struct {
	bit  Event
	name string
}{
	{EventNewConnection, "NEW_CONNECTION"}, {EventPacket, "PACKET"}, {EventSent, "SENT"}, {EventTxTimestamp, "TX_TIMESTAMP"}, {EventIn, "IN"}, {EventOut, "OUT"},
	{EventPath, "PATH"}, {EventErr, "ERR"}, {EventHup, "HUP"}, {EventRdHup, "RDHUP"}, {EventClosed, "CLOSED"},
}

// String lists the bits by name, such as "PACKET|OUT".
func (e Event) String() string {
	if e == 0 {
		return "0"
	}
	var names []string
	for _, n := range eventNames {
		if e.Has(n.bit) {
			names = append(names, n.name)
			e &^= n.bit
		}
	}
	if e != 0 {
		names = append(names, fmt.Sprintf("%#x", uint64(e)))
	}
	return strings.Join(names, "|")
}
