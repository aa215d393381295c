package simnet

// event is something that happens at a time: a frame arrives, a host's turn comes, a function of the user runs.
type event struct {
	at    int64  // nanoseconds since the world's beginning
	seq   uint64 // order of events with the same time: the one that was scheduled first runs first
	kind  eventKind
	twin  bool   // of an arrival: the copy that the line made of the frame before it
	late  bool   // of an arrival: the line let others overtake it
	order uint64 // of an arrival: the frame's number on its line
	line  *Line
	frame *frame
	host  *Host
	run   func()
}

type eventKind uint8

const (
	evArrival eventKind = iota + 1
	evTurn
	evCall
	evKernel // something within a kernel: it wakes the hosts that it concerns
)

// before reports whether e is due before o; events of the same time run in the order in which they were scheduled.
func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// agenda is a heap of events with four children to a node: half as deep as a binary one, and its children share cache lines.
type agenda struct {
	list []event
	seq  uint64
}

// push adds an event to the heap of events, which has four children a node and is ordered by time, then by the order in which events were
// added.
func (a *agenda) push(e event) {
	a.seq++
	e.seq = a.seq
	a.list = append(a.list, e)
	i := len(a.list) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&a.list[parent]) {
			break
		}
		a.list[i] = a.list[parent]
		i = parent
	}
	a.list[i] = e
}

// pop removes and returns the earliest event.
func (a *agenda) pop() event {
	first := a.list[0]
	n := len(a.list) - 1
	last := a.list[n]
	a.list[n] = event{}
	a.list = a.list[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if a.list[c].before(&a.list[least]) {
				least = c
			}
		}
		if !a.list[least].before(&last) {
			break
		}
		a.list[i] = a.list[least]
		i = least
	}
	a.list[i] = last
	return first
}
