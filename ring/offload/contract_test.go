package offload_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
)

const contractCaps = ring.CapZeroCopySend | ring.CapSharedMulticast | ring.CapPathChanges

const overshoot = 64 // one burst of a link

// wakeUps is how often each wake-up case of the suite sleeps: it runs over five kinds of links, which share the falling asleep.
const wakeUps = 1500

func TestContractOverMemory(t *testing.T) { contractOverMemory(t, wakeUps) }

// The same when no received frame takes the fast path.
func TestContractOverMemoryWithoutFastPath(t *testing.T) {
	offload.WithoutFastPath(t)
	contractOverMemory(t, 100)
}

func contractOverMemory(t *testing.T, sleeps int) {
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: contractCaps, Overshoot: overshoot,
		Datagrams: true, Whole: true, Stamp: ring.StampPoll, Sleeps: sleeps,
		Open: func(t *testing.T, pool *buffers.DriverPool, c *ring.SetConfig) ringtest.Peers {
			const mtu = 65535
			others := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 32, Headroom: 192})
			ours, theirs, err := memory.Pair(pool, others, memory.Config{Names: [2]string{"mem0", "mem1"}, Addrs: macs, MTU: mtu, Slots: 512})
			require.NoError(t, err)
			side(t, 0, ours, mtu, c)
			return newMachine(t, theirs, others, mtu)
		}})
}

// The kernel's side alone: every socket is bound to the loopback interface, which is not the ring's, so that all packets come and go through the
// shadows. What is delivered must obey the same contract.
func TestContractThroughTheShadows(t *testing.T) {
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: contractCaps, Overshoot: overshoot,
		Datagrams: true, Sleeps: wakeUps,
		Open: func(t *testing.T, pool *buffers.DriverPool, c *ring.SetConfig) ringtest.Peers {
			testnet.New(t, testnet.Pair{}) // v0 is the ring's interface, lo is not
			c.Kind, c.OneRing = "offload", offload.OneRing
			claims := &fakeSteering{claims: map[link.Flow]int{}}
			c.Driver = offload.New(offload.Config{Exchange: besideKernel(t, pool, claims), Interfaces: []nic.Interface{{Name: "v0"}}})
			return ringtest.Loopback(t)
		}})
}
