package offload_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/hoststat"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// bondCable is two veth pairs that are a bond of the kernel at each end: b0 with 10.0.9.1 and 10.0.9.77 here, 10.0.9.2 there. In active-backup
// the member that is active carries all; in 802.3ad each flow has its member. When a member goes the other one takes over.
type bondCable struct {
	*shared
	mode netlink.BondMode
}

func newBondCable(t testing.TB, mode netlink.BondMode) *bondCable {
	t.Helper()
	n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
	c := &cable{Net: n, t: t}
	mine := enslave(t, mode, []string{"v0", "v1"}, "10.0.9.1/24", "10.0.9.77/24")
	var theirs net.HardwareAddr
	n.InPeer(func() {
		theirs = enslave(t, mode, []string{"p0", "p1"}, "10.0.9.2/24")
		know(t, "10.0.9.1", mine)
		know(t, "10.0.9.77", mine)
	})
	know(t, "10.0.9.2", theirs)
	b := &bondCable{&shared{cable: c}, mode}
	// What was down while a bond was made may have changed the other one: both begin with their first members.
	b.activate("v0", "v1")
	n.InPeer(func() { b.activate("p0", "p1") })
	b.shared = newSharedOn(t, c) // its mirror begins with what is there now
	return b
}

// enslave makes the bond b0 of members in the present namespace and returns its MAC address.
func enslave(t testing.TB, mode netlink.BondMode, members []string, addresses ...string) net.HardwareAddr {
	t.Helper()
	b := netlink.NewLinkBond(netlink.NewLinkAttrs())
	if b.Name, b.Mode, b.Miimon = "b0", mode, 10; mode == netlink.BOND_MODE_802_3AD {
		b.LacpRate = netlink.BOND_LACP_RATE_FAST
	}
	if err := netlink.LinkAdd(b); errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(t, "bonding", err)
	} else {
		require.NoError(t, err)
	}
	for _, name := range members {
		l, err := netlink.LinkByName(name)
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetDown(l))
		list, err := netlink.AddrList(l, netlink.FAMILY_V4)
		require.NoError(t, err)
		for i := range list {
			if err := netlink.AddrDel(l, &list[i]); !errors.Is(err, unix.EADDRNOTAVAIL) { // it went with the first one of its network
				require.NoError(t, err)
			}
		}
		require.NoError(t, netlink.LinkSetMaster(l, b))
	}
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		require.NoError(t, err)
		require.NoError(t, netlink.AddrAdd(b, a))
	}
	require.NoError(t, netlink.LinkSetUp(b))
	require.NoError(t, netlink.RouteAppend(&netlink.Route{LinkIndex: b.Attrs().Index,
		Dst: &net.IPNet{IP: net.IPv4(224, 0, 0, 0), Mask: net.CIDRMask(4, 32)}}))
	l, err := netlink.LinkByName("b0")
	require.NoError(t, err)
	return l.Attrs().HardwareAddr
}

// activate waits until all members of b0 in the present namespace can carry, and makes the first of them the active one where there is one.
func (c *bondCable) activate(members ...string) {
	c.t.Helper()
	for _, name := range members {
		c.awaitMember(name, func() {})
	}
	if c.mode != netlink.BOND_MODE_ACTIVE_BACKUP {
		return
	}
	first, err := netlink.LinkByName(members[0])
	require.NoError(c.t, err)
	bond := func() *netlink.Bond {
		l, err := netlink.LinkByName("b0")
		require.NoError(c.t, err)
		return l.(*netlink.Bond)
	}
	// Not by netlink's request, which has the bond's name: before Linux 6.2 the kernel takes that for a new name, and refuses it to a bond
	// that is up.
	require.NoError(c.t, netlink.LinkSetBondSlaveActive(first, bond()))
	for end := time.Now().Add(patience); bond().ActiveSlave != first.Attrs().Index || bond().OperState != netlink.OperUp; time.Sleep(time.Millisecond) {
		require.True(c.t, time.Now().Before(end), "%s does not become active: %+v", members[0], bond())
	}
}

// awaitMember calls a function again and again until a member of b0 in the present namespace can carry.
func (c *bondCable) awaitMember(name string, meanwhile func()) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		meanwhile()
		l, err := netlink.LinkByName(name)
		require.NoError(c.t, err)
		member, ok := l.Attrs().Slave.(*netlink.BondSlave)
		if ok && l.Attrs().OperState == netlink.OperUp && member.MiiStatus == netlink.BondLinkUp && c.negotiated(member) {
			return
		}
		require.True(c.t, time.Now().Before(end), "%s stays down: %+v", name, member)
	}
}

// negotiated reports whether both ends of a member collect and distribute, which LACP decides in 802.3ad.
func (c *bondCable) negotiated(m *netlink.BondSlave) bool {
	const collecting, distributing = 0x10, 0x20
	const both = collecting | distributing
	return c.mode != netlink.BOND_MODE_802_3AD ||
		m.State == netlink.BondStateActive && m.AdActorOperPortState&both == both && m.AdPartnerOperPortState&both == both
}

// know enters a neighbour behind b0.
func know(t testing.TB, address string, mac net.HardwareAddr) {
	t.Helper()
	l, err := netlink.LinkByName("b0")
	require.NoError(t, err)
	require.NoError(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: net.ParseIP(address), HardwareAddr: mac,
		State: netlink.NUD_PERMANENT}))
}

func (c *bondCable) Local() netip.Addr      { return netip.MustParseAddr("10.0.9.1") }
func (c *bondCable) Other() netip.Addr      { return netip.MustParseAddr("10.0.9.77") }
func (c *bondCable) Device() string         { return "b0" }
func (c *bondCable) Nobody() netip.AddrPort { return netip.MustParseAddrPort("10.0.9.2:9") }

// Lose takes the bond down, and not its members: each end keeps its active member, so that both are of one pair at Restore too.
func (c *bondCable) Lose() {
	l, err := netlink.LinkByName("b0")
	require.NoError(c.t, err)
	require.NoError(c.t, netlink.LinkSetDown(l))
}

// Restore brings the bond back.
func (c *bondCable) Restore() {
	l, err := netlink.LinkByName("b0")
	require.NoError(c.t, err)
	require.NoError(c.t, netlink.LinkSetUp(l))
}

// needBonding skips the test where the kernel has no bonds.
func needBonding(t testing.TB) {
	t.Helper()
	testnet.New(t)
	enslave(t, netlink.BOND_MODE_ACTIVE_BACKUP, nil)
}

// join configures a set on the bond.
func (c *bondCable) join(sc *ring.SetConfig, fill int) {
	sc.Kind, sc.OneRing = "offload", offload.OneRing
	sc.Driver = offload.New(offload.Config{Exchange: c.exchange, Fragment: true,
		Interfaces: []nic.Interface{{Name: "b0", Bond: true, Fill: fill, Checksum: udp.AcceptPartial}}})
}

// The datagram half of the contract on a bond of the kernel, active-backup at both ends.
func TestContractOverBond(t *testing.T) {
	needBonding(t)
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: contractCaps, Overshoot: overshoot,
		// Half the buffers of a pool lie ready for the member that nothing comes by.
		Datagrams: true, Stamp: ring.StampPoll, Sleeps: wakeUps, Burst: 4,
		Open: func(t *testing.T, pool *buffers.DriverPool, sc *ring.SetConfig) ringtest.Peers {
			c := newBondCable(t, netlink.BOND_MODE_ACTIVE_BACKUP)
			c.join(sc, max(pool.ReceiveShare(buffers.Small)*5/16, 2)) // as for two queues, see TestContractOverSharedQueues
			return c
		}})
}

// failover is a socket on a bond, and a peer, that send each other numbered datagrams.
type failover struct {
	*bondCable
	s                        *ring.Socket
	peer                     ringtest.Peer
	to                       netip.AddrPort
	dst                      []ring.Completion
	seen                     map[uint32]bool
	next                     uint32
	sent, came               uint64 // by the peer, at the socket
	gone, arrived            uint64 // by the socket, at the peer
	unsent, refused, changes uint64 // errors of both ends; EventPath
}

// exchange sends a datagram in each direction and takes what has come.
func (f *failover) exchange() {
	b := binary.LittleEndian.AppendUint32(nil, f.next)
	f.next++
	if _, err := f.peer.Write(b); err != nil {
		f.unsent++
	} else {
		f.sent++
	}
	if _, err := f.s.SendTo(b, f.to); err != nil {
		f.refused++
	} else {
		f.gone++
	}
	f.receive()
}

// receive takes what has come at both ends.
func (f *failover) receive() {
	n, err := f.s.Ring().Poll(f.dst)
	require.NoError(f.t, err)
	for i := range f.dst[:n] {
		x := &f.dst[i]
		if x.Events.Has(ring.EventPath) {
			f.changes++
		}
		if x.Events.Has(ring.EventPacket) {
			number := binary.LittleEndian.Uint32(x.Packet.Bytes())
			require.False(f.t, f.seen[number], "%d came twice", number)
			f.seen[number] = true
			f.came++
			require.NoError(f.t, x.Packet.Release())
		}
	}
	require.NoError(f.t, f.peer.SetReadDeadline(time.Now().Add(100*time.Microsecond)))
	for b := make([]byte, 64); ; f.arrived++ {
		if _, err := f.peer.Read(b); err != nil {
			return
		}
	}
}

// flows exchanges datagrams until some have come and gone.
func (f *failover) flows(when string) {
	f.t.Helper()
	came, arrived := f.came+20, f.arrived+20
	for end := time.Now().Add(patience); f.came < came || f.arrived < arrived; f.exchange() {
		require.True(f.t, time.Now().Before(end), "%s: %v\n%v", when, f.s.Path(), f.s.Ring().Stats().Driver)
	}
}

// losses are the kernel's counters of frames that it has dropped, without the names of their interfaces.
var losses = []string{"rx_dropped", "tx_dropped", "rx_errors", "tx_errors", "rx_nohandler"}

// dropped is how many frames the kernels at both ends count as dropped, and what our counters say is lost. It lists all that is not zero.
func (f *failover) dropped() (n uint64, all []string) {
	note := func(at, name string, value uint64) {
		if n += value; value > 0 {
			all = append(all, fmt.Sprintf("%s %s %d", at, name, value))
		}
	}
	count := func(at string, prefixes ...string) {
		r, err := hoststat.Open()
		require.NoError(f.t, err)
		defer r.Close()
		for _, x := range r.Read() {
			for _, prefix := range prefixes {
				if name, ok := strings.CutPrefix(x.Name, prefix); ok && slices.Contains(losses, name) {
					note(at, x.Name, x.Value)
				}
			}
		}
	}
	count("here", "v0.", "v1.", "b0.")
	f.InPeer(func() { count("there", "p0.", "p1.", "b0.") })
	for _, name := range []string{"stack.lost", "neighbour.time", "neighbour.failed", "neighbour.closed", "offload.lost_sends", "eth.inactive"} {
		note("the ring", name, counter(f.s.Ring(), name))
	}
	return n, all
}

// A member is taken down under traffic, and comes back, again and again, in turn, and by the other member all goes on. In active-backup it is
// the active one, and what comes and goes meanwhile arrives, or somebody counts it. In 802.3ad, where LACP takes seconds to have a member back,
// what is lost is logged: of 5 datagrams at least one was counted nowhere on Linux 6.1.
func TestBondFailsOver(t *testing.T) {
	t.Run("active-backup", func(t *testing.T) { failsOver(t, netlink.BOND_MODE_ACTIVE_BACKUP, 12) })
	t.Run("802.3ad", func(t *testing.T) { failsOver(t, netlink.BOND_MODE_802_3AD, 4) })
}

func failsOver(t *testing.T, mode netlink.BondMode, rounds int) {
	c := newBondCable(t, mode)
	sc := ring.SetConfig{Transport: kernel.New(), Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8,
		Headroom: 192})}
	c.join(&sc, 512)
	set, err := ring.NewSet(sc)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	require.NoError(t, err)
	require.NoError(t, s.Bind(netip.MustParseAddrPort("10.0.9.1:7000")))
	f := &failover{bondCable: c, s: s, peer: c.Dial(s.LocalAddr()), dst: make([]ring.Completion, 64), seen: map[uint32]bool{}}
	require.NoError(t, f.peer.SetDeadline(time.Time{}))
	f.to = f.peer.LocalAddr().(*net.UDPAddr).AddrPort()
	before, _ := f.dropped()
	for round := range rounds {
		down := []string{"v0", "v1"}[round%2]
		l, err := netlink.LinkByName(down)
		require.NoError(t, err)
		f.flows("before " + down + " goes down")
		require.NoError(t, netlink.LinkSetDown(l))
		f.flows("while " + down + " is down")
		require.NoError(t, netlink.LinkSetUp(l))
		f.flows("after " + down + " came up")
		c.awaitMember(down, f.receive) // both are there again before the next one goes
		c.InPeer(func() { c.awaitMember("p"+down[1:], func() {}) })
	}
	var lost, counted, now uint64
	var all []string
	judged, within := mode == netlink.BOND_MODE_ACTIVE_BACKUP, patience
	if !judged {
		within = testnet.Slow(time.Second) // until what is under way has arrived
	}
	for end := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		f.receive()
		now, all = f.dropped()
		if lost, counted = f.sent-f.came+f.gone-f.arrived, now-before; lost <= counted || !judged && time.Now().After(end) {
			break
		}
		require.True(t, !judged || time.Now().Before(end), "of %d in %d came, of %d out %d arrived; %d are counted, %d of them before: %v\n%v", f.sent,
			f.came, f.gone, f.arrived, now, before, all, s.Ring().Stats().Driver)
	}
	t.Logf("in: %d sent, %d not, %d came; out: %d sent, %d refused, %d arrived; %d lost, %d counted: %v; %d PATH", f.sent, f.unsent, f.came, f.gone,
		f.refused, f.arrived, lost, counted, all, f.changes)
	require.GreaterOrEqual(t, f.changes, uint64(rounds), "the socket was not notified")
}
