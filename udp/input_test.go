package udp_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

func TestDatagramIsDeliveredInPlace(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Owner: 77, Local: us})
	frame := iptest.From(peer, us, "hello")
	got := w.In(append(frame, make([]byte, 60-len(frame))...)) // padded as on a cable
	w.Len(got, 1)
	d := &got[0]
	w.Equal("hello", string(d.Packet.Bytes()))
	w.Equal(1, d.Packet.NumBuffers())
	w.Equal(id, d.ID)
	w.Equal(uint64(77), d.Owner)
	w.Equal(udp.Flow{Source: peer, SourcePort: 9, Target: us, TargetPort: 53, Interface: iface}, d.Flow)
	w.Empty(w.Reasons())
}

func TestChecksumPolicies(t *testing.T) {
	partial := iptest.From(peer, us, "x")
	sum := wire.Pseudo(peer, us, wire.ProtocolUDP, 9)
	partial[14+20+6], partial[14+20+7] = byte(sum>>8), byte(sum)
	policy := func(p udp.Policy) func(*ip.Config) { return func(c *ip.Config) { c.Interfaces[0].Checksum = p } }

	w := newWorld(t)
	w.Socket(udp.Endpoint{Local: us})
	w.Drop(wire.UDPPartial, partial)
	w = newWorld(t, policy(udp.AcceptPartial))
	w.Socket(udp.Endpoint{Local: us})
	w.Len(w.In(partial), 1)
	w.Equal(uint64(1), w.UDP.Stats().Partial)
	bad := iptest.From(peer, us, "x")
	bad[len(bad)-1] ^= 1
	w.Drop(wire.UDPSum, bad)
	w = newWorld(t, policy(udp.Off))
	w.Socket(udp.Endpoint{Local: us})
	w.Len(w.In(bad), 1)
}

func TestMembersShareAPacket(t *testing.T) {
	w := newWorld(t)
	var ids []udp.ID
	for range 3 {
		id := w.Socket(udp.Endpoint{Local: grp})
		w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4))
		ids = append(ids, id)
	}
	w.Out()
	got := w.In(iptest.From(peer, grp, "to all"))
	w.Len(got, 3)
	for i := range got {
		w.Equal("to all", string(got[i].Packet.Bytes()))
		w.Equal(got[0].Packet, got[i].Packet)
		w.Contains(ids, got[i].ID)
	}
	w.Equal(255, w.Pool.Ledger().Free-8, "one buffer for all")
	w.NoError(w.UDP.Leave(w.Now, ids[1], grp, iface, none4))
	w.Len(w.In(iptest.From(peer, grp, "x")), 2)
	// 32 groups share a MAC address (RFC 1112 6.4): the group decides.
	same := wire.Addr{239, 129, 1, 1}
	w.Drop(wire.UDPGroupNotJoined, iptest.From(peer, same, "x"))
}

func TestBroadcast(t *testing.T) {
	w := newWorld(t)
	w.Socket(udp.Endpoint{})
	w.Socket(udp.Endpoint{Local: subnet})
	w.Socket(udp.Endpoint{Local: us})
	w.Len(w.In(iptest.From(peer, subnet, "x")), 2)
	w.Len(w.In(iptest.From(peer, wire.Addr{255, 255, 255, 255}, "x")), 1)
}

// A socket that does not read keeps what comes, copied, up to its receive buffer; then it is dropped and counted; the order stays.
func TestStoppedSocketKeeps(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us}, func(o *udp.Options) { o.ReceiveBuffer = 4096 })
	w.UDP.StopDelivery(id)
	n := 0
	for ; w.UDP.Dropped(id) == 0; n++ {
		w.Empty(w.In(iptest.From(peer, us, strings.Repeat("x", n))))
	}
	w.Equal(w.Pool.Ledger().Total, w.Pool.Ledger().Free, "no buffers are held")
	w.Equal(uint64(1), w.IP.Drops()[wire.UDPBudget])
	w.Equal(n-1, w.UDP.Backlogged(id))
	w.UDP.StartDelivery(id)
	w.True(w.UDP.Stopped(id), "new ones queue behind those that are kept")
	for i := range n - 1 {
		w.True(w.UDP.NextBacklogged(id))
		d := w.UDP.Deliveries()[0]
		w.UDP.ClearDeliveries()
		w.Equal(i, d.Packet.Len())
		w.Equal(udp.Flow{Source: peer, SourcePort: 9, Target: us, TargetPort: 53, Interface: iface}, d.Flow)
		w.NoError(d.Packet.Release())
	}
	w.UDP.StartDelivery(id)
	w.Len(w.In(iptest.From(peer, us, "now")), 1)
}

func TestBurstKeepsItsOrder(t *testing.T) {
	w := newWorld(t)
	a, b := w.Socket(udp.Endpoint{Local: us}), w.Socket(udp.Endpoint{Local: us, LocalPort: 54})
	var frames [][]byte
	for i := range ip.MaxBurst {
		frames = append(frames, iptest.From(peer, us, string(rune('a'+i%26)), func(d *iptest.Datagram) { d.UDP.TargetPort = uint16(53 + i%2) }))
	}
	got := w.In(frames...)
	w.Len(got, ip.MaxBurst)
	for i := range got {
		w.Equal(string(rune('a'+i%26)), string(got[i].Packet.Bytes()))
		w.Equal([]udp.ID{a, b}[i%2], got[i].ID)
	}
}

func TestErrorsReachConnectedSockets(t *testing.T) {
	w := newWorld(t)
	w.Socket(udp.Endpoint{Owner: 5, Local: us, Remote: peer, RemotePort: 9})
	w.Socket(udp.Endpoint{Owner: 6, Local: us, LocalPort: 54})
	quoted := func(port uint16) []byte {
		return iptest.From(us, peer, "what was sent", func(d *iptest.Datagram) { d.UDP = wire.UDPFields{SourcePort: port, TargetPort: 9} })[14:]
	}
	unreachable := func(code uint8, mtu uint16, packet []byte) []byte {
		b, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: code, MTU: mtu, Packet: packet}).Append(nil)
		w.NoError(err)
		return iptest.ICMPFrame(b)
	}
	w.In(unreachable(wire.ICMPPort, 0, quoted(53)))
	w.Equal([]udp.SocketError{{Owner: 5, Errno: unix.ECONNREFUSED}}, w.UDP.Errors())
	w.UDP.ClearErrors()
	w.IP.ClearFailures()
	w.In(unreachable(wire.ICMPPort, 0, quoted(54))) // not connected: it sends to many
	w.In(unreachable(wire.ICMPHost, 0, quoted(53))) // passing
	w.Empty(w.UDP.Errors())
	w.Drop(wire.ICMPNoSocket, unreachable(wire.ICMPPort, 0, quoted(99)))
	w.Empty(w.UDP.Errors())
}
