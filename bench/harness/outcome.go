package harness

// Turn is what one entrant did in one round.
type Turn struct {
	Reading  Reading
	Attempts int
	Noisy    bool // still above mostHostLost after the last attempt; the quietest attempt was kept
}

// Record is all that is known about an entrant after a case: its turns, one per round, and what ended them early.
type Record struct {
	Turns  []Turn
	NotRun string   // this machine or build does not have it, or it cannot serve the workload
	Failed string   // something went wrong
	Faults []string // messages lost, duplicated …; numbers that cannot be
}

func (r *Record) over() bool { return r.NotRun != "" || r.Failed != "" }

// Round is the turns that one row compares. Peer is empty when the row is judged against a limit.
type Round struct{ Ours, Peer Turn }

func (r Round) attempts() int { return max(r.Ours.Attempts, r.Peer.Attempts) }
func (r Round) noisy() bool   { return r.Ours.Noisy || r.Peer.Noisy }

// disturbed is that of the side whose reading was disturbed more.
func (r Round) disturbed() float64 {
	return max(r.Ours.Reading.disturbed(), r.Peer.Reading.disturbed())
}

// Outcome is what a row is judged by: its rounds, or the reason why there are none.
type Outcome struct {
	Rounds []Round
	NotRun string
	Failed string
	Faults []string
}

// outcomeOf puts the records of a row's two sides together.
func outcomeOf(row Row, records map[Entrant]*Record) Outcome {
	ours := records[row.ours()]
	out := Outcome{NotRun: ours.NotRun, Failed: ours.Failed, Faults: ours.named(row.Ours)}
	peer := &Record{Turns: make([]Turn, len(ours.Turns))}
	if row.Peer != Limit {
		peer = records[row.peer()]
		out.Faults = append(out.Faults, peer.named(row.peerName())...)
	}
	if out.NotRun == "" {
		out.NotRun = peer.NotRun
	}
	if out.Failed == "" {
		out.Failed = peer.Failed
	}
	for i := range min(len(ours.Turns), len(peer.Turns)) {
		out.Rounds = append(out.Rounds, Round{ours.Turns[i], peer.Turns[i]})
	}
	return out
}

// named are the faults with the name of who made them.
func (r *Record) named(name string) []string {
	var out []string
	for _, f := range r.Faults {
		out = append(out, name+": "+f)
	}
	return out
}
