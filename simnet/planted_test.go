package simnet

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// A bug of every kind, put into the world for this purpose, must be found within 200 seeds, under the name of the invariant that it breaks.
func TestPlantedBugsAreFound(t *testing.T) {
	for i, x := range []struct {
		name  string
		found []string // the invariants under which it may be found
		plant func() plant
	}{
		{"a buffer is taken and forgotten", []string{"ledger: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			n.host.pool.Take(buffers.Small)
			return k
		})},
		{"a received packet is kept", []string{"ledger: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			if kindOf(dst[0].Packet.Bytes()) == ARP { // retained twice: the stack's release is not the last
				_ = dst[0].Packet.Retain()
			}
			return k
		})},
		{"a packet is released too early", []string{"content: ", "ledger: "},
			onPoll(ring.EventPacket, func(list []ring.Completion, i int) []ring.Completion {
				if !list[i].Destination.Addr().IsMulticast() { // members share theirs: the ring itself would find that
					_ = list[i].Packet.Release()
				}
				return list
			})},
		{"a frame is received twice", []string{"duplicate: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			if c := clone(n, dst[k-1]); k < len(dst) && !c.Packet.IsZero() && isUDP(c) {
				dst[k] = c
				return k + 1
			} else if !c.Packet.IsZero() {
				_ = c.Packet.Release()
			}
			return k
		})},
		{"a byte changes and the sum is none", []string{"content: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			return alter(dst, k, func(b []byte) { b[len(b)-1] ^= 0x10 })
		})},
		{"a datagram is longer than it was", []string{"content: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			return alter(dst, k, func(b []byte) { binary.BigEndian.PutUint16(b[38:], binary.BigEndian.Uint16(b[38:])-1) })
		})},
		{"another sender is named", []string{"source: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			return alter(dst, k, func(b []byte) { b[35] ^= 1 })
		})},
		{"another socket gets it", []string{"target: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			return alter(dst, k, func(b []byte) {
				if p := binary.BigEndian.Uint16(b[36:]); p == portOf(wildcard) || p == portOf(bound) {
					b[37] ^= 1
				}
			})
		})},
		{"leaving a group does nothing", []string{"target: "}, func() plant {
			return plant{host: func(c *HostConfig) { c.driver = func(d ring.Driver) ring.Driver { return missesLeave{d.(offloaded)} } }}
		}},
		{"two frames change places", []string{"order: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			if k > 1 {
				dst[k-1], dst[k-2] = dst[k-2], dst[k-1]
			}
			return k
		})},
		{"a received frame is lost", []string{"losses: "}, onReceive(func(n *NIC, dst []link.Frame, k int) int {
			if isUDP(dst[k-1]) {
				_ = dst[k-1].Packet.Release()
				return k - 1
			}
			return k
		})},
		{"a completion is lost", []string{"losses: "}, onPoll(ring.EventPacket, func(list []ring.Completion, i int) []ring.Completion {
			_ = list[i].Packet.Release()
			return append(list[:i], list[i+1:]...)
		})},
		{"a frame is lost on the way out", []string{"losses: "}, onSend(func(n *NIC, src []link.Out) []link.Out {
			o := src[0]
			if o.Token != 0 {
				return src
			}
			n.host.pool.Complete(o.Packet)
			_ = o.Packet.Release()
			return src[1:]
		})},
		{"frames change places on the way out", []string{"order: "}, onSend(func(n *NIC, src []link.Out) []link.Out {
			if k := len(src); k > 1 {
				src[0], src[k-1] = src[k-1], src[0]
			}
			return src
		})},
		{"a line loses a frame", []string{"losses: "}, onLine(func(l *Line, e event, push func(event)) { l.world.releaseFrame(e.frame) })},
		{"a line doubles a frame", []string{"duplicate: "}, onLine(func(l *Line, e event, push func(event)) {
			e.frame.refs++
			l.stats.InFlight++
			l.stats.Duplicated++
			push(e)
			push(e)
		})},
		{"a line keeps a frame back", []string{"order: "}, onLine(func(l *Line, e event, push func(event)) {
			e.at += int64(100 * time.Millisecond)
			push(e)
		})},
		{"time goes back", []string{"time: "}, onLine(func(l *Line, e event, push func(event)) {
			e.at = l.world.now - 1
			push(e)
		})},
		{"a packet has another time", []string{"time: "}, onPoll(ring.EventPacket, func(list []ring.Completion, i int) []ring.Completion {
			list[i].Time.Nanos--
			return list
		})},
		{"a line draws from elsewhere", []string{"repeat: "}, onLine(func(l *Line, e event, push func(event)) {
			e.at += int64(rand.N(1000))
			e.late = true
			push(e)
		})},
		{"a packet comes after Close", []string{"closed: "}, afterClose},
		{"CLOSED comes twice", []string{"closed: "}, onPoll(ring.EventClosed, func(list []ring.Completion, i int) []ring.Completion {
			return append(list, list[i])
		})},
		{"CLOSED never comes", []string{"closed: "}, onPoll(ring.EventClosed, func(list []ring.Completion, i int) []ring.Completion {
			return append(list[:i], list[i+1:]...)
		})},
		{"SENT comes twice", []string{"sent: "}, onPoll(ring.EventSent, func(list []ring.Completion, i int) []ring.Completion {
			return append(list, list[i])
		})},
		{"SENT never comes", []string{"out: ", "closed: "}, onPoll(ring.EventSent, func(list []ring.Completion, i int) []ring.Completion {
			return append(list[:i], list[i+1:]...)
		})},
		{"SENT has failed and has not", []string{"sent: "}, onPoll(ring.EventSent, func(list []ring.Completion, i int) []ring.Completion {
			list[i].Err = ring.ErrClosed
			return list
		})},
		{"OUT never comes", []string{"out: "}, onPoll(ring.EventOut, func(list []ring.Completion, i int) []ring.Completion {
			return append(list[:i], list[i+1:]...)
		})},
		{"an error of nobody", []string{"refused: "}, onPoll(ring.EventPacket, func(list []ring.Completion, i int) []ring.Completion {
			x := ring.Completion{Events: ring.EventErr, UserData: list[i].UserData, Socket: list[i].Socket, Err: ring.ErrClosed}
			return append(list, x)
		})},
		{"a card stops receiving", []string{"liveness: "}, func() plant {
			return plant{host: func(c *HostConfig) { c.link = func(l link.Staged) link.Staged { return &asleep{NIC: l.(*NIC)} } }}
		}},
		{"a ring that always has work", []string{"livelock: "}, func() plant {
			return plant{host: func(c *HostConfig) { c.poller = func(p poller) poller { return restless{p} } }}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if raceEnabled && i%7 != 0 { // what the race detector looks at is the same for all
				t.Skip("without the race detector only")
			}
			t.Parallel()
			shrinks := 10
			if raceEnabled || testing.Short() {
				shrinks = -1
			}
			f, ran := Trial[op]{Count: 200, Workers: 1, Shrinks: shrinks, Generate: generate,
				Run: func(seed uint64, ops []op) (uint64, error) {
					_, trace, err := play(seed, ops, x.plant())
					return trace, err
				}}.Search()
			require.NotNil(t, f, "not found in %d seeds", ran)
			require.True(t, slices.ContainsFunc(x.found, func(s string) bool { return strings.Contains(f.Err.Error(), s) }), "%v", f.Err)
			if shrinks > 0 {
				require.Less(t, len(f.Ops), f.From)
			}
			t.Logf("%d seeds, %d of %d operations: %v", ran, len(f.Ops), f.From, f.Err)
		})
	}
}
