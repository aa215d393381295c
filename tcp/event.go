package tcp

// EventKind says what happened to a connection.
type EventKind uint8

// What happens. The order for one connection: Connected or Accepted; then Data, Acked and Sent as they come; End behind the last Data; Failed
// at any time, once. Gone is last.
const (
	_ EventKind = iota
	// EventConnected: the handshake that Connect began is complete.
	EventConnected
	// EventAccepted: a child of Listener is established. It counts against the backlog until Take, Abort or Close, also when it has failed
	// meanwhile.
	EventAccepted
	// EventData: Payload is the next data in order. The buffer is the transport's again; Credit opens the window for it.
	EventData
	// EventEnd: the peer's FIN, behind all its data.
	EventEnd
	// EventAcked: the peer has acknowledged Length more bytes, so that as much may be queued.
	EventAcked
	// EventSent: the piece that Send was given is not needed any more: it was acknowledged, or the connection is over.
	EventSent
	// EventDropped: the buffer of a received segment, which Input had kept, is not needed any more and holds nothing to deliver.
	EventDropped
	// EventFailed: the connection is over, for Reason. Its record stays until Close or Abort.
	EventFailed
	// EventWarning: the connection goes on, and Reason says what is wrong (RFC 9293 MUST-20, SHLD-9).
	EventWarning
	// EventGone: the record is no more; its ID may be given out again.
	EventGone
)

var eventNames = [...]string{"none", "connected", "accepted", "data", "end", "acked", "sent", "dropped", "failed", "warning", "gone"}

// String is the event's name.
func (k EventKind) String() string { return eventNames[min(int(k), len(eventNames)-1)] }

// Event is something that happened to a connection.
type Event struct {
	Conn     ID
	Kind     EventKind
	Reason   Reason
	Listener ListenerID // of EventAccepted
	User     uint64     // what Connect or Take was given
	Payload  Payload    // of EventData, EventSent, EventDropped; EventAcked has Length
}

// Reason is why a connection failed.
type Reason uint8

// The reasons.
const (
	_                 Reason = iota
	ReasonReset              // the peer reset it
	ReasonRefused            // the peer reset the handshake
	ReasonTimeout            // retransmissions, or the user timeout
	ReasonKeepAlive          // keepalive probes were not answered
	ReasonUnreachable        // the network says that there is no way; of a handshake only
	ReasonProtocol           // the network says that the peer has no such protocol or port; of a handshake only
	ReasonLinger             // Close was called and the peer took too long
	ReasonNextHop            // warning: retransmissions stay unanswered: the next hop is to be examined (RFC 9293 MUST-20)
	ReasonSoftError          // warning: the network cannot deliver now (RFC 9293 MUST-56)
)

var reasonNames = [...]string{"none", "reset", "refused", "timeout", "keepalive", "unreachable", "protocol unreachable", "linger",
	"next hop", "soft error"}

// String is the reason's name.
func (r Reason) String() string { return reasonNames[min(int(r), len(reasonNames)-1)] }
