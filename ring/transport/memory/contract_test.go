package memory_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// contract is the stream half of the suite over a network with some impairment.
func contract(t *testing.T, ours, theirs memory.Impairment, sleeps int, without map[string]string) {
	ringtest.Run(t, ringtest.Backend{Name: "memory", Caps: ring.CapWindowAtRelease | ring.CapOutPerAck | ring.CapZeroCopySend, Streams: true, Sleeps: sleeps,
		Without: without,
		Open: func(t *testing.T, _ *buffers.DriverPool, c *ring.SetConfig) ringtest.Peers {
			n := memory.NewNetwork(1)
			p := protocol.Config{ConnectTries: 3, TimeWait: 50 * time.Millisecond, RTOInitial: testnet.Slow(30 * time.Millisecond),
				RTOMin: testnet.Slow(10 * time.Millisecond)}
			link, err := n.NewLink(memory.LinkConfig{Addrs: ringAddrs})
			require.NoError(t, err)
			host, err := memory.New(memory.Config{Link: link, Protocol: p, Seed: 1})
			require.NoError(t, err)
			others := newPeers(t, n, p)
			link.Impair(ours)
			others.link.Impair(theirs)
			c.Transport, c.Driver, c.OneRing = host, host.Driver, memory.OneRing
			c.Kind = "memory"
			return others
		}})
}

func TestContract(t *testing.T) { contract(t, memory.Impairment{}, memory.Impairment{}, 2000, nil) }

// The same over wires that take their time, lose frames, and let go of the sender's memory late. A reset is sent once, so it is not lost; what
// only holds where everything arrives at once is left out.
func TestContractOverABadNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	const loss = 0.02
	random := rand.New(rand.NewPCG(3, 4))
	lose := func(s *protocol.Segment) bool { return s.Flags&protocol.RST == 0 && random.Float64() < loss }
	var mu sync.Mutex
	theirs := func(s *protocol.Segment) bool { mu.Lock(); defer mu.Unlock(); return lose(s) }
	const arrivesLate = "the peer's segment may be lost, and come after the close: the answer is a reset"
	contract(t, memory.Impairment{Hold: 300 * time.Microsecond, Delay: 100 * time.Microsecond, Lose: theirs},
		memory.Impairment{Delay: 100 * time.Microsecond, Lose: theirs}, 200, map[string]string{
			"data sent just before close arrives":                                    arrivesLate,
			"linger waits for the peer's FIN":                                        arrivesLate,
			"reset before it was accepted: announced, with its data, then the reset": "what is lost before a reset does not come again",
			"a stopped socket that is reset under a send delivers what it has":       "what is lost before a reset does not come again",
			"sending to a reset connection":                                          "the reset may be under way",
			"wake by Wait":                                                           "what ends a sleep may be lost, and come again late",
			"wake by FD":                                                             "what ends a sleep may be lost, and come again late",
			"release from another goroutine":                                         "thousands of round trips, each of which may wait for a time-out",
			"thousands of children":                                                  "two thousand handshakes, one after the other",
			"close with sends under way":                                             "a slow network is not a peer that takes nothing",
		})
}
