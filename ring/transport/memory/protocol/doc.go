// Package protocol is the state machine of the stream transport over memory: TCP's handshake, windows, acknowledgements and ends, without
// congestion control. Package ring/transport/memory drives it, and so do its tests.
//
// There is no clock, no goroutine, no link, no source of randomness and no memory for payload in it. Time comes with each call. Sequence numbers
// come from Config.Random. Segments and events leave through a Host. A connection has how many bytes it was given to send and how many it has
// received; the bytes are the Host's.
//
//	application              Table                       link
//	Listen, Connect     ─┐                         ┌──  Input(segment)
//	Queue, CloseWrite   ─┼──►  one Conn a stream ◄─┤
//	Credit, Close, Abort─┘      no pointer in it   └──  Expire(now), Deadline()
//	                              │
//	                              ▼
//	          Host: Transmit(segment), Receive(bytes), Event(what happened)
//
// # States
//
// They are TCP's (RFC 9293 section 3.3.2). The table of legal moves is in state.go; one function makes them all.
//
// # What differs from TCP
//
//   - Segments that come ahead of a lost one are dropped: the sender goes back to the first byte that is not acknowledged.
//   - A zero-window probe has no byte in it. It asks for an acknowledgement with a number that was acknowledged already.
//   - Every acknowledgement carries the whole window: there is no window scaling.
//   - There is no congestion control: a lost segment slows nothing down but the connection that waits for it.
//
// # After Close
//
// A connection goes on after Close: it sends what was queued, and FIN; it waits for the peer's; it stays in TIME-WAIT. Data that still comes is
// answered with a reset. EventGone is the end of the record.
package protocol
