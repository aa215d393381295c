package offload_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/internal/wire/malformed"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// rawEnd is a ring on one end of a wire, and at the other end somebody who sends whatever bytes it likes.
type rawEnd struct {
	t    testing.TB
	set  *ring.Set
	s    *ring.Socket
	wire *memory.End
	ours *buffers.DriverPool // the ring's
	pool *buffers.DriverPool // the other end's
	cut  int                 // length of the frame on the wire
	dst  []ring.Completion
}

var (
	stranger = malformed.Station{MAC: macs[1], Addr: subnets[1][0].Addr().As4(), Port: 9}
	us       = malformed.Station{MAC: macs[0], Addr: subnets[0][0].Addr().As4(), Port: 53}
)

func newRawEnd(t testing.TB, mtu int) *rawEnd {
	r := &rawEnd{t: t, pool: newPool(t, layout), ours: newPool(t, layout), dst: make([]ring.Completion, 64)}
	a, b, err := memory.Pair(r.ours, r.pool, memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem1"}, MTU: mtu,
		Faults: [2]memory.Fault{nil, func(frame []byte) ([]byte, int) { return frame[:r.cut], 1 }}})
	require.NoError(t, err)
	r.wire = b
	sc := ring.SetConfig{Transport: kernel.New(), Pool: r.ours}
	side(t, 0, a, mtu, &sc)
	r.set, err = ring.NewSet(sc)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.set.Close())
		require.NoError(t, b.Close())
	})
	r.s, err = r.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	require.NoError(t, err)
	require.NoError(t, r.s.Bind(netip.AddrPortFrom(netip.AddrFrom4(us.Addr), us.Port)))
	return r
}

// put sends a frame, of any length.
func (r *rawEnd) put(frame []byte) {
	r.cut = len(frame)
	p, err := r.pool.Alloc(max(len(frame), 14))
	if err == nil {
		copy(p.Room(), frame)
		p, err = r.pool.Transmit(p)
	}
	if err != nil || r.wire.Send([]link.Out{{Packet: p}}) != 1 || r.wire.Flush() != nil {
		r.t.Fatal("the frame was not sent", err)
	}
	r.wire.Complete(nil)
}

// poll polls, and takes what the ring answered off the wire.
func (r *rawEnd) poll() []ring.Completion {
	n, err := r.s.Ring().Poll(r.dst)
	if err != nil {
		r.t.Fatal(err)
	}
	var frames [64]link.Frame
	for _, f := range frames[:r.wire.Receive(frames[:])] {
		_ = f.Packet.Release()
	}
	return r.dst[:n]
}

// drops are the counters of what was not delivered, by the names of package wire.
func (r *rawEnd) drops() map[string]uint64 {
	all := map[string]uint64{}
	for _, c := range r.s.Ring().Stats().Driver {
		if _, _, ok := strings.Cut(c.Name, "."); ok && c.Value > 0 && isDrop[c.Name] {
			all[c.Name] = c.Value
		}
	}
	return all
}

var isDrop = func() map[string]bool {
	names := map[string]bool{}
	for d := wire.Drop(1); d < wire.NumDrops; d++ {
		names[d.String()] = true
	}
	return names
}()

// A frame in, and it is counted under its reason and nowhere else; no datagram comes out, no buffer stays away, nothing is allocated. What is
// odd and legal is delivered, without what lies behind it.
func TestMalformedFrames(t *testing.T) {
	for _, f := range malformed.Frames(stranger, us) {
		t.Run(f.Class+"/"+f.Name, func(t *testing.T) {
			r := newRawEnd(t, 1500)
			r.poll()
			before := r.s.Ring().Ledger()
			const times = 50
			one := func() {
				r.put(f.Bytes)
				got := r.poll()
				if f.Payload == "" {
					if len(got) > 0 {
						t.Fatal("delivered")
					}
					return
				}
				if len(got) != 1 || string(got[0].Packet.Bytes()) != f.Payload || got[0].Socket != r.s {
					t.Fatalf("%d completions: not the datagram alone", len(got))
				}
				_ = got[0].Packet.Release()
			}
			for range times {
				one()
			}
			want := map[string]uint64{}
			if f.Want != wire.Accept {
				want[f.Want.String()] = times
			}
			require.Equal(t, want, r.drops())
			require.EqualValues(t, times, counter(r.s.Ring(), "mem0.rx_frames"))
			require.Equal(t, before, r.s.Ring().Ledger())
			if !raceEnabled {
				require.Zero(t, testing.AllocsPerRun(100, one), "no frame may cost memory")
			}
		})
	}
}

// Ten thousand fragments of ten thousand packets cost nothing: none is kept.
func TestFragmentFlood(t *testing.T) {
	r := newRawEnd(t, 1500)
	var fragment []byte
	for _, f := range malformed.Frames(stranger, us) {
		if f.Want == wire.IPv4Fragment {
			fragment = f.Bytes
			break
		}
	}
	const flood = 10_000
	before := r.s.Ring().Ledger()
	id := 0
	one := func() {
		id++
		fragment[18], fragment[19] = byte(id>>8), byte(id)
		sum := wire.Sum(0).Add(edit(fragment[14:34], 10, 0, 0)).Check()
		fragment[24], fragment[25] = byte(sum>>8), byte(sum)
		r.put(fragment)
		if len(r.poll()) != 0 {
			t.Fatal("delivered")
		}
	}
	for range flood {
		one()
	}
	require.Equal(t, map[string]uint64{"ipv4.fragment": flood}, r.drops())
	require.Equal(t, before, r.s.Ring().Ledger())
	if !raceEnabled {
		require.Zero(t, testing.AllocsPerRun(100, one))
	}
}

func edit(b []byte, at int, with ...byte) []byte {
	copy(b[at:], with)
	return b
}

// A frame of several buffers with a short packet in it: the rest is cut off, and every buffer returns to the pool.
func TestGarbageBehindAPacket(t *testing.T) {
	r := newRawEnd(t, 9000)
	var good malformed.Frame
	for _, f := range malformed.Frames(stranger, us) {
		if f.Class == "trailing garbage" {
			good = f
		}
	}
	one := func(n int) buffers.Packet {
		r.put(append(append([]byte(nil), good.Bytes...), make([]byte, n)...)[:n])
		got := r.poll()
		require.Len(t, got, 1, "%d bytes", n)
		require.Equal(t, good.Payload, string(got[0].Packet.Bytes()))
		require.Equal(t, len(good.Payload), got[0].Packet.Len())
		return got[0].Packet
	}
	r.poll()
	before := r.s.Ring().Ledger()
	for _, n := range []int{1514, 2048, 2049, 4097, 9000} {
		p := one(n)
		require.Equal(t, 1, p.NumBuffers())
		require.NoError(t, p.Release())
		require.Equal(t, before, r.s.Ring().Ledger())
	}
	// Without a large buffer to gather them in there is still the packet, in the first of its buffers.
	var all []buffers.Packet
	for {
		p, err := r.ours.Alloc(60_000)
		if err != nil {
			break
		}
		all = append(all, p)
	}
	before = r.s.Ring().Ledger()
	require.NoError(t, one(9000).Release())
	require.Zero(t, counter(r.s.Ring(), "stack.no_buffer"), "it was not lost")
	require.Equal(t, before, r.s.Ring().Ledger())
	for _, p := range all {
		require.NoError(t, p.Release())
	}
}
