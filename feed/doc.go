// Package feed puts the messages of a market-data channel in order: it arbitrates between the lines on which a channel is sent, finds gaps,
// says what to request from a recovery server, and delivers every message exactly once, in sequence. Feed handlers use it between their sockets
// and their books.
//
// It knows no protocol, no socket and no clock: the caller decodes a packet's header into a Segment, and time is an argument. The packages below
// it decode what exchanges send (iextp, mdp3, moldudp64, itch, pitch) and keep order books (book); FormatError and Symbol are what they have in
// common. The example BookFromTwoLines uses all of it together.
//
// The caller gives a Channel each packet, and then takes all that it has:
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
// A message is taken from the line that brings it first; lines may put the same messages into different packets. Of a packet whose messages are
// partly known only the new ones are delivered. A packet that comes too early is parked, in a ring indexed by sequence number with one word for
// each message.
//
// # Who holds the packet
//
// While packets come in order, nothing is copied and nothing is kept: Delivery.Payload is the packet's own memory. A parked packet is kept by
// its Ref. Every Ref given to Input comes back in exactly one Delivery with Done set; the caller releases the packet there and nowhere else.
// A caller whose packets cannot be kept (a file reader's buffer) sets Config.CopyBytes, and the channel copies parked packets into memory
// that it allocated at the start.
//
// # Gaps
//
// A hole is a range of missing messages. For Config.GapTime, or until Config.GapPackets more packets came, the other line may fill it. Then its
// messages are requested (Request), within a budget, with growing pauses, a bounded number of times. Then the hole is given up: an event
// names the range, the next delivery says how many messages are missing before it (Delivery.Lost), and the channel is STALE until its owner
// calls Resynced. If there is no more room for parked packets (Window or Slots), the oldest hole is given up early, with that cause: memory
// is bounded, and the newest data is always delivered.
//
// # Epochs
//
// Sequence numbers start again when the session changes, when the protocol says so (Segment.Reset), and when a sender
// restarts within its session: a lower sequence number whose send time is later than that of all packets so far by more than
// Config.RestartAfter. Delivery.Epoch counts the epochs. Parked messages of an epoch are delivered before the next one begins.
//
// Channels are for one goroutine. Nothing here allocates after New.
package feed
