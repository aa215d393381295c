// Package tcp is TCP over IPv4 (RFC 9293 and what belongs to it): the protocol alone. A transport under package ring gives it segments and
// takes its segments and events; a simulator and a player of packet scripts do the same.
//
// There is no I/O, no clock, no goroutine, no lock and no chance in it, and no payload: time comes with each call, keys come from
// Config.Random, and payload is a number of a buffer that the transport has.
//
//	application            Table                          link
//	Listen, Connect     ─┐                          ┌──  Input(now, segment)
//	Send, CloseWrite    ─┼──►  connections, half-   ◄─┤
//	Credit, Close, Abort─┘     open ones, TIME-WAIT   └──  Expire(now), Deadline()
//	                                 │
//	            Events()  ◄──────────┴──────────►  Output(now, &segment)
//
// # Five verbs
//
//	Input     takes one received segment. It sends nothing: it notes what is to be sent.
//	Output    writes the next segment to be sent, and reports whether there was one.
//	Expire    does what is due by now.
//	Deadline  is when Expire has to be called at the latest.
//	Events    are what happened since the last call: data, ends, failures, buffers that are free again.
//
// A turn of a transport is this. Because Output comes last, an acknowledgement goes with the data that the application answers, and a burst of
// segments is acknowledged once (RFC 9293 MUST-58, MUST-59).
//
//	for each segment of the burst  { table.Input(now, &segment) }
//	table.Expire(now)
//	for each of table.Events()     { the application reads, sends, closes }
//	for table.Output(now, &segment) { build the frame, give it to the link }
//
// A link without room ends the loop early: what Output has not returned stays to be sent. A segment that was returned counts as sent. A
// transport that cannot send it drops it, and it is retransmitted.
//
// # Payload
//
// Send is given pieces of buffers. They are the retransmission queue: a buffer is the connection's until EventSent. Output names the piece that
// a segment carries; usually it is all of one that Send was given, with room for headers in front. Segment.Again says that it was sent before.
//
// A segment carries a part of one piece. Small sends of a turn become one segment where the transport writes them behind each other into one
// buffer: Tail is the last piece, if nothing of it was sent, and Extend makes it longer.
//
// Input reports whether the table keeps the buffer of the segment. It returns as EventData, in order, or as EventDropped.
// Credit opens the window when the application has released the data, so the window is what the application really has room for.
// Renege gives buffers back that wait beyond gaps: for a transport that runs out of them.
//
// # A record outlives its user
//
// Close says that the application is gone. The record goes on: it sends what is queued, and FIN; it waits for the peer's. EventGone is its end.
// TIME-WAIT and the handshake of a passive open need no such record: both have small ones of their own.
//
// # A connection that moves
//
// Export stops a connection and returns its Snapshot and its Queues; Import makes a connection of them, in this table or another one. Package
// ring/transport/repair does the same with sockets of the kernel.
//
// docs/rfc-status.md lists each rule of the RFCs with the test that shows it.
package tcp
