package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Groups prints view 4: each multicast group with the sockets that have joined it.
func Groups(w io.Writer, s *Snapshot) {
	members := map[string][]uint64{}
	for _, v := range s.Blocks[stats.Sockets] {
		for g := range strings.SplitSeq(v.Info["groups"], ",") {
			if g != "" && !slices.Contains(members[g], v.ID) {
				members[g] = append(members[g], v.ID)
			}
		}
	}
	if len(members) > 0 {
		fmt.Fprint(w, "\nGroup Memberships Information\nGroup                fd number\n------------------------------\n")
		for _, g := range sortedKeys(members) {
			fmt.Fprintf(w, "%-22s", "["+g+"]")
			for _, id := range members[g] {
				fmt.Fprintf(w, "%d ", id)
			}
			fmt.Fprintln(w)
		}
	}
	fmt.Fprintln(w, "-------------------------------------------------------------------------------")
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// NetstatHeader prints the header of view 5.
func NetstatHeader(w io.Writer) {
	fmt.Fprintln(w, "Proto Offloaded Recv-Q Send-Q Local Address          Foreign Address       State       Inode      PID/Program name")
}

// Netstat prints view 5 of a process: a line for each socket, as netstat does. Lines of a process that has ended say so, behind its name.
func Netstat(w io.Writer, s *Snapshot) {
	program := s.Process.Program
	if !s.Process.Live {
		program += " (ended " + s.Process.Last.Format("2006-01-02 15:04:05") + ")"
	}
	for _, v := range s.Blocks[stats.Sockets] {
		if v.Info["protocol"] == "" {
			continue // accepted, and not described yet
		}
		offloaded := "No"
		if v.Value("offloaded") != 0 {
			offloaded = "Yes"
		}
		state := ""
		if v.Info["protocol"] == "tcp" {
			state = tcpStates[v.Info["state"]]
		}
		remote := v.Info["remote"]
		if remote == "" {
			remote = "0.0.0.0:*"
		}
		fmt.Fprintf(w, "%-5s %-9s %-6d %-6d %-22s %-21s %-11s %-10s %d/%s\n", v.Info["protocol"], offloaded, v.Value("queued_bytes"), v.Value("send_queued"),
			v.Info["local"], remote, state, v.Info["inode"], s.Process.ID, program)
	}
	if n := s.Left[stats.Sockets]; n > 0 {
		fmt.Fprintf(w, "(%d sockets of %d/%s found no room in its file: VMA_STATS_FD_NUM)\n", n, s.Process.ID, s.Process.Program)
	}
}

// tcpStates are netstat's words for the states of sockets.
var tcpStates = map[string]string{"new": "CLOSED", "connecting": "SYN_SENT", "open": "ESTABLISHED", "listening": "LISTEN", "dead": "CLOSED",
	"closing": "FIN_WAIT_1", "closed": "CLOSED"}
