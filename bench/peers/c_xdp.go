package peers

import "github.com/socketxtreme/socketxtreme/bench/harness"

// cXDP is AF_XDP without a stack, at both ends.
var cXDP = harness.Peer{
	Name: "c-xdp", About: "C, AF_XDP by hand, no stack", Protos: []string{"udp"}, Roles: []string{"echo", "count"}, Veth: true, VethOnly: true,
	Command: func(p harness.Programs, w harness.Workload) []string {
		return append([]string{p.C("xdp"), "-mode", w.Role(), "-iface", harness.ServerDevice, "-addr", harness.ServerAddr}, nativeFlag(w)...)
	},
	Client: func(p harness.Programs, w harness.Workload, pace harness.Pace) []string {
		argv := append([]string{p.C("xdp"), "-mode", "pingpong", "-iface", harness.ClientDevice, "-addr", harness.ClientAddr,
			"-peer", harness.ServerAddr, "-peer-mac", harness.ServerMAC.String()}, pace.Flags()...)
		return append(append(argv, w.WindowFlag()...), nativeFlag(w)...)
	},
}

// nativeFlag is the flag of the peers on AF_XDP.
func nativeFlag(w harness.Workload) []string {
	if w.Native {
		return []string{"-native"}
	}
	return nil
}
