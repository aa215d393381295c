package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Groups are counted on the interface that they were joined on, those of several sockets or sources once, IPv4 alone: the kernel's count has no
// others.
func TestGroupsByInterface(t *testing.T) {
	socket := func(groups, interfaces string) stats.View {
		return stats.View{Info: map[string]string{"groups": groups, "group_interfaces": interfaces}}
	}
	require.Equal(t, map[string]int{"eth0": 2, "eth1": 1, "": 1}, joinedOn([]stats.View{
		socket("239.1.1.1,239.1.1.2<10.0.0.1,239.1.1.2<10.0.0.2", "eth0,eth0,eth0"),
		socket("239.1.1.1,239.1.1.1,ff02::9", "eth0,eth1,eth1"),
		socket("239.1.1.3", ""),
		socket("", ""),
	}))
}
