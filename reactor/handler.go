package reactor

import "github.com/socketxtreme/socketxtreme/xtreme"

// Handler is what a loop is for: it is given every completion of its poller, on the loop's goroutine, in the order in
// which the rings delivered them.
//
// c is valid during the call. c.Packet belongs to the handler, which must release it or pass it on (SendPacket, Lend,
// Retain). A handler that takes long holds up everything else on its loop: see Stats.LongestTurn.
type Handler interface {
	Handle(l *Loop, c *xtreme.Completion)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(l *Loop, c *xtreme.Completion)

// Handle calls f.
func (f HandlerFunc) Handle(l *Loop, c *xtreme.Completion) { f(l, c) }

// Starter is a Handler that has something to do on the loop's goroutine before the first turn: open sockets, start
// timers. An error, or a panic, ends Run.
type Starter interface {
	Start(l *Loop) error
}

// Stopper is a Handler that is told when shutdown has begun: all connections there will be were delivered, the
// listeners are closed. It may still send and close; turns go on afterwards until everything is quiet.
type Stopper interface {
	Stop(l *Loop)
}
