package tcptest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/simnet"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// received sends for a time over a path with a bottleneck, and returns the bytes that the receiver's application had in each slice of it.
func received(t *testing.T, seed uint64, cc tcp.Congestion, slice, total time.Duration, impair simnet.Impairment) (*Network, []int) {
	nw, err := NewNetwork(seed, 2, func(int) tcp.Config { return tcp.Config{} })
	require.NoError(t, err)
	require.NoError(t, nw.Nodes[1].Cable.Set(impair))
	s := tcp.DefaultSettings()
	s.ReceiveBuffer, s.SendBuffer, s.Congestion = 4<<20, 4<<20, cc
	client, server := nw.Nodes[0], nw.Nodes[1]
	l, err := server.Listen(tcp.ListenConfig{Local: tcp.Endpoint{Port: 80}, Backlog: 1, Settings: s})
	require.NoError(t, err)
	var at []int
	server.Handle = func(now clock.Time, c *Conn, e tcp.Event) {
		if e.Kind == tcp.EventAccepted {
			server.Accept(l, 0)
		}
		for n := int(nw.World.Now() / slice); len(at) <= n; {
			at = append(at, 0)
		}
		at[len(at)-1] += len(c.Read(now, c.Unread()))
		require.Zero(t, c.Reason)
	}
	piece := make([]byte, 16384)
	client.Handle = func(now clock.Time, c *Conn, e tcp.Event) {
		for c.Connected && c.Write(now, piece, false) > 0 {
		}
	}
	_, err = client.Connect(nw.Now(), tcp.Dial{Local: tcp.Endpoint{Addr: client.Addr}, Remote: tcp.Endpoint{Addr: server.Addr, Port: 80}, Settings: s})
	require.NoError(t, err)
	client.Wake(nw.Now())
	require.NoError(t, nw.World.RunWhile(total, func() bool { return true }))
	return nw, at
}

// A transfer over a bottleneck is even in spite of the losses by which congestion control finds the rate; the queue has two round trips. In no
// quarter of a second does the application receive less than half of the line's rate, and in the mean it receives what the line carries.
func TestThroughputIsEven(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all")
	}
	const (
		rate  = 10_000_000 // bits a second
		slice = 250 * time.Millisecond
		line  = rate / 8 * int(slice) / int(time.Second) * 1448 / 1514 // of a slice, without headers
	)
	for _, c := range controls[:2] { // without congestion control there is none
		for seed := range uint64(3) {
			nw, at := received(t, seed+1, c.cc, slice, 20*time.Second, simnet.Impairment{Delay: 5 * time.Millisecond, Rate: rate, Queue: 25_000})
			rest := at[4 : len(at)-1] // behind slow start; the last slice is not over
			sum := 0
			for n, bytes := range rest {
				require.Greater(t, bytes, line/2, "%s, seed %d, slice %d of %v", c.name, seed+1, n+4, rest)
				sum += bytes
			}
			require.Greater(t, sum, len(rest)*line*99/100, c.name)
			require.NotZero(t, nw.Nodes[1].Cable.BA.Stats().Lost[simnet.LostQueue], "nothing was lost")
		}
	}
}
