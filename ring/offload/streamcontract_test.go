package offload_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
)

const streamCaps = contractCaps | ring.CapWindowAtRelease | ring.CapOutPerAck

// The stream half of the suite with our own TCP at both ends of a memory link.
func TestStreamContractOverMemory(t *testing.T) { streamContract(t, 1500) }

func streamContract(t *testing.T, mtu int) {
	var x atomic.Pointer[offload.Exchange] // of the case that was opened last; those that look at it run alone
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: streamCaps, Streams: true, Has: []string{ringtest.KeepAlive, ringtest.AcceptAway},
		Inspect: inspectIn(&x), Refuse: refuseIn(&x), Sleeps: wakeUps,
		Open: func(t *testing.T, pool *buffers.DriverPool, c *ring.SetConfig) ringtest.Peers {
			others := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 8192, LargeSize: 65536, LargeCount: 32, Headroom: 192})
			ours, theirs, err := memory.Pair(pool, others, memory.Config{Names: [2]string{"mem0", "mem1"}, Addrs: macs, MTU: mtu, Slots: 512})
			require.NoError(t, err)
			deaf := &deafPorts{}
			x.Store(streamSide(t, 0, deafLink{ours, deaf}, mtu, quickTCP(false), c))
			return newStreamPeers(t, deafLink{theirs, deaf}, deaf, others, mtu)
		}})
}
