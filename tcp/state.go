package tcp

import "fmt"

// State is the state of a connection, as RFC 9293 section 3.3.2 names it. LISTEN is a listener's, which is no connection here; SYN-RECEIVED of
// a passive open and TIME-WAIT are those of small records.
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

// states is a set of states: bit n stands for state n.
type states uint16

// set makes a set of the states.
func set(all ...State) (b states) {
	for _, s := range all {
		b |= 1 << s
	}
	return b
}

func (b states) has(s State) bool { return b>>s&1 != 0 }

// moves are the legal moves: RFC 9293 figure 5. A reset, a time-out or Abort leads to CLOSED from each state.
//
//	CLOSED ──Connect──► SYN-SENT ──SYN+ACK──► ESTABLISHED ──CloseWrite──► FIN-WAIT-1 ──ACK of FIN──► FIN-WAIT-2
//	                       │ SYN                │ ▲  │ FIN                   │ FIN                       │ FIN
//	                       ▼                    │ │  ▼                       ▼                           ▼
//	                   SYN-RECEIVED ───ACK──────┘ │ CLOSE-WAIT           CLOSING ──ACK of FIN──► TIME-WAIT
//	                                              │  │ CloseWrite
//	CLOSED ──end of a passive handshake───────────┘  ▼
//	                                              LAST-ACK ──ACK of FIN──► CLOSED
var moves = [numStates]states{
	Closed:      set(SynSent, Established), // ESTABLISHED: the half-open record made the way from LISTEN
	SynSent:     set(Closed, SynReceived, Established),
	SynReceived: set(Closed, Established, FinWait1),
	Established: set(Closed, FinWait1, CloseWait),
	FinWait1:    set(Closed, FinWait2, Closing, TimeWait),
	FinWait2:    set(Closed, TimeWait),
	CloseWait:   set(Closed, LastAck),
	Closing:     set(Closed, TimeWait),
	LastAck:     set(Closed),
	TimeWait:    set(Closed),
}

// What a state allows.
var (
	sends        = set(Established, CloseWait, FinWait1, Closing, LastAck)                     // data or FIN may still have to go out
	receives     = set(Established, FinWait1, FinWait2)                                        // data and FIN may come
	synchronized = set(Established, FinWait1, FinWait2, CloseWait, Closing, LastAck, TimeWait) // both have each other's numbers
)

// become makes every move of a connection. An illegal one is a bug of this package.
func (c *conn) become(s State) {
	if !moves[c.state].has(s) {
		panic(fmt.Sprintf("tcp: illegal move from %v to %v", c.state, s))
	}
	c.state = s
}
