package udp_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
)

// The names of package iptest, short.
const iface = iptest.Iface

var (
	us, peer, gateway, subnet, grp, none4 = iptest.Us, iptest.Peer, iptest.Gateway, iptest.Subnet, iptest.Group, iptest.None
	ourMAC, peerMAC                       = iptest.OurMAC, iptest.PeerMAC
)

// world has the methods of the tests of this package besides.
type world struct{ *iptest.World }

func newWorld(t testing.TB, change ...func(*ip.Config)) *world {
	return &world{iptest.NewWorld(t, change...)}
}
