// Package feed puts a market-data channel in order: it arbitrates between the lines a channel is sent on, finds gaps,
// says what to ask a recovery server for, and delivers every message exactly once, in sequence. Feed handlers use it
// between their sockets and their decoders.
//
// It knows no protocol, no socket and no clock: a decoder tells it what a packet claims, and time is an argument. The
// packages below it decode what exchanges send (iextp, mdp3, moldudp64, itch, pitch) and keep order books (book);
// FormatError and Symbol are what they have in common. The example BookFromTwoLines has all of it together.
//
// A Channel is fed packets and drained after each:
//
//	channel.Input(&feed.Segment[buffers.Packet]{Session: h.Session, Seq: h.Seq, Count: h.Count, Line: line,
//		Arrival: now, Sent: h.SendTime, Payload: c.Packet.Bytes(), Ref: c.Packet})
//	for channel.Next(&d) {
//		book.Apply(d.Payload, d.Skip, d.Count) // Count messages behind the first Skip ones
//		if d.Done {
//			d.Ref.Release()
//		}
//	}
//	for channel.Event(&e) { log(e) }
//	for channel.Request(now, &r) { ask(r.From, r.To) }
//
// # Arbitration
//
// A message is taken from the line that brings it first; lines may cut the same messages into different packets. Of a packet
// that is partly known only the unseen part is delivered. A packet that comes too early is parked: in a ring indexed by
// sequence number, one word a message, so that the run behind a hole is found by looking at one word.
//
// # Who holds the packet
//
// In order, nothing is copied and nothing is kept: Delivery.Payload is the packet's own memory. A parked packet is kept
// by the reference that came with it. Every reference given to Input comes back in exactly one Delivery with Done set,
// so that the caller releases there and nowhere else. Where memory cannot be kept (a file reader's buffer),
// Config.CopyBytes lets the channel copy what it parks into a slab made at the start.
//
// # Gaps
//
// A hole is not yet a loss: for Config.GapTime, or until Config.GapPackets more packets came, it may be filled by the
// other line. Then its messages are asked for (Request), within a budget, with growing pauses, a bounded number of
// times. Then the hole is given up: an event names the range, the next delivery says how many messages are missing
// before it (Delivery.Lost), and the channel is STALE until its owner says that its books are whole again (Resynced).
// If parked packets no longer fit (window or slots), the oldest hole is given up early, with that cause: memory is
// bounded, and the newest data always gets through.
//
// # Epochs
//
// Sequence numbers start again when the session changes, when the protocol says so (Segment.Reset), and when a sender
// restarts within its session: a lower sequence number whose send time is newer than anything seen by more than
// Config.RestartAfter. Delivery.Epoch counts them; what is left of the older one is delivered before it ends.
//
// Channels are for one goroutine. Nothing here allocates after New.
package feed
