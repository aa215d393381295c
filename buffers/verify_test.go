package buffers

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// The other tests trust Verify: it must notice every kind of damage.
func TestVerifyNotices(t *testing.T) {
	for name, damage := range map[string]func(p *DriverPool, pk Packet){
		"buffer twice on a free list":  func(p *DriverPool, _ Packet) { f := &p.free[Small]; f.stack[0] = f.stack[1] },
		"buffer on the wrong list":     func(p *DriverPool, _ Packet) { p.free[Small].stack[0] = p.free[Large].stack[0] },
		"index out of range":           func(p *DriverPool, _ Packet) { p.free[Small].stack[0] = 99 },
		"buffer missing from the list": func(p *DriverPool, _ Packet) { p.free[Small].n-- },
		"live buffer on a free list":   func(p *DriverPool, pk Packet) { p.free[Small].push(pk.head) },
		"reference to a free buffer":   func(p *DriverPool, _ Packet) { p.meta[p.free[Small].stack[0]].bufRefs = 1 },
		"ready on a queue":             func(p *DriverPool, _ Packet) { p.AddReadyQueue().Set(p.layout.SmallCount) },
		"available count":              func(p *DriverPool, _ Packet) { p.avail[Large]++ },
		"lost buffer":                  func(p *DriverPool, pk Packet) { p.meta[pk.head].refs = 0 },
		"mixed states":                 func(p *DriverPool, pk Packet) { p.meta[pk.head].state = stateTransmitting },
		"unknown state":                func(p *DriverPool, pk Packet) { p.setState(pk.head, numStates) },
		"state of nobody":              func(p *DriverPool, pk Packet) { p.setState(pk.head, stateLent) },
		"chain's count":                func(p *DriverPool, pk Packet) { p.chains[pk.head].count++ },
		"chain's bytes":                func(p *DriverPool, pk Packet) { p.chains[pk.head].bytes++ },
		"chain's tail":                 func(p *DriverPool, pk Packet) { p.chains[pk.head].tail = pk.head },
		"chain in a circle":            func(p *DriverPool, pk Packet) { p.meta[p.chains[pk.head].tail].next = pk.head },
		"reference inside a chain":     func(p *DriverPool, pk Packet) { p.meta[p.chains[pk.head].tail].flags = flagRead },
		"payload outside its buffer":   func(p *DriverPool, pk Packet) { p.meta[pk.head].off += p.strides[Small] },
		"front outside the chain": func(p *DriverPool, pk Packet) {
			p.meta[pk.head].flags |= flagRead
			p.chains[pk.head].front = p.free[Small].stack[0]
		},
		"loan without lender":   func(p *DriverPool, pk Packet) { p.loans[pk.head].Store(loanWord(0, 1)) },
		"lender without loan":   func(p *DriverPool, pk Packet) { p.meta[pk.head].flags |= flagLoan },
		"kept without keeper":   func(p *DriverPool, _ Packet) { i, _ := p.Take(Small); p.meta[i].state = stateRetained },
		"charge":                func(p *DriverPool, _ Packet) { p.accounts[1].used[Small]++ },
		"charge of another":     func(p *DriverPool, pk Packet) { p.meta[pk.head].account = 0 },
		"account not settled":   func(p *DriverPool, _ Packet) { p.accounts[2].closed = true },
		"account not listed":    func(p *DriverPool, _ Packet) { p.accounts[2].id = 0 },
		"account still charged": func(p *DriverPool, _ Packet) { p.accounts[1].id = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			l := Layout{SmallSize: 64, SmallCount: 6, LargeSize: 200, LargeCount: 2}
			p, err := New(make([]byte, l.Bytes()), l)
			require.NoError(t, err)
			a, err := p.OpenAccount(0)
			require.NoError(t, err)
			_, err = p.OpenAccount(0)
			require.NoError(t, err)
			var pk Packet
			for range 3 {
				i, ok := p.Take(Small)
				require.True(t, ok)
				pk = p.Append(pk, p.Fill(i, 0, 10, a))
			}
			require.NoError(t, p.Verify())
			damage(p, pk)
			err = p.Verify()
			require.Error(t, err)
			t.Log(err)
		})
	}
}

func TestStateNames(t *testing.T) {
	seen := map[string]bool{}
	for s := range numStates {
		require.NotEmpty(t, s.String())
		require.False(t, seen[s.String()])
		seen[s.String()] = true
	}
	require.Equal(t, "state(9)", numStates.String())
}

func TestMetaSize(t *testing.T) {
	require.LessOrEqual(t, reflect.TypeFor[meta]().Size(), uintptr(32))
}

// Indexes and places are computed in 32 bits that may wrap on the way: they must come out right for a pool near 4 GiB.
func TestPlacesInALargeRegion(t *testing.T) {
	l := Layout{SmallSize: 2048, SmallCount: 1_000_000, LargeSize: 65536, LargeCount: 30_000, Headroom: 192}
	require.NoError(t, l.Validate())
	p := &Pool{layout: l, small: uint32(l.SmallCount)}
	p.divide()
	require.EqualValues(t, 999_999*2240, p.base(999_999))
	require.EqualValues(t, 1_000_000*2240, p.end(999_999))
	require.EqualValues(t, 1_000_000*2240, p.base(1_000_000))
	require.EqualValues(t, 1_000_000*2240+29_999*65728, p.base(1_029_999))
	require.EqualValues(t, l.Bytes(), p.end(1_029_999))
}
