package nic

// State is where an attachment is in its life. Each change goes through attachment.move, which knows the legal ones.
//
//	          job: open             job: open idle queues
//	Closed ───────────► Opening ───► Attached ◄──────────► Expanding
//	  ▲  ▲                 │            │  ▲                 │    │
//	  │  └─────────────────┤            │  └──── Trimming ◄──┘    │
//	  │                    ▼            ▼  surplus   │            ▼
//	  └──────────────── Closing ◄───────┴────────────┴───────── Lost
//	     job: close links, dead device        waits for the job of Expanding or Trimming
//
//	any of these ──► Leaving ──► Left
type State uint8

// The states.
const (
	Closed    State = iota // no links; opened again at its time, or when the host's tables change
	Opening                // a job opens the device and its queues
	Attached               // its links carry frames
	Expanding              // attached, and a job opens queues that no ring serves
	Trimming               // attached, and a job closes queues that were opened and could not be used
	Lost                   // its links were removed while the job of Expanding or Trimming still runs
	Closing                // a job closes its links, and its device when that is dead
	Leaving                // it leaves its bond or its ring; jobs close what it had
	Left                   // it is no attachment any more
	numStates
)

var stateNames = [numStates]string{"closed", "opening", "attached", "expanding", "trimming", "lost", "closing", "leaving", "left"}

// String is the state in words.
func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "unknown state"
}

type stateSet uint16

// setOf is the set of the listed states.
func setOf(list ...State) (set stateSet) {
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

func (set stateSet) has(s State) bool { return set&(1<<s) != 0 }

// legalMoves is the whole machine. A child (VLAN on another attachment's device) follows its base without jobs: Closed, Attached, Leaving.
var legalMoves = [numStates]stateSet{
	Closed:    setOf(Opening, Attached, Leaving), // Attached at once: children alone
	Opening:   setOf(Attached, Closing, Closed, Leaving),
	Attached:  setOf(Expanding, Closing, Closed, Leaving), // Closed at once: without a link of its own
	Expanding: setOf(Attached, Trimming, Lost, Leaving),
	Trimming:  setOf(Attached, Lost, Leaving),
	Lost:      setOf(Closing, Closed, Leaving),
	Closing:   setOf(Closed, Leaving),
	Leaving:   setOf(Left),
	Left:      0,
}

var (
	observeMove func(from, to State) // by tests
	illegalMove = func(_, _ State) {}
)

// PanicOnIllegalMoves makes an illegal move a panic in this process, for tests. Otherwise the move is refused and counted.
func PanicOnIllegalMoves() {
	illegalMove = func(from, to State) {
		panic("nic: an attachment cannot go from " + from.String() + " to " + to.String())
	}
}

// move changes the state if that is legal. A refused move leaves the state as it is and is counted: the attachment stays consistent, because
// what follows the move is keyed to its state.
func (p *attachment) move(to State) bool {
	if !legalMoves[p.state].has(to) {
		p.set.stats.IllegalMoves++
		illegalMove(p.state, to)
		return false
	}
	if observeMove != nil {
		observeMove(p.state, to)
	}
	p.state = to
	return true
}

// isAttached reports whether the attachment has its links.
func (p *attachment) isAttached() bool {
	return p.state == Attached || p.state == Expanding || p.state == Trimming
}

// isLeaving reports whether the attachment leaves, or has left.
func (p *attachment) isLeaving() bool { return p.state >= Leaving }
