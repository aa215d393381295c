package command

import (
	"strings"

	"github.com/socketxtreme/socketxtreme/stats"
)

// joinedOn is how many IPv4 groups sockets have joined on each interface; a group of two sockets is one.
func joinedOn(sockets []stats.View) map[string]int {
	count, seen := map[string]int{}, map[[2]string]bool{}
	for i := range sockets {
		interfaces := strings.Split(sockets[i].Info["group_interfaces"], ",")
		for n, g := range strings.Split(sockets[i].Info["groups"], ",") {
			of := [2]string{}
			if of[1], _, _ = strings.Cut(g, "<"); n < len(interfaces) {
				of[0] = interfaces[n]
			}
			if strings.Contains(of[1], ".") && !seen[of] {
				seen[of] = true
				count[of[0]]++
			}
		}
	}
	return count
}
