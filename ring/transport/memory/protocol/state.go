package protocol

import "fmt"

// State is the state of a connection, as RFC 9293 section 3.3.2 names it. A listener is no connection here.
type State uint8

// The states.
const (
	Closed State = iota
	SynSent
	SynReceived
	Established
	FinWait1
	FinWait2
	CloseWait
	Closing
	LastAck
	TimeWait
	numStates
)

var stateNames = [numStates]string{"CLOSED", "SYN-SENT", "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "CLOSING",
	"LAST-ACK", "TIME-WAIT"}

// String is the RFC's name.
func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

type states uint16

// setOf is the set of the states.
func setOf(all ...State) (b states) {
	for _, s := range all {
		b |= 1 << s
	}
	return b
}

func (b states) has(s State) bool { return b>>s&1 != 0 }

// moves are the legal moves. From each state a reset, a time-out or Abort leads to CLOSED.
var moves = [numStates]states{
	Closed:      setOf(SynSent, SynReceived),
	SynSent:     setOf(Closed, SynReceived, Established), // SYN-RECEIVED: both sent a SYN
	SynReceived: setOf(Closed, Established),
	Established: setOf(Closed, FinWait1, CloseWait),
	FinWait1:    setOf(Closed, FinWait2, Closing, TimeWait),
	FinWait2:    setOf(Closed, TimeWait),
	CloseWait:   setOf(Closed, LastAck),
	Closing:     setOf(Closed, TimeWait),
	LastAck:     setOf(Closed),
	TimeWait:    setOf(Closed),
}

// What a state allows.
var (
	sends    = setOf(Established, CloseWait, FinWait1, Closing, LastAck)           // data or FIN may still have to go out
	receives = setOf(Established, FinWait1, FinWait2)                              // data and FIN may come
	synced   = setOf(Established, FinWait1, FinWait2, CloseWait, Closing, LastAck) // the peer knows the connection: it is notified of a reset
)

// become moves the connection to another state; every change of state goes through it. It panics on an illegal move, which is a bug of this
// package.
func (c *Conn) become(s State) {
	if !moves[c.state].has(s) {
		panic(fmt.Sprintf("protocol: illegal move from %v to %v", c.state, s))
	}
	c.state = s
}
