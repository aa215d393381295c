package peers

import (
	"strconv"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

// cMmsg is the kernel's side of the receive rows. Its veth needs a program in its driver, or it takes no frames of the source.
var cMmsg = harness.Peer{
	Name: "c-mmsg", About: "C, recvmmsg in a spin, a socket per group", Protos: []string{"udp"}, Roles: []string{"count"}, Veth: true,
	VethOnly: true,
	Command: func(p harness.Programs, w harness.Workload) []string {
		return []string{p.C("receive"), "-addr", harness.ServerAddr, "-groups", strconv.Itoa(w.Groups), "-base", harness.GroupBase,
			"-pass", harness.ServerDevice}
	},
}
