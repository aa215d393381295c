package peers

import (
	"strconv"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

const sockperfPort = 11111

// sockperf is sockperf's own server. It speaks to a client that writes sockperf's header.
var sockperf = harness.Peer{
	Name: "sockperf", About: "sockperf server --nonblocked", Protos: []string{"udp"}, Roles: []string{"echo"}, Veth: true, VethOnly: true,
	Program: "sockperf", FixedPort: sockperfPort, ClientFlags: []string{"-sockperf"},
	Command: func(harness.Programs, harness.Workload) []string {
		return []string{"sockperf", "server", "--nonblocked", "-i", harness.ServerAddr, "-p", strconv.Itoa(sockperfPort)}
	},
}
