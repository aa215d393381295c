package offload_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// bondCable is two veth pairs that are a bond of the kernel at each end: b0 with 10.0.9.1 and 10.0.9.77 here, 10.0.9.2 there. The member that is
// active carries all; the other one takes over when it goes.
type bondCable struct{ *shared }

func newBondCable(t testing.TB) *bondCable {
	t.Helper()
	n := testnet.New(t, testnet.Pair{}, testnet.Pair{})
	c := &cable{Net: n, t: t}
	mine := enslave(t, []string{"v0", "v1"}, "10.0.9.1/24", "10.0.9.77/24")
	var theirs net.HardwareAddr
	n.InPeer(func() {
		theirs = enslave(t, []string{"p0", "p1"}, "10.0.9.2/24")
		know(t, "10.0.9.1", mine)
		know(t, "10.0.9.77", mine)
	})
	know(t, "10.0.9.2", theirs)
	// What was down while a bond was made may have changed the other one: both begin with their first members.
	activate(t, "v0", "v1")
	n.InPeer(func() { activate(t, "p0", "p1") })
	return &bondCable{newSharedOn(t, c)}
}

// enslave makes the bond b0 of members in the present namespace and returns its MAC address.
func enslave(t testing.TB, members []string, addresses ...string) net.HardwareAddr {
	t.Helper()
	b := netlink.NewLinkBond(netlink.NewLinkAttrs())
	b.Name, b.Mode, b.Miimon = "b0", netlink.BOND_MODE_ACTIVE_BACKUP, 10
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

// activate waits until all members of b0 in the present namespace can carry, and makes the first of them the active one.
func activate(t testing.TB, members ...string) {
	t.Helper()
	for _, name := range members {
		awaitMember(t, name, func() {})
	}
	first, err := netlink.LinkByName(members[0])
	require.NoError(t, err)
	bond := func() *netlink.Bond {
		l, err := netlink.LinkByName("b0")
		require.NoError(t, err)
		return l.(*netlink.Bond)
	}
	change := netlink.NewLinkBond(netlink.LinkAttrs{Name: "b0", Index: bond().Attrs().Index, TxQLen: -1})
	change.ActiveSlave = first.Attrs().Index
	require.NoError(t, netlink.LinkModify(change))
	for end := time.Now().Add(patience); bond().ActiveSlave != first.Attrs().Index || bond().OperState != netlink.OperUp; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "%s does not become active: %+v", members[0], bond())
	}
}

// awaitMember calls a function again and again until a member of b0 in the present namespace can carry.
func awaitMember(t testing.TB, name string, meanwhile func()) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		meanwhile()
		l, err := netlink.LinkByName(name)
		require.NoError(t, err)
		if member, ok := l.Attrs().Slave.(*netlink.BondSlave); ok && l.Attrs().OperState == netlink.OperUp && member.MiiStatus == netlink.BondLinkUp {
			return
		}
		require.True(t, time.Now().Before(end), "%s stays down", name)
	}
}

// know enters a neighbour behind b0.
func know(t testing.TB, address string, mac net.HardwareAddr) {
	t.Helper()
	l, err := netlink.LinkByName("b0")
	require.NoError(t, err)
	require.NoError(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: net.ParseIP(address), HardwareAddr: mac,
		State: netlink.NUD_PERMANENT}))
}

// join configures a set on the bond.
func (c *bondCable) join(sc *ring.SetConfig, fill int) {
	sc.Kind, sc.OneRing = "offload", offload.OneRing
	sc.Driver = offload.New(offload.Config{Exchange: c.exchange, Fragment: true,
		Interfaces: []nic.Interface{{Name: "b0", Bond: true, Fill: fill, Checksum: udp.AcceptPartial}}})
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

// dropped is how many frames the interfaces at both ends count as dropped, and what our counters say is lost.
func (f *failover) dropped() (n uint64) {
	count := func(names ...string) {
		for _, name := range names {
			l, err := netlink.LinkByName(name)
			require.NoError(f.t, err)
			s := l.Attrs().Statistics
			n += s.TxDropped + s.RxDropped + s.TxErrors + s.RxErrors
		}
	}
	count("v0", "v1", "b0")
	f.InPeer(func() { count("p0", "p1", "b0") })
	for _, name := range []string{"stack.lost", "offload.lost_sends", "eth.inactive"} {
		n += counter(f.s.Ring(), name)
	}
	return n
}

// The active member is taken down under traffic, twelve times: what comes and goes meanwhile arrives, or somebody counts it; and by the other
// member all goes on.
func TestBondFailsOver(t *testing.T) {
	c := newBondCable(t)
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
	before := f.dropped()
	const rounds = 12
	for round := range rounds {
		down := []string{"v0", "v1"}[round%2]
		l, err := netlink.LinkByName(down)
		require.NoError(t, err)
		f.flows("before " + down + " goes down")
		require.NoError(t, netlink.LinkSetDown(l))
		f.flows("while " + down + " is down")
		require.NoError(t, netlink.LinkSetUp(l))
		f.flows("after " + down + " came up")
		awaitMember(t, down, f.receive) // both are there again before the next one goes
		c.InPeer(func() { awaitMember(t, "p"+down[1:], func() {}) })
	}
	lost, counted := uint64(0), uint64(0)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		f.receive()
		if lost, counted = f.sent-f.came+f.gone-f.arrived, f.dropped()-before; lost <= counted {
			break
		}
		require.True(t, time.Now().Before(end), "%d frames are lost, and %d are counted: %v", lost, counted, s.Ring().Stats().Driver)
	}
	t.Logf("in: %d sent, %d not, %d came; out: %d sent, %d refused, %d arrived; %d lost, %d counted; %d PATH", f.sent, f.unsent, f.came, f.gone,
		f.refused, f.arrived, lost, counted, f.changes)
	require.GreaterOrEqual(t, f.changes, uint64(rounds), "the socket was not notified")
}
