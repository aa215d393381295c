package feed

// Recovery is the line number of packets that a recovery server sent.
const Recovery = 255

// Segment is what one packet claims to carry: the messages Seq to Seq+Count-1 of a session.
type Segment[R any] struct {
	Session uint64 // the protocol's session, day or stream; another one begins a new epoch
	Seq     uint64 // sequence number of the first message; without messages, of the next one to come
	Arrival int64  // when it was received, ns; the channel's clock goes by it, unless Config.PollOnly
	Sent    int64  // when the sender says it was sent, ns by the sender's clock; 0 where the protocol has no such field
	Payload []byte // the packet, which Delivery returns; valid until Next returned false, and with CopyBytes 0 until Done
	Ref     R      // comes back in exactly one Delivery with Done set
	Count   uint32 // messages; 0 is a heartbeat, which raises the watermark
	Line    uint8  // 0 to Config.Lines-1, or Recovery
	Reset   bool   // the protocol says that a new epoch begins with this packet
	End     bool   // end of session: nothing comes after Seq+Count-1
}

// Delivery is a run of messages that are next in sequence.
type Delivery[R any] struct {
	Payload   []byte // the packet they are in
	Ref       R      // as given to Input; the caller's again when Done is set
	Seq       uint64 // sequence number of the first message delivered, which is the one behind Skip
	Lost      uint64 // messages given up directly before Seq
	Arrival   int64  // of the packet
	Sent      int64  // of the packet
	Lag       int64  // with Twin: this packet's arrival minus its twin's, ns (negative if a capture is out of order)
	Epoch     uint32 // 1 is the first
	Skip      uint32 // messages at the packet's begin that were delivered before
	Count     uint32 // messages to take; 0: nothing new, the packet only comes back
	Line      uint8  // the line that brought it
	TwinLine  uint8  // with Twin: the line that had brought the same packet before
	Twin      bool   // the packet is a duplicate of another line's that began with the same message
	Done      bool   // the packet is not needed any more
	Recovered bool   // Line is Recovery
}

// Range is the messages From to To-1.
type Range struct{ From, To uint64 }

// Len is the number of messages.
func (r Range) Len() uint64 { return r.To - r.From }

// Request is what to ask a recovery server for: messages From to To-1 of the session.
type Request struct {
	Range
	Session uint64
	Attempt int // 1 is the first time this part is asked for
}
