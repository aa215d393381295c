package harness

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Limit is the peer of a row that is judged against a fixed bound instead of another peer.
const Limit = "limit"

// Row is one line of the result: two peers, one workload, one metric, one goal.
type Row struct {
	Workload   Workload
	Ours, Peer string // names of peers; Peer may be Limit
	// PeerWorkload is the peer's when it is not Workload: the row then compares a peer with itself, and PeerLabel says how the
	// other side differs.
	PeerWorkload *Workload
	PeerLabel    string
	Bound        float64 // of Limit
	Metric       Metric
	Goal         float64 // times better; 0: reported without a goal
}

// Name identifies the row, for -run and in the result.
func (r Row) Name() string {
	return strings.Join([]string{r.Workload.Name, r.Metric.Name, r.Ours, r.peerName()}, "/")
}

// peerName returns the name under which the peer is shown.
func (r Row) peerName() string {
	if r.PeerLabel != "" {
		return r.PeerLabel
	}
	return r.Peer
}

// Sides are the two entrants; a row against Limit has only the first.
func (r Row) Sides() []Entrant {
	if r.Peer == Limit {
		return []Entrant{r.ours()}
	}
	return []Entrant{r.ours(), r.peer()}
}

func (r Row) ours() Entrant { return Entrant{r.Ours, r.Workload} }

// peer returns the peer and its workload, which may differ from ours.
func (r Row) peer() Entrant {
	if r.PeerWorkload != nil {
		return Entrant{r.Peer, *r.PeerWorkload}
	}
	return Entrant{r.Peer, r.Workload}
}

// SelectRows are the rows whose name matches.
func SelectRows(rows []Row, run *regexp.Regexp) []Row {
	var chosen []Row
	for _, r := range rows {
		if run.MatchString(r.Name()) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// Entrant is one peer under one workload: what takes a turn in each round.
type Entrant struct {
	Peer     string
	Workload Workload
}

// Case is one measurement and the rows read from it: entrants that take turns.
type Case struct {
	Group    string
	Entrants []Entrant
	Rows     []Row
}

// GroupRows puts the rows of one group of workloads into one case: a peer that stands in several rows is measured once, in the
// same rounds as all it is compared with. Cases, entrants and rows keep the order of the rows.
func GroupRows(rows []Row) []Case {
	var cases []Case
	for _, r := range rows {
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Group == r.Workload.group() })
		if i < 0 {
			i = len(cases)
			cases = append(cases, Case{Group: r.Workload.group()})
		}
		c := &cases[i]
		c.Rows = append(c.Rows, r)
		for _, e := range r.Sides() {
			if !slices.Contains(c.Entrants, e) {
				c.Entrants = append(c.Entrants, e)
			}
		}
	}
	return cases
}

// List prints the descriptions of families, and the names and goals of their rows that match.
func (r *Registry) List(w io.Writer, ours []string, run *regexp.Regexp) {
	for _, f := range r.Families {
		if rows := SelectRows(f.Rows(ours), run); len(rows) > 0 {
			fmt.Fprintf(w, "# %s: %s\n", f.Name, f.About)
			listRows(w, rows)
		}
	}
}

// listRows writes names, units and goals of rows.
func listRows(w io.Writer, rows []Row) {
	for _, r := range rows {
		goal := "no goal"
		switch {
		case r.Goal > 0 && r.Metric.Allowed > 0:
			goal = fmt.Sprintf("at most %g more", r.Metric.Allowed/r.Goal)
		case r.Goal > 0:
			goal = fmt.Sprintf("goal %.3g times better", r.Goal)
		}
		fmt.Fprintf(w, "%-76s %-22s %s\n", r.Name(), r.Metric.Unit, goal)
	}
}
