package udp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// The ring of bytes against a list, with sizes that make it wrap at every place.
func TestBacklogAgainstAList(t *testing.T) {
	type datagram struct {
		h       BacklogRecord
		payload []byte
	}
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		var b Backlog
		b.Limit(4096 + 8*r.IntN(100))
		var list []datagram
		refused := 0
		for step := range 2000 {
			if r.IntN(2) == 0 {
				h := BacklogRecord{Flow: Flow{Source: x, Target: grp, SourcePort: uint16(r.IntN(65536)), TargetPort: uint16(step), Interface: uint32(r.IntN(9))},
					Nanos: r.Int64(), Clock: ip.Clock(r.IntN(3))}
				payload := make([]byte, r.IntN(900))
				for i := range payload {
					payload[i] = byte(r.Uint32())
				}
				if b.Push(&h, payload) {
					h.Len = len(payload)
					list = append(list, datagram{h, payload})
				} else {
					refused++
					used := 0
					for _, d := range list {
						used += recordBytes + len(d.payload) + 7
					}
					// What is left over at the end, where a record did not fit, is lost until the first of the ring goes past it.
					require.Greater(t, used+2*(recordBytes+900+8), 4096, "seed %d step %d: refused with room to spare", seed, step)
				}
			} else {
				h, ok := b.Peek()
				require.Equal(t, len(list) > 0, ok)
				if !ok {
					continue
				}
				require.Equal(t, list[0].h, h, "seed %d step %d", seed, step)
				got := make([]byte, h.Len)
				b.Pop(got)
				require.True(t, bytes.Equal(list[0].payload, got), "seed %d step %d", seed, step)
				list = list[1:]
			}
			require.Equal(t, len(list), b.Len())
		}
		require.NotZero(t, refused)
	}
}

func TestParsePolicies(t *testing.T) {
	good, err := (&wire.UDPFields{SourcePort: 9, TargetPort: 53}).Append(nil, x, us, []byte("payload"))
	require.NoError(t, err)
	header, err := (&wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolUDP, Source: x, Target: us}).Append(nil, len(good))
	require.NoError(t, err)
	ip := (*wire.IPv4)(header)
	sum := func(s uint16) []byte {
		b := bytes.Clone(good)
		b[6], b[7] = byte(s>>8), byte(s)
		return b
	}
	partial := uint16(wire.Pseudo(x, us, wire.ProtocolUDP, uint16(len(good))))
	for _, c := range []struct {
		name    string
		b       []byte
		policy  Policy
		partial bool
		drop    wire.Drop
	}{
		{"good", good, Strict, false, wire.Accept},
		{"none", sum(0), Strict, false, wire.Accept},
		{"wrong", sum(0x1234), Strict, false, wire.UDPSum},
		{"wrong, partial accepted", sum(0x1234), AcceptPartial, false, wire.UDPSum},
		{"wrong, off", sum(0x1234), Off, false, wire.Accept},
		{"partial", sum(partial), Strict, false, wire.UDPPartial},
		{"partial accepted", sum(partial), AcceptPartial, true, wire.Accept},
		{"short", good[:7], Off, false, wire.UDPShort},
		{"cut", good[:12], Off, false, wire.UDPLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, payload, partial, drop := Parse(ip, c.b, c.policy)
			require.Equal(t, c.drop.String(), drop.String())
			require.Equal(t, c.partial, partial)
			if drop == wire.Accept {
				require.Equal(t, uint16(53), h.TargetPort())
				require.Equal(t, "payload", string(payload))
			}
		})
	}
	require.Equal(t, "accept-partial", AcceptPartial.String())
}
