package reactor

import "github.com/socketxtreme/socketxtreme/xtreme"

// Handler handles the completions of a loop. The loop calls Handle on its goroutine for each completion of its poller, in the order in which
// the rings delivered them.
//
// c is valid during the call. c.Packet belongs to the handler, which must release it or pass it on (SendPacket, Lend, Retain). While Handle
// runs, everything else on the loop waits: see Stats.LongestTurn.
type Handler interface {
	Handle(l *Loop, c *xtreme.Completion)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(l *Loop, c *xtreme.Completion)

// Handle calls f.
func (f HandlerFunc) Handle(l *Loop, c *xtreme.Completion) { f(l, c) }

// Starter is an optional interface of a Handler: Start is called on the loop's goroutine before the first turn, to open sockets or start
// timers. An error, or a panic, ends Run.
type Starter interface {
	Start(l *Loop) error
}

// Stopper is an optional interface of a Handler: Stop is called when a shutdown has begun. All connections were delivered by then, and the
// listeners are closed. It may send and close; turns go on afterwards until no connection has anything to do.
type Stopper interface {
	Stop(l *Loop)
}
