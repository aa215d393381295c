package offload_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// pushTags gives all frames that leave by p0 a tag, beside the frame as a card that takes tags out hands them over: this kernel may lack VLANs,
// and the frame comes to v0 as on a card that has them.
func pushTags(t *testing.T, s *shared, vlan int32) (stop func()) {
	const skbVLANPush, etherVLAN = asm.FnSkbVlanPush, 0x0081 // 0x8100 in the network's order, on the machines that tests run on
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "push_tags", Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, etherVLAN),
		asm.Mov.Imm(asm.R3, vlan),
		skbVLANPush.Call(),
		asm.Mov.Imm(asm.R0, 0), // TCX_PASS
		asm.Return(),
	}})
	require.NoError(t, err)
	var attached link.Link
	s.InPeer(func() {
		p0, e := netlink.LinkByName("p0")
		require.NoError(t, e)
		attached, err = link.AttachTCX(link.TCXOptions{Interface: p0.Attrs().Index, Program: program, Attach: ebpf.AttachTCXEgress})
	})
	if err != nil {
		require.NoError(t, program.Close())
		testnet.Missing(t, "tcx", fmt.Sprintf("programs at an interface's egress (Linux 6.6): %v", err))
	}
	return func() {
		require.NoError(t, attached.Close())
		require.NoError(t, program.Close())
	}
}

// withVLAN makes a mirror whose tables are the kernel's with a VLAN on v0, which this kernel may lack.
func (s *shared) withVLAN(vlan bool) (change func(vlan bool)) {
	snap := s.mirror.Snapshot()
	v0, ok := snap.LinkByName("v0")
	require.True(s.t, ok)
	tables := func(vlan bool) host.Facts {
		f := host.Facts{Links: slices.Clone(snap.Links()), Addresses: snap.Addresses()}
		if vlan {
			f.Links = append(f.Links, host.Link{Index: 1000, Name: "v0.5", Type: v0.Type, MAC: v0.MAC, MTU: v0.MTU, Flags: v0.Flags,
				Kind: host.KindVLAN, Parent: v0.Index, VLAN: 5, VLANProtocol: wire.TypeVLAN, Netns: -1})
		}
		return f
	}
	made, tell, err := host.OpenTables(tables(vlan))
	require.NoError(s.t, err)
	require.NoError(s.t, s.mirror.Close())
	s.mirror = made // closed with the test
	s.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: made, Open: nic.XDP(xdp.Config{Retry: letGo})})
	require.NoError(s.t, err)
	return func(vlan bool) { tell(tables(vlan)) }
}

// A device that takes tags out of frames hands the program frames without them. While a VLAN stands on it nothing is claimed there: what is
// tagged is not taken for untagged, and what is the socket's comes by its shadow, which the path says. When the VLAN goes it is offloaded again.
func TestTagsThatTheDeviceTakesOut(t *testing.T) {
	s := newShared(t, 1)
	change := s.withVLAN(true)
	set, r := s.set(nil)
	g := netip.MustParseAddrPort("239.9.9.9:7000")
	w := &watcher{t: t, s: s.open(set, "0.0.0.0:7000"), dst: make([]ring.Completion, 64), seen: map[uint64]bool{}}
	require.NoError(t, w.s.JoinGroup(g.Addr(), "v0", netip.Addr{}))
	m := &many{watcher: w, shared: s}
	hits := func() (n uint64) {
		for _, c := range r.Stats().Driver {
			if c.Name == "v0.steer.hit" {
				n = c.Value
			}
		}
		return n
	}
	stop := pushTags(t, s, 5)
	before := hits()
	m.send(g.Addr(), g.Addr(), s.Local())
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		m.poll()
	}
	require.Equal(t, before, hits(), "a tagged frame is not the untagged flow's: %v", w.s.Path())
	require.Empty(t, w.seen)
	stop()
	require.Equal(t, "kernel", w.s.Path().Tier, w.s.Path())
	require.Contains(t, w.s.Path().Explain(), "link.tags_apart")
	require.Equal(t, 2, m.receives("untagged, by the shadow", g.Addr(), s.Local()))

	change(false)
	m.until("the VLAN is gone", func() bool { return w.s.Path().Tier == "bypass" })
	require.Zero(t, m.receives("untagged, by the link", g.Addr(), s.Local()))
	change(true)
	m.until("the VLAN is back", func() bool { return w.s.Path().Tier == "kernel" })
	require.Equal(t, 2, m.receives("by the shadow again", g.Addr(), s.Local()))
}
