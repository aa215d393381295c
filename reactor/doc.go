// Package reactor runs a program on a poller's rings: one goroutine that polls, calls the program's handler for each
// completion, and keeps its timers, its posted work and its external descriptors.
//
//	poller, err := engine.NewPoller("server", xtreme.PollerConfig{})
//	loop, err := reactor.New(poller, handler, reactor.Config{Rest: reactor.Spin})
//	_, err = poller.ListenTCP(netip.MustParseAddrPort("127.0.0.1:5001"), xtreme.ListenConfig{})
//	err = loop.Run(ctx)
//
// A handler is given completions and owns their packets:
//
//	func (s *server) Handle(l *reactor.Loop, c *xtreme.Completion) {
//		if c.Events.Has(xtreme.EventPacket) {
//			if _, err := c.Socket.Send(c.Packet.Bytes()); err != nil {
//				c.Socket.Abort() // its peer does not read, or is gone
//			}
//			c.Packet.Release()
//		}
//		if c.Events.Any(xtreme.EventRdHup | xtreme.EventHup) { // may come with the packet
//			c.Socket.Close()
//		}
//	}
//
// A program that has a loop of its own polls the poller directly and does not need this package.
//
// # A turn
//
//	reap    poll the rings into a batch of completions
//	run     call the handler for each completion; fire timers that are due; run posted functions; poll external descriptors (on every
//	        OSRatio-th turn)
//	submit  start sends that were prepared
//	rest    if nothing happened: spin, or sleep until something does (see Rest for what each costs)
//
// Each part is bounded (Batch, TimerBudget, PostBudget), and nothing in a turn allocates. The clock is read once, at the beginning of a turn:
// Now and all timers use that reading. Data that had arrived by then is handled before timers fire, because it may move or cancel them. After
// a gap of more than 5 ms (a garbage collection, a stopped process) one batch may not hold all of that data, so the rings are emptied first:
// a pause does not cause false time-outs.
//
// # Other goroutines
//
// Everything on a loop runs on its goroutine: handlers need no locks. Other goroutines use Post, which runs a function on the loop.
// Packet.Lend gives a packet to another goroutine. Post, Snapshot, Shutdown, BeginShutdown and Name are for any goroutine; other calls from
// outside the loop return ErrOwner, or panic if they return no error.
//
// # Several loops
//
// RunGroup runs loops that share nothing, each with its own poller, buffers and sockets. The kernel spreads connections over listeners that are
// opened with ReusePort on one address. Leave a processor without a spinning loop: otherwise the garbage collector and the runtime's own work
// have to interrupt the loops.
//
// # Panics
//
// After a panic in a handler the loop resets the connection, releases the packet, logs and counts the panic, and goes on; with StopLoop it ends
// instead. See PanicPolicy for the details.
//
// # Shutting down
//
// When Run's context is done, or Shutdown was called, the loop
//
//  1. accepts the connections in its listeners' queues, closes the listeners, and calls the handler's Stop (Stopper);
//  2. goes on serving, until nothing was received for 10 ms and nothing waits to be sent, or until Grace is over;
//  3. closes every socket, so that data that was sent leaves before FIN, and delivers each CLOSED;
//  4. waits for packets that were lent, and closes the poller, which checks that every buffer is back in the pool.
//
// A client whose request was under way receives its answer and then the end of the stream. Stats.Aborted counts the sockets that could not be
// closed like this. If the context of Shutdown ends, the remaining sockets are aborted at once. Sockets that never had a ring (NewTCP and
// NewUDP of package xtreme, before they are bound) are closed with the poller.
package reactor
