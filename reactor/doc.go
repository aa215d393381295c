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
// Programs that want the loop itself in their hands poll the poller directly and do not need this package.
//
// # A turn
//
//	reap    poll the rings into a batch
//	run     the handler for each completion; timers that are due; posted functions; external descriptors (on every
//	        OSRatio-th turn)
//	submit  start what was prepared for sending
//	rest    nothing happened: spin, or sleep until something does (see Rest for what each costs)
//
// Each part is bounded (Batch, TimerBudget, PostBudget), and nothing in a turn allocates. The clock is read once, at
// its beginning: Now and all timers go by that reading. Data that had arrived by then is handled before the timers it
// may move. After a gap of more than 5 ms (a garbage collection, a stopped process) one batch may not be all of that
// data, so the rings are emptied first: a pause does not become a burst of false time-outs.
//
// # Other goroutines
//
// Everything on a loop runs on its goroutine: handlers need no locks. From elsewhere, Post runs a function there. A
// packet goes to another goroutine with Packet.Lend. Post, Snapshot, Shutdown, BeginShutdown and Name are for any goroutine; other
// calls from outside panic rather than corrupt the loop.
//
// # Several loops
//
// RunGroup runs loops that share nothing, each with its own poller, buffers and sockets. Listeners opened with
// ReusePort on one address have the kernel spread connections over them. Leave a processor to everything else: a
// spinning loop on each of them makes the garbage collector and the runtime's own work take turns with it.
//
// # Panics
//
// A panic in a handler resets that connection, releases that packet, is logged and counted, and the loop goes on;
// StopLoop ends the loop instead. See PanicPolicy for what cannot be contained.
//
// # Shutting down
//
// When Run's context is done, or Shutdown was called, the loop first accepts what waits in its listeners' queues and then
// closes them; calls the handler's Stop (Stopper); goes on serving until 10 ms have passed in which nothing came, with nothing
// waiting to be sent, or until Grace is over; closes every socket, so that what was sent goes out before FIN; delivers
// each CLOSED; waits for packets that were lent; and closes the poller, which checks that every buffer is back in the pool. A
// client that had its request in flight has its answer, and then end of file. Stats.Aborted counts what could not end
// that way. A Shutdown whose context ends cuts the waiting short. Sockets that never had a ring (xtreme's NewTCP and NewUDP before they are
// bound) are unknown to the loop and end with the poller.
package reactor
