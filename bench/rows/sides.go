package rows

import (
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

// hasOwnStack reports whether a peer on our side has a stack of its own: it serves on the veth pair only.
func hasOwnStack(name string) bool { return strings.HasPrefix(name, "ours-offload") }

// isThisLibrary reports whether a peer on our side is this library's.
func isThisLibrary(name string) bool { return strings.HasPrefix(name, "ours-") }

// forEach makes the rows of each peer on our side that the family is about.
func forEach(about func(our string) bool, rows func(our string) []harness.Row) func(ours []string) []harness.Row {
	return func(ours []string) (all []harness.Row) {
		for _, our := range ours {
			if about(our) {
				all = append(all, rows(our)...)
			}
		}
		return all
	}
}

// onceFor makes rows that do not depend on which peers stand on our side, if one is among them that they are about.
func onceFor(about func(our string) bool, rows func() []harness.Row) func(ours []string) []harness.Row {
	return func(ours []string) []harness.Row {
		if slices.ContainsFunc(ours, about) {
			return rows()
		}
		return nil
	}
}

func onKernelSockets(our string) bool { return !hasOwnStack(our) }

// table collects the rows of one peer on our side.
type table struct {
	ours string
	rows []harness.Row
}

// beside adds a row against another peer. A goal is in times better; 0: none.
func (t *table) beside(w harness.Workload, m harness.Metric, peer string, goal float64) {
	t.rows = append(t.rows, harness.Row{Workload: w, Ours: t.ours, Peer: peer, Metric: m, Goal: goal})
}

// besideItself adds a row against the same peer under another workload, which label names.
func (t *table) besideItself(w, other harness.Workload, label string, m harness.Metric, goal float64) {
	t.rows = append(t.rows, harness.Row{Workload: w, Ours: t.ours, Peer: t.ours, PeerWorkload: &other, PeerLabel: label, Metric: m, Goal: goal})
}

// within adds a row against a fixed bound.
func (t *table) within(w harness.Workload, m harness.Metric, bound float64) {
	t.rows = append(t.rows, harness.Row{Workload: w, Ours: t.ours, Peer: harness.Limit, Bound: bound, Metric: m, Goal: 1})
}
