package why

import (
	"fmt"
	"strings"

	"github.com/socketxtreme/socketxtreme/stats"
)

// fewerGroups is the finding of an interface on which the kernel has fewer groups than before, by the column of that count. The kernel counts
// the groups of all processes, and the group of all hosts. If it has fewer than this process has joined and that one, this process has lost a
// membership for certain. If this process has joined none there, it has lost none.
func (e *Evidence) fewerGroups(column string, before, after uint64) Finding {
	name := strings.TrimSuffix(strings.TrimPrefix(column, stats.Host+"."), ".groups")
	joined, routed := e.JoinedOn[name], e.JoinedOn[""]
	f := Finding{kind: aboutGroup, Place: Kernel, Cause: "a membership was lost: the kernel has fewer groups on the interface than before", Count: before - after,
		Unit: "groups", Since: e.From, Until: e.To, Evidence: []string{fmt.Sprintf("%s %d, before %d", column, after, before)}}
	switch {
	case joined+routed == 0:
		f.kind, f.Cause = aboutOthers, "another process left a group: the kernel has fewer groups on the interface than before, and no open socket of this "+
			"process has joined one there"
	case after > uint64(joined):
		f.Place, f.Cause = Unknown, fmt.Sprintf("the kernel has fewer groups on the interface than before: another process left one, or a membership of this "+
			"one was lost (its sockets have joined %d there)", joined)
		if joined == 0 {
			f.Cause = "the kernel has fewer groups on the interface than before: another process left one, or a membership of this one was lost, which joined " +
				"groups without an interface"
		}
	}
	return f
}
