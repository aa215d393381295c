package live

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Who listens is notified that a line's interface has gone, and that it is back; the other line's is not touched.
func TestTheWayOfALineIsTold(t *testing.T) {
	n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
	var lines []Line
	for i := range 2 {
		l, err := ParseLine([]string{"233.252.0.1:10000@", "233.252.0.2:10000@"}[i] + n.Device(i))
		require.NoError(t, err)
		lines = append(lines, l)
	}
	down := false
	var told []bool // whether it was gone
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	set := func(change func(netlink.Link) error) {
		l, err := netlink.LinkByName(n.Device(0))
		require.NoError(t, err)
		require.NoError(t, change(l))
	}
	l, err := Open(Config{Ring: conf.RingOffload, Channels: []Channel{{Handler: handler.Config{Proto: handler.DEEP}, Lines: lines}},
		Each: func(*Live) {
			switch {
			case len(told) == 2:
				stop()
			case len(told) == 0 && !down:
				set(netlink.LinkSetDown)
				down = true
			case len(told) == 1 && down:
				set(netlink.LinkSetUp)
				down = false
			}
		},
		Moved: func(line string, p xtreme.Path) {
			require.Equal(t, lines[0].String(), line)
			gone := slices.ContainsFunc(p.Reasons, func(r xtreme.Reason) bool { return r.Code == "link.down" || r.Code == "link.detached" })
			if len(told) == 0 || told[len(told)-1] != gone {
				told = append(told, gone)
			}
		}})
	require.NoError(t, err)
	require.NoError(t, l.Run(ctx))
	require.Equal(t, []bool{true, false}, told)
}
