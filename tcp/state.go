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
