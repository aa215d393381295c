package live

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// One poller over two interfaces: a flood that waits on one delays the packets of the other by two polls at most,
// whichever it is.
func TestAFloodOnOneInterfaceDelaysTheOtherByTwoPolls(t *testing.T) {
	const flood, few, room = 512, 8, 16
	for flooded := range 2 {
		n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
		c := Config{Ring: conf.RingOffload, Channels: []Channel{{Handler: handler.Config{Name: "test", Proto: handler.DEEP}}}}
		var from [2]*net.UDPConn
		for i := range from {
			c.Channels[0].Lines = append(c.Channels[0].Lines, Line{Group: group(byte(1+i), 10_000), Interface: n.Device(i)})
			n.InPeer(func() {
				var err error
				from[i], err = replay.Sender([]string{"p0", "p1"}[i])
				require.NoError(t, err)
			})
			defer from[i].Close()
		}
		l, err := Open(c)
		require.NoError(t, err)
		claimed := func() uint64 {
			l.account()
			return l.ring.Counters["v0.steer.hit"] + l.ring.Counters["v1.steer.hit"]
		}
		for line, count := range [][2]int{{flood, few}, {few, flood}}[flooded] {
			for range count {
				_, err := from[line].WriteToUDPAddrPort([]byte("packet"), c.Channels[0].Lines[line].Group)
				require.NoError(t, err)
			}
		}
		for end := time.Now().Add(patient); claimed() < flood+few; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(end), "%v", l.ring.Counters)
		}
		var done [room]xtreme.Completion
		var got [2]int
		for polls := 0; got[0]+got[1] < flood+few; polls++ {
			k, err := l.poller.Poll(done[:])
			require.NoError(t, err)
			for i := range done[:k] {
				if d := &done[i]; d.Events.Has(xtreme.EventPacket) {
					require.False(t, d.ViaKernel)
					got[l.routes[d.UserData].line]++
					require.NoError(t, d.Packet.Release())
				}
			}
			if polls == 1 {
				require.Equal(t, few, got[1-flooded], "%v", got)
				require.NotZero(t, got[flooded])
			}
			require.Less(t, polls, flood+few, "%v", got)
		}
		require.NoError(t, l.close())
	}
}
