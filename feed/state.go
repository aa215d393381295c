package feed

// State is the state of a channel.
type State uint8

// The states.
const (
	Init       State = iota // nothing seen yet
	Sync                    // everything up to the watermark was delivered
	GapWait                 // a hole is waiting for the other line
	Recovering              // a hole is being asked for
	Stale                   // messages were given up; what was built from them is not to be trusted until Resynced
	Ended                   // the session ended and everything was delivered
)

var stateNames = [...]string{"INIT", "SYNC", "GAP-WAIT", "RECOVERING", "STALE", "ENDED"}

// String is the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "?"
}

// Kind says what an event is about.
type Kind uint8

// The kinds of event.
const (
	StateChanged Kind = iota // From, To
	EpochBegan               // Seq is the first sequence number expected, Cause why
	GaveUp                   // messages Seq to End-1 will not be delivered; Cause why
	LineDead                 // Line was silent for longer than Config.LineTimeout
	LineAlive                // Line sends again
	Missed                   // messages Seq to End-1 came on no line within the gap window, or cannot be waited for any longer; Cause why
	Filled                   // messages Seq to End-1, which were Missed, came by Line
)

var kindNames = [...]string{"state", "epoch", "gave_up", "line_dead", "line_alive", "missed", "filled"}

// String is the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "?"
}

// Cause says why something happened.
type Cause uint8

// The causes.
const (
	CauseNone         Cause = iota
	CauseFirst              // the first packet
	CauseGap                // a sequence number was skipped, or a heartbeat announced more than was seen
	CauseFilled             // the last hole was filled
	CauseDue                // the gap window is over
	CauseNoRecovery         // the gap window is over and there is no recovery server
	CauseAttempts           // asked for as often as allowed
	CauseRejected           // the recovery server refused
	CauseOverflow           // there was no more room for the packets parked behind it
	CauseSession            // another session
	CauseReset              // the protocol said so
	CauseRestart            // the sender began again within its session
	CauseEndOfSession       // the sender said that the session is over
	CauseFlush              // the owner called Flush: no more packets will come
	CauseResynced           // the owner called Resynced
	CauseSilence            // nothing received
	CauseHeard              // received again
)

var causeNames = [...]string{"", "first packet", "gap", "filled", "gap window over", "no recovery",
	"attempts exhausted", "rejected",
	"overflow", "session changed", "reset", "restart", "end of session", "flush", "resynced", "silence", "heard again"}

// String is the cause in words.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "?"
}

// Event reports something that an operator wants to know. Which of Since, Behind, Took, From, To, Seq, End and Line it has depends on its Kind.
type Event struct {
	Time     int64 // ns
	Since    int64 // with Missed: when the newest packet in front of the missing messages arrived
	Behind   int64 // with Missed: when the first packet behind them arrived
	Took     int64 // with Missed: how long as many messages took in front of them, ns; 0: not known
	Seq, End uint64
	Epoch    uint32
	Kind     Kind
	From, To State
	Line     uint8
	Cause    Cause
}

// events is a bounded queue of events. An event that finds it full is dropped and counted.
type events struct {
	ring    []Event
	head, n int
	dropped uint64
}

// put appends an event.
func (q *events) put(e Event) {
	if q.n == len(q.ring) {
		q.dropped++
		return
	}
	q.ring[(q.head+q.n)%len(q.ring)] = e
	q.n++
}

// take removes the oldest event and stores it in e; false if there is none.
func (q *events) take(e *Event) bool {
	if q.n == 0 {
		return false
	}
	*e = q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return true
}
