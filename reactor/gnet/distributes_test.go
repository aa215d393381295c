package gnet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Who chooses the loop of an accepted connection: the kernel with ReusePort alone, and always in exact gnet with
// ReusePort, the policy otherwise.
func TestWhoChoosesTheLoop(t *testing.T) {
	tcp, local := &endpoint{network: "tcp"}, &endpoint{network: "unix"}
	for _, c := range []struct {
		options    Options
		tcp, local bool
	}{
		{Options{NumEventLoop: 1}, false, false},
		{Options{NumEventLoop: 1, ReusePort: true, LB: LeastConnections}, false, false},
		{Options{NumEventLoop: 2}, true, true},
		{Options{NumEventLoop: 2, ReusePort: true}, false, true},
		{Options{NumEventLoop: 2, ReusePort: true, LB: LeastConnections}, true, true},
		{Options{NumEventLoop: 2, ReusePort: true, LB: LeastConnections, ExactGnet: true}, false, true},
	} {
		eng := &engine{opts: &c.options}
		require.Equal(t, c.tcp, eng.distributes(tcp), "%+v", c.options)
		require.Equal(t, c.local, eng.distributes(local), "%+v", c.options)
	}
}
