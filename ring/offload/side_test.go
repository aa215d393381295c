package offload_test

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

type ringCompletion = ring.Completion

func driverConfig(pool *buffers.DriverPool) ring.DriverConfig { return ring.DriverConfig{Pool: pool} }

// tagged is v0, and v1 and v2 as VLANs 5 and 6 of it. This kernel has none: see wires. Frames are injected with their tags.
func tagged(t *testing.T) *wires {
	w := newWires(t)
	w.having(0, func(*host.Link) {})
	for i := 1; i < 3; i++ {
		w.having(i, func(l *host.Link) {
			l.Kind, l.Parent, l.VLAN, l.VLANProtocol = host.KindVLAN, w.index[0], uint16(4+i), wire.TypeVLAN
		})
	}
	return w
}

var vlans = [3]nic.Interface{{Name: "v0"}, {Name: "v0", On: "v1", VLAN: 5}, {Name: "v0", On: "v2", VLAN: 6}}

// several are sockets of one ring, and what each got.
type several struct {
	t    *testing.T
	r    *ring.Ring
	list [3]*ring.Socket
	got  [3][]uint64
	path [3]int
}

func (m *several) poll() {
	dst := make([]ring.Completion, 64)
	n, err := m.r.Poll(dst)
	require.NoError(m.t, err)
	for i := range dst[:n] {
		c := &dst[i]
		at := -1
		for j, s := range m.list {
			if s == c.Socket {
				at = j
			}
		}
		require.GreaterOrEqual(m.t, at, 0)
		if c.Events.Has(ring.EventPath) {
			m.path[at]++
		}
		if c.Events.Has(ring.EventPacket) {
			require.False(m.t, c.ViaKernel)
			m.got[at] = append(m.got[at], binary.LittleEndian.Uint64(c.Packet.Bytes()))
			require.NoError(m.t, c.Packet.Release())
		}
	}
}

func (m *several) until(what string, done func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !done(); m.poll() {
		require.True(m.t, time.Now().Before(end), "%s: %v %v\n%v", what, m.got, m.list[1].Path(), m.r.Stats().Driver)
	}
}

// A parent and two VLANs of it, in any order, by one device: frames are told apart by their tags in both directions, an interface that is
// down or deleted concerns its own sockets only, and what happens to the device concerns all.
func TestVLANsShareADevice(t *testing.T) {
	for _, order := range [][3]int{{0, 1, 2}, {1, 0, 2}, {2, 1, 0}} {
		w := tagged(t)
		w.start()
		set, r, driver := w.ring(vlans[order[0]])
		m := &several{t: t, r: r}
		sockets := [3]string{"10.0.0.1:7000", "10.0.1.1:7000", "10.0.2.1:7000"}
		for i, a := range sockets {
			m.list[i] = w.listener(set, a).s
		}
		for _, i := range order[1:] {
			require.NoError(t, offload.AddInterface(driver, vlans[i]))
			require.ErrorIs(t, offload.AddInterface(driver, vlans[i]), unix.EEXIST)
		}
		require.Equal(t, int32(1), w.opened.Load())
		number := uint64(0)
		each := func(want ...int) { // sockets that are to get theirs
			t.Helper()
			m.got = [3][]uint64{}
			for i := range m.list {
				for tag := range uint16(8) { // the right one, and wrong ones
					number++
					w.come("v0", i, tag, m.list[i].LocalAddr(), number<<8|uint64(tag))
				}
			}
			m.until("received", func() bool {
				for _, i := range want {
					if len(m.got[i]) == 0 {
						return false
					}
				}
				return true
			})
			for range 40 {
				m.poll()
			}
			for i := range m.got {
				if len(m.got[i]) == 0 {
					require.NotContains(t, want, i)
					continue
				}
				require.Len(t, m.got[i], 1)
				require.Equal(t, uint64(vlans[i].VLAN), m.got[i][0]&0xff)
			}
			for i, s := range m.list {
				if len(m.got[i]) == 0 {
					continue
				}
				to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 2}), 9)
				_, err := s.SendTo(binary.LittleEndian.AppendUint64(nil, 77), to)
				require.NoError(t, err)
				require.NoError(t, r.Flush())
				require.Equal(t, []left{{vlans[i].VLAN, interfaceMAC(i), to, 77}}, w.gone("v0"))
			}
		}
		for i, s := range m.list {
			require.Equal(t, "bypass", s.Path().Tier, "%v", s.Path())
			require.NotContains(t, s.Path().Explain(), "offload.vlan_shared")
			if i > 0 {
				require.Contains(t, s.Path().Explain(), "VLAN ")
			}
		}
		m.path = [3]int{}
		each(0, 1, 2)

		v1 := *w.link("v1")
		for what, edit := range map[string]func(){"link.down": func() { w.link("v1").Flags = 0 }, "link.gone": func() { w.without("v1") }} {
			m.path = [3]int{}
			edit()
			w.tell()
			m.until(what, func() bool { return m.path[1] > 0 })
			require.Equal(t, "kernel", m.list[1].Path().Tier)
			require.Contains(t, m.list[1].Path().Explain(), what)
			each(0, 2)
			m.path[1] = 0
			w.without("v1")
			w.tables.Links = append(w.tables.Links, v1)
			w.tell()
			m.until("back", func() bool { return m.path[1] > 0 })
			each(0, 1, 2)
			require.Equal(t, [3]int{0, m.path[1], 0}, m.path, "others were told")
		}

		// The parent goes down, and is made again with another number: one device again, for all.
		for _, number := range []int{w.index[0], 5000} {
			m.path = [3]int{}
			w.link("v0").Flags = 0
			w.tell()
			m.until("down", func() bool { return m.path[0] > 0 && m.path[1] > 0 && m.path[2] > 0 })
			for _, s := range m.list {
				require.Equal(t, "kernel", s.Path().Tier)
			}
			if number != w.index[0] {
				parent := *w.link("v0")
				w.without("v0")
				w.tell()
				m.until("gone", func() bool { return w.closed.Load() == 1 })
				w.tables.Links = append(w.tables.Links, parent)
			}
			w.link("v0").Flags = up
			w.tell()
			m.until("up", func() bool {
				return m.list[0].Path().Tier == "bypass" && m.list[1].Path().Tier == "bypass" && m.list[2].Path().Tier == "bypass"
			})
			each(0, 1, 2)
		}
		require.NoError(t, set.Close())
	}
}

// A VLAN on a bond beside the bond itself: tags and members together.
func TestVLANBesideItsBond(t *testing.T) {
	w := bonded(t, host.BondActiveBackup)
	w.having(1, func(l *host.Link) {
		l.Kind, l.Parent, l.VLAN, l.VLANProtocol = host.KindVLAN, w.index[0], 5, wire.TypeVLAN
	})
	w.start()
	set, r, driver := w.ring(bondOnV0)
	m := &several{t: t, r: r}
	m.list[0], m.list[1], m.list[2] = w.listener(set, "10.0.0.1:7000").s, w.listener(set, "10.0.1.1:7000").s, w.listener(set, "10.0.1.1:7002").s
	require.NoError(t, offload.AddInterface(driver, nic.Interface{Name: "v1", On: "v1", VLAN: 5, Bond: true}))
	require.Equal(t, int32(2), w.opened.Load())
	require.Equal(t, []string{"memory m0/0 (jumbo, VLAN 5)", "memory m1/0 (jumbo, VLAN 5, inactive)"}, m.list[1].Path().Links)
	leaves := func(by string) {
		t.Helper()
		for i, s := range m.list[:2] {
			to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 2}), 9)
			_, err := s.SendTo(make([]byte, 8), to)
			require.NoError(t, err)
			require.NoError(t, r.Flush())
			require.Equal(t, []left{{uint16(5 * i), interfaceMAC(i), to, 0}}, w.gone(by))
		}
	}
	leaves("m0")
	for i, name := range []string{"m0", "m1"} {
		w.come(name, 0, 0, m.list[0].LocalAddr(), uint64(i))
		w.come(name, 1, 5, m.list[1].LocalAddr(), uint64(i))
	}
	m.until("all", func() bool { return len(m.got[0]) == 1 && len(m.got[1]) == 1 && counter(r, "eth.inactive") == 2 })
	w.link("v0").BondActive = 1002
	w.link("m1").BondBackup, w.link("m0").BondBackup = false, true
	w.tell()
	m.until("told", func() bool { return m.path[0] > 0 && m.path[1] > 0 })
	leaves("m1")
	w.without("m0")
	w.tell()
	m.until("m0 is closed", func() bool { return w.closed.Load() == 1 })
	leaves("m1")
}

// The MTU of a VLAN is followed up to that of the device it shares, whose buffers and program were made for no longer frames, when it is made
// and when it is made again.
func TestVLANWithALargerMTU(t *testing.T) {
	w := tagged(t)
	w.start()
	set, r, driver := w.ring(vlans[0]) // opened with 1500
	w.link("v0").MTU, w.link("v1").MTU = 1900, 1900
	w.tell()
	require.NoError(t, offload.AddInterface(driver, vlans[1]))
	x := w.listener(set, "10.0.1.1:7000")
	to := netip.MustParseAddrPort("10.0.1.2:9")
	sends := func() {
		t.Helper()
		x.poll()
		_, err := x.s.SendTo(make([]byte, 1472), to)
		require.NoError(t, err)
		_, err = x.s.SendTo(make([]byte, 1473), to) // in parts, or refused: not by the link
		if err != nil {
			require.ErrorIs(t, err, unix.EMSGSIZE)
		}
		require.NoError(t, r.Flush())
		require.Len(t, w.gone("v0"), 1)
		require.Zero(t, counter(r, "v0/0.memory.tx_too_long"))
	}
	sends()
	w.renumber("v1", 7777)
	for range 64 {
		x.poll()
	}
	sends()
	w.link("v1").MTU = 600
	w.tell()
	x.poll()
	_, err := x.s.SendTo(make([]byte, 572), to)
	require.NoError(t, err)
	require.NoError(t, r.Flush())
	require.Len(t, w.gone("v0"), 1)
	w.link("v1").MTU = 1900
	w.tell()
	sends()
}

// A ring without a queue notices too that the VLAN which it has a socket of was made again. The group is joined again with the new number, which
// this kernel refuses, because the interface with that number is of the tables only: the path says so.
func TestVLANMadeAgainWithoutQueues(t *testing.T) {
	w := tagged(t)
	w.start()
	_, _, _ = w.ring(vlans[0]) // has the queue
	without := vlans[1]
	without.Queues = []int{}
	set, _, _ := w.ring(without)
	x := w.listener(set, "0.0.0.0:7000")
	require.NoError(t, x.s.JoinGroup(groupNumber(0), "v1", netip.Addr{}))
	require.Equal(t, w.index[1], ring.OptionsOf(x.s).Groups[0].Interface)
	w.renumber("v1", 7777)
	x.until("joined again", func() bool { return strings.Contains(x.s.Path().Explain(), "after v1 was made again") })
	require.Equal(t, 7777, ring.OptionsOf(x.s).Groups[0].Interface)
}

// renumber deletes an interface and makes it again with another number, addresses and routes too.
func (w *wires) renumber(name string, now int) {
	l := w.link(name)
	was := l.Index
	l.Index = now
	change := func(i *int) {
		if *i == was {
			*i = now
		}
	}
	for i := range w.tables.Addresses {
		change(&w.tables.Addresses[i].Interface)
	}
	for i := range w.tables.Neighbours {
		change(&w.tables.Neighbours[i].Interface)
	}
	for i := range w.tables.Routes {
		for j := range w.tables.Routes[i].Hops {
			change(&w.tables.Routes[i].Hops[j].Interface)
		}
	}
	w.tell()
}

// What is queued for a VLAN that is deleted and made again is lost, and its buffers return to the pool.
func TestVLANMadeAgainLosesWhatIsQueued(t *testing.T) {
	w := tagged(t)
	w.start()
	set, _, driver := w.ring(vlans[0])
	require.NoError(t, offload.AddInterface(driver, vlans[1]))
	x := w.listener(set, "10.0.1.1:7000")
	for round := range 20 {
		x.poll()
		_, err := x.s.SendTo(make([]byte, 8), netip.MustParseAddrPort("10.0.1.2:9"))
		require.NoError(t, err)
		w.renumber("v1", 7777+round)
		for range 64 {
			x.poll()
		}
		w.gone("v0")
		x.until("home", func() bool { return w.pool.Ledger().Transmitting == 0 })
	}
}
