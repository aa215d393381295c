// Package ring is the completion contract of SocketXtreme, written once: what a ring is, what a socket on it may deliver, and in
// which order. It makes no system call for a socket and knows no descriptor: a Transport under it opens, binds, connects, sends and closes
// (ring/transport/kernel), and a Driver receives and reports facts (ring/uring, ring/epoll).
//
// # Pulling completions
//
// A Ring is polled by one goroutine. Poll fills the caller's slice with completions and never blocks:
//
//	var done [64]ring.Completion
//	for {
//		n, err := r.Poll(done[:])
//		if err != nil { ... }
//		for i := range done[:n] {
//			c := &done[i]
//			if c.Events.Has(ring.EventPacket) {
//				use(c.Packet.Bytes())
//				c.Packet.Release()
//			}
//		}
//	}
//
// An error comes without completions: what a Poll had before something failed in it is returned first, the error by the next Poll. Only
// ErrOwner and ErrClosed say that the ring is of no more use to the caller.
//
// A packet belongs to the caller from Poll until Release. Connections of a listener are accepted by the ring and come as
// EventNewConnection.
//
// # What is guaranteed
//
// Per socket, packets come in arrival order (TCP: sequence order). NEW_CONNECTION comes before the first packet or together
// with it; after it the socket yields nothing more until the next Poll, so that user data set in that turn is on everything later.
// FIN never comes before the data that precedes it. A full slice loses nothing. Events merge into one completion, packets never
// do. After Close the last completion of a socket is EventClosed, exactly once.
//
//	what happened                     Events                        Err
//	datagram, stream data             PACKET
//	connection accepted               NEW_CONNECTION (|PACKET)
//	connect done, writable again      OUT
//	peer's FIN                        IN|RDHUP
//	reset, also after FIN             IN|ERR|HUP|RDHUP              ECONNRESET
//	connect refused, unreachable      IN|ERR|HUP                    ECONNREFUSED, EHOSTUNREACH …
//	time-out, keepalive death         IN|HUP                        ETIMEDOUT
//	ICMP error of a UDP socket        ERR                           ECONNREFUSED …
//	deadline passed                   IN or OUT, alone              ErrDeadline
//	Socket.Path has changed           PATH
//	SendPacket finished               SENT                          nil, or why not
//	a datagram left                   TX_TIMESTAMP                  nil, see Config.TxTimestamps
//	closed                            CLOSED
//
// # Waiting
//
// A ring that has nothing to do is spun on, or waited for: Wait sleeps the cheapest way; Arm and FD serve loops of one's own.
// Wake and Post reach the owner from any goroutine. Everything else that does not say "any goroutine" answers ErrOwner to others, or the
// zero value where it has no error result; RingStats.Misuses counts these calls.
//
// # Sockets from elsewhere, and to elsewhere
//
// Set.Adopt takes over the descriptor of a socket that somebody else made; from there on it is as the ring's own. A listener with
// Config.AcceptTo is asked about each connection before a socket is made of it, and can let its descriptor go: to be
// posted to another owner and adopted there, or closed because there are enough.
//
// Unix-domain stream sockets (Set.NewUnix) keep the contract above. They have names in the place of addresses, and nothing of
// what is TCP's alone; a peer that closes and leaves data unread is their reset.
//
// # Offloaded rings
//
// A driver with a protocol stack of its own (ring/offload) keeps the contract. Its differences: what is sent leaves with the next Poll or
// Flush, many at once, and what a receive callback sends at the end of its Poll; packets that came through the kernel's socket beside the
// stack are marked (Completion.ViaKernel); Socket.Prepare makes the first send as fast as the others; RingStats.Driver has a name for whatever
// was not delivered. Where there is no kernel at all, SetConfig.Transport says what addresses and ports are.
//
// # Pacing and time
//
// Socket.SetPacing limits how fast a socket sends: datagrams on every kind of ring, connections by the kernel (docs/pacing.md). A
// Completion's Time says when its packet arrived and by which clock: the kernel's, a link's, or the network card's, converted as
// Config.HardwareTimestamps says. Config.TxTimestamps asks for the time at which each datagram left (docs/timestamps.md).
//
// # Pulling packets, warm sends
//
// In the Queue and Callback modes packets wait on the socket: Receive hands them over, Read copies parts of them, Waiting
// counts them. WarmSend walks the path of a send without sending. Package extraapi has both under VMA's names.
//
// # Sets
//
// A Set is the rings of one owner. It gives each socket its ring when it binds, listens or connects, by VMA's ring allocation
// logics. Package xtreme builds sets and chooses the kind of ring; most programs use that.
package ring
