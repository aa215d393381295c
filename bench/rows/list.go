package rows

import "github.com/socketxtreme/socketxtreme/bench/harness"

// Network is what all rows run over, for the header of the result.
const Network = "loopback, IPv4; rows named udp-veth over a veth pair between two network namespaces, MTU 1500"

// All lists the families in the order in which they are measured. A test holds that every family declared in this package is on it;
// `go generate ./bench/...` adds those that are missing at the end.
//
//go:generate go test . -run ^TestEveryFamilyIsListed$ -update
var All = []harness.Family{
	layer,
	stack,
	loopback,
	idleConnections,
	applications,
	vethRoundTrips,
	vethReceive,
	vethFirstSend,
}
