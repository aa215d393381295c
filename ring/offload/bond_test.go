package offload_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// This kernel has no bonds: the tables are made up, the members are memory links (type wires). What is real are the shadows.

// bonded is v0 as a bond of m0 and m1.
func bonded(t *testing.T, mode uint8) *wires {
	w := newWires(t)
	w.having(0, func(l *host.Link) { l.Kind, l.BondMode = host.KindBond, mode })
	for i := range 2 {
		w.carrying(1001+i, fmt.Sprintf("m%d", i), func(l *host.Link) { l.Master = w.index[0] })
	}
	if mode == host.BondActiveBackup {
		w.link("v0").BondActive = 1001
		w.link("m1").BondBackup = true
	}
	return w
}

var bondOnV0 = nic.Interface{Name: "v0", Bond: true}

// Active-backup: what comes is taken on the active member alone, which sends too; on the backup it is dropped and counted, as in the kernel
// (all_slaves_active 0): a switch that floods sends it to both. When the kernel makes the other one active, the next datagram leaves there,
// once the mirror has told.
func TestBondActiveBackup(t *testing.T) {
	w := bonded(t, host.BondActiveBackup)
	w.start()
	set, r, _ := w.ring(bondOnV0)
	x := w.listener(set, "10.0.0.1:7000")
	group := netip.MustParseAddr("239.1.2.3")
	g := w.listener(set, "239.1.2.3:7001")
	require.NoError(t, g.s.JoinGroup(group, "v0", netip.Addr{}))
	p := x.s.Path()
	require.Equal(t, "bypass", p.Tier)
	require.Equal(t, []string{"memory m0/0 (jumbo)", "memory m1/0 (jumbo, inactive)"}, p.Links)

	at := x.s.LocalAddr()
	w.come("m0", 0, 0, at, 1)
	w.come("m1", 0, 0, at, 2)
	w.come("m0", 0, 0, netip.AddrPortFrom(group, 7001), 3)
	w.come("m1", 0, 0, netip.AddrPortFrom(group, 7001), 4)
	x.until("each once", func() bool { return len(x.seen) == 2 && counter(r, "eth.inactive") == 2 })
	require.True(t, x.seen[1] && x.seen[3])
	require.Zero(t, w.passed)

	for i := range uint64(5) {
		x.send("10.0.0.2:9", i)
	}
	require.Len(t, w.gone("m0"), 5)
	require.Empty(t, w.gone("m1"))

	for round := range 4 {
		active, backup := "m1", "m0"
		if round%2 == 1 {
			active, backup = backup, active
		}
		w.link("v0").BondActive = w.link(active).Index
		w.link(active).BondBackup, w.link(backup).BondBackup = false, true
		if round == 0 {
			w.link(backup).Flags &^= unix.IFF_LOWER_UP // the cable was pulled
		}
		events := x.path
		w.tell()
		turns := 0
		for ; x.path == events; x.poll() {
			require.Less(t, turns, 32, "turns until the switch")
			turns++
		}
		x.send("10.0.0.2:9", uint64(round))
		require.Equal(t, []left{{0, interfaceMAC(0), netip.MustParseAddrPort("10.0.0.2:9"), uint64(round)}}, w.gone(active))
		require.Empty(t, w.gone(backup))
		require.Contains(t, x.s.Path().Explain(), "memory "+backup+"/0 (jumbo, inactive)")
		require.NotContains(t, x.s.Path().Explain(), "memory "+active+"/0 (jumbo, inactive)")
		number := uint64(100 + round)
		w.come(active, 0, 0, netip.AddrPortFrom(group, 7001), number)
		w.come(backup, 0, 0, netip.AddrPortFrom(group, 7001), 1000+number)
		w.come(active, 0, 0, at, 2000+number)
		w.come(backup, 0, 0, at, 3000+number)
		x.until("the group's and ours", func() bool { return x.seen[number] && x.seen[2000+number] })
		require.False(t, x.seen[1000+number] || x.seen[3000+number])
	}
	require.Equal(t, "bypass", x.s.Path().Tier)
}

// What was queued for a member and for a neighbour not known yet leaves by the other one when that is made the active one.
func TestBondSwitchKeepsWhatWaits(t *testing.T) {
	w := bonded(t, host.BondActiveBackup)
	neighbours := w.tables.Neighbours
	w.tables.Neighbours = nil
	w.start()
	set, _, _ := w.ring(bondOnV0)
	x := w.listener(set, "10.0.0.1:7000")
	x.send("10.0.0.2:9", 1) // waits for its neighbour
	require.Empty(t, w.gone("m0"))
	w.link("v0").BondActive = w.link("m1").Index
	w.link("m0").BondBackup, w.link("m1").BondBackup = true, false
	w.link("m0").Flags = 0
	w.tell()
	x.until("told", func() bool { return x.path > 0 })
	w.tables.Neighbours = neighbours
	w.tell()
	var list []left
	x.until("it leaves", func() bool { list = append(list, w.gone("m1")...); return len(list) > 0 })
	require.Equal(t, uint64(1), list[0].number)
	require.Empty(t, w.gone("m0"))
	require.Contains(t, x.s.Path().Explain(), "interface m0 is down")
	require.Equal(t, "bypass", x.s.Path().Tier)
}

// The same where the active member leaves the bond in the moment in which the other one is made active.
func TestBondLeaverHandsOnWhatWaits(t *testing.T) {
	w := bonded(t, host.BondActiveBackup)
	neighbours := w.tables.Neighbours
	w.tables.Neighbours = nil
	w.start()
	set, _, _ := w.ring(bondOnV0)
	x := w.listener(set, "10.0.0.1:7000")
	x.send("10.0.0.2:9", 1) // waits for its neighbour
	w.link("v0").BondActive = w.link("m1").Index
	w.link("m0").Master, w.link("m1").BondBackup = 0, false
	w.tell()
	x.until("told", func() bool { return x.path > 0 })
	w.tables.Neighbours = neighbours
	w.tell()
	var list []left
	x.until("it leaves", func() bool { list = append(list, w.gone("m1")...); return len(list) > 0 })
	require.Equal(t, uint64(1), list[0].number)
}

// Balance-xor and 802.3ad: each flow leaves by one member, all members are used, and a member without a carrier by none.
func TestBondSpreadsFlows(t *testing.T) {
	for _, mode := range []uint8{host.BondXOR, host.Bond8023AD} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			w := bonded(t, mode)
			w.start()
			set, _, _ := w.ring(bondOnV0)
			x := w.listener(set, "10.0.0.1:7000")
			const flows = 64
			all := func(members ...string) map[string]int {
				where, count := map[netip.AddrPort]string{}, map[string]int{}
				for round := range uint64(3) {
					for i := range flows {
						x.send(fmt.Sprintf("10.0.0.2:%d", 9000+i), round)
					}
					for _, name := range members {
						for _, l := range w.gone(name) {
							require.Equal(t, round, l.number)
							was, known := where[l.to]
							require.True(t, !known || was == name, "%v left by %s and %s", l.to, was, name)
							where[l.to] = name
							count[name]++
						}
					}
				}
				require.Len(t, where, flows)
				return count
			}
			change := func(edit func()) {
				events := x.path
				edit()
				w.tell()
				x.until("told", func() bool { return x.path > events })
			}
			n := all("m0", "m1")
			require.Equal(t, 3*flows, n["m0"]+n["m1"])
			require.Greater(t, n["m0"], flows/2)
			require.Greater(t, n["m1"], flows/2)
			change(func() { w.link("m1").Flags &^= unix.IFF_LOWER_UP })
			require.Equal(t, map[string]int{"m0": 3 * flows}, all("m0", "m1"))
			change(func() { w.link("m1").Flags |= unix.IFF_LOWER_UP })
			require.Equal(t, n, all("m0", "m1"), "as before")
			for i, name := range []string{"m0", "m1"} {
				w.come(name, 0, 0, x.s.LocalAddr(), uint64(i))
			}
			x.until("received on all", func() bool { return len(x.seen) == 2 })
			w.come("m0", 0, 0, netip.MustParseAddrPort("10.0.0.1:4000"), 9) // LACP, ARP, others' ports: not claimed
			require.Equal(t, 1, w.passed)
		})
	}
}

// Members come and go: one that joins is opened beside the polls, with all that is claimed; of one that leaves device and buffers are given
// back.
func TestBondMembersComeAndGo(t *testing.T) {
	w := bonded(t, host.BondXOR)
	w.start()
	set, r, _ := w.ring(bondOnV0)
	x := w.listener(set, "10.0.0.1:7000")
	join := func(index int, name string) {
		w.carrying(index, name, func(l *host.Link) { l.Master = w.index[0] })
		events := x.path
		w.tell()
		x.until(name+" has joined", func() bool { return x.path > events && strings.Contains(x.s.Path().Explain(), name) })
	}
	for round := range uint64(3) {
		join(1003, "m2")
		x.until("it sends", func() bool {
			for i := range 16 {
				x.send(fmt.Sprintf("10.0.0.2:%d", 9000+i), 0)
			}
			return len(w.gone("m2")) > 0
		})
		later := w.listener(set, fmt.Sprintf("10.0.0.1:%d", 7100+round))
		w.come("m2", 0, 0, x.s.LocalAddr(), 10*round)
		w.come("m2", 0, 0, later.s.LocalAddr(), 10*round+1)
		x.until("it receives", func() bool { return x.seen[10*round] && x.seen[10*round+1] })
		w.without("m2")
		events := x.path
		closed := w.closed.Load()
		w.tell()
		x.until("it has left", func() bool { return x.path > events && w.closed.Load() > closed })
		require.NotContains(t, x.s.Path().Explain(), "m2")
		require.Equal(t, "bypass", x.s.Path().Tier)
		require.Empty(t, w.device("m2").claims)
	}
	places := len(r.Stats().Driver)
	join(1004, "m3")
	require.Equal(t, places, len(r.Stats().Driver), "the place of one that left is used again")

	// All go: the kernel has the bond's traffic, and the path says why; then they are back.
	list := w.tables.Links
	for _, name := range []string{"m0", "m1", "m3"} {
		w.without(name)
	}
	events := x.path
	w.tell()
	x.until("none", func() bool { return x.path > events })
	require.Equal(t, "kernel", x.s.Path().Tier)
	require.Contains(t, x.s.Path().Explain(), "link.bond_empty")
	w.tables.Links = list
	w.tell()
	x.until("back", func() bool { return x.s.Path().Tier == "bypass" && strings.Contains(x.s.Path().Explain(), "m3") })
	require.NotContains(t, x.s.Path().Explain(), "link.bond_empty")

	// A mode that this stack does not speak, while it runs.
	w.link("v0").BondMode = host.BondRoundRobin
	w.tell()
	x.until("refused", func() bool { return x.s.Path().Tier == "kernel" })
	require.Contains(t, x.s.Path().Explain(), "link.bond_mode")
	w.link("v0").BondMode = host.BondXOR
	w.tell()
	x.until("spoken again", func() bool { return x.s.Path().Tier == "bypass" })

	// The bond is deleted, and made again with another number.
	w.tables = host.Facts{}
	w.carrying(1001, "m0", func(*host.Link) {})
	w.tell()
	x.until("gone", func() bool { return x.s.Path().Tier == "kernel" })
	require.Contains(t, x.s.Path().Explain(), "link.gone")
	w.index[0] = 7777
	w.having(0, func(l *host.Link) { l.Kind, l.BondMode = host.KindBond, host.BondXOR })
	w.link("m0").Master = 7777
	w.tell()
	x.until("made again", func() bool { return x.s.Path().Tier == "bypass" })
	w.come("m0", 0, 0, x.s.LocalAddr(), 5000)
	x.until("received", func() bool { return x.seen[5000] })
	x.send("10.0.0.2:9", 6000)
	require.Len(t, w.gone("m0"), 1)
	require.Zero(t, x.os)
}

// A member that cannot be had is tried again, and the bond works without it; a bond none of whose members can be had is refused with the
// reasons.
func TestBondMemberThatCannotBeHad(t *testing.T) {
	w := bonded(t, host.BondXOR)
	w.start()
	blocker, err := w.open("m1", nic.Patient)
	require.NoError(t, err)
	set, _, _ := w.ring(bondOnV0)
	x := w.listener(set, "10.0.0.1:7000")
	require.Equal(t, "bypass", x.s.Path().Tier)
	require.Contains(t, x.s.Path().Explain(), "m1 [xdp.busy]")
	require.NoError(t, blocker.Close())
	x.until("had after all", func() bool { return strings.Contains(x.s.Path().Explain(), "memory m1") })
	require.NotContains(t, x.s.Path().Explain(), "xdp.busy")

	w = bonded(t, host.BondXOR)
	w.start()
	for _, name := range []string{"m0", "m1"} {
		d, err := w.open(name, nic.Patient)
		require.NoError(t, err)
		defer d.Close()
	}
	other := bonded(t, host.BondRoundRobin)
	other.start()
	for _, c := range []struct {
		w    *wires
		want string
	}{{w, "xdp.busy"}, {other, "link.bond_mode"}} {
		before := c.w.opened.Load()
		_, err := offload.New(offload.Config{Exchange: c.w.exchange, Interfaces: []nic.Interface{bondOnV0}})(driverConfig(c.w.pool))
		require.ErrorContains(t, err, c.want)
		require.Equal(t, before, c.w.opened.Load())
	}
}

// Two rings on a bond: the second has no queue of the members, receives by hand-over, once, and follows changes too.
func TestBondOfTwoRings(t *testing.T) {
	w := bonded(t, host.BondActiveBackup)
	w.start()
	_, a, _ := w.ring(bondOnV0)
	set, _, _ := w.ring(bondOnV0)
	x := w.listener(set, "10.0.0.1:7000")
	require.Contains(t, x.s.Path().Explain(), "ring.no_queue")
	both := func(what string, done func() bool) {
		t.Helper()
		x.until(what, func() bool {
			_, err := a.Poll(make([]ringCompletion, 8))
			require.NoError(t, err)
			return done()
		})
	}
	both("polled", func() bool { return true })
	w.come("m0", 0, 0, x.s.LocalAddr(), 1)
	w.come("m1", 0, 0, x.s.LocalAddr(), 2)
	both("handed over", func() bool { return x.seen[1] && counter(a, "eth.inactive") == 1 })
	require.False(t, x.seen[2], "it came by the backup")
	require.Zero(t, x.os)
	w.without("m0")
	w.link("v0").BondActive = 1002
	w.link("m1").BondBackup = false
	w.tell()
	both("told", func() bool { return x.path > 0 })
	w.come("m1", 0, 0, x.s.LocalAddr(), 3)
	both("handed over again", func() bool { return x.seen[3] })
	both("m0 is closed", func() bool { return w.closed.Load() == 1 })
}
