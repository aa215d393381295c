package protocol

// Host is what a Table calls: the link, the buffers and the application behind it. A method of it must not call the Table, but for methods that
// only return a value (Unacknowledged, Local …) and Unbind.
type Host interface {
	// Piece is how many of the n bytes that the connection sends from seq on lie together, so that one frame can carry them: at least 1.
	Piece(id ID, seq Seq, n int) int
	// Transmit puts a segment on the link, with s.Length bytes of the connection's stream from s.Seq on.
	Transmit(id ID, s *Segment) Outcome
	// Receive takes n bytes of the segment's payload that is being put in, from its byte off on; false when there is no buffer for them. They
	// count against the window until Credit.
	Receive(id ID, off, n int) bool
	// Event says what happened to a connection.
	Event(id ID, e Event)
}

// Outcome is what became of a segment at the link.
type Outcome uint8

// The outcomes.
const (
	Sent Outcome = iota
	// Full: the link has no room. Table.Resume follows when it has.
	Full
	// Held: the link still holds a frame with the same bytes, which must not be changed: it is sent again when its time comes.
	Held
)

// Event is what happened.
type Event struct {
	Kind     EventKind
	Listener int32 // EventAccepted: of which listener
	Bytes    int   // EventAcknowledged: how many more
}

// EventKind is the kind of an Event.
type EventKind uint8

// The events. EventRefused, EventReset and EventTimedOut are the last of a connection but EventGone, which follows Close or Abort.
const (
	EventAccepted     EventKind = iota // a child of a listener is established
	EventConnected                     // Connect is established
	EventAcknowledged                  // bytes were acknowledged, the oldest first
	EventEnded                         // the peer's FIN, behind all that was received
	EventRefused                       // a SYN was answered with a reset
	EventReset                         // the peer reset the connection
	EventTimedOut                      // the peer does not answer
	EventGone                          // the record is no more; so is its ID
)
