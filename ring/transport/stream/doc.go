// Package stream carries the TCP connections of one ring over the library's own protocol engine: it stands between package ring, package tcp and
// the network layer of package ip. The driver of ring/offload makes one and calls it once a turn.
//
//	application                ring.Socket
//	                               │  Send, Close …        ▲ facts: data, ends, room
//	                               ▼                       │
//	ring.Transport            Transport ──────────────► Report
//	                               │  ▲
//	                        calls  ▼  │  events, segments
//	                            tcp.Table
//	                               │  ▲
//	                        Output ▼  │ Input
//	ip.Protocol               frames of the pool ◄────► links
//
// # Where the bytes are
//
// A received frame stays where the card put it: its packet becomes the one that the application gets, or waits in order, or beyond a gap. The
// window opens when the application releases it, from whatever goroutine (ring.Creditor).
//
// Send copies into buffers of the pool, each as long as a segment and with room for headers in front. Those buffers are the retransmission
// queue: a frame is made by writing headers in front of the payload, and nothing is copied again. What SendPacket takes is sent from where it
// lies if it is one segment with room for headers; otherwise its segments are copied.
//
//	                 frame at the link?
//	transmitting     yes, or not sent yet     nobody writes to it
//	unacknowledged   no                       a retransmission writes headers and sends it again
//	free                                      the peer has confirmed it, and no link holds it
//
// A segment that is to be sent again while a link still holds its frame, or that is a part of its buffer, leaves as a copy.
//
// # Turns
//
//	Input    takes the segments of a burst
//	Expire   does what is due
//	Report   turns what happened into facts, as far as the sink has room
//	Output   makes frames of what is to be sent: the last step, so that acknowledgements go with the data that the application answers
//
// # Numbers
//
// A socket with a connection has a ring.Conn of ConnBase and the connection's number; one without has that of the transport below, which
// keeps its port. Records are found by the number of the connection. They outlive their sockets: what was taken for sending, FIN and the
// peer's FIN are theirs.
package stream
