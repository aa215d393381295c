package tcptest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/simnet"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Network is hosts around one router in virtual time, each with a cable of its own:
//
//	node 0 ── cable 0 ── router ── cable 1 ── node 1
//
// The cables do what simnet.Impairment says. The router decrements TTL, marks (RFC 3168), and refuses packets longer than a cable's MTU, with
// an ICMP error or without.
type Network struct {
	World *simnet.World
	Nodes []*Node
	// Wire is called for each TCP packet that a node sends and, when arrived, for each that reaches one with right checksums.
	Wire func(n *Node, packet []byte, arrived bool)
	// Marked and Refused are how many packets the router has marked, and refused with an ICMP error.
	Marked, Refused int
	err             error
}

// Node is a host on a network. A crash replaces its Host.
type Node struct {
	*Host
	Index  int
	Cable  *simnet.Cable // AB: from the node
	MTU    int           // of the cable, beyond which the router refuses
	Silent bool          // it does so without an ICMP error
	Mark   float64       // probability that the router marks a packet that goes to the node
	Up     bool
	Turns  int

	network *Network
	config  func() tcp.Config
	end     *simnet.RawEnd
	port    *simnet.RawEnd // of the router
	random  *rand.Rand
	due     clock.Time // the earliest turn that is scheduled
	restart int
	resume  clock.Time // the node stands still until then
	waiting [][]byte   // packets that have come meanwhile
}

// begin is the table's time when the world begins: not zero, which means none.
const begin = clock.Time(1_000_000_000)

// NewNetwork makes hosts 10.0.0.1 and so on. config is asked for each table, also after a crash; Random is set by the seed where it is nil.
func NewNetwork(seed uint64, nodes int, config func(node int) tcp.Config) (*Network, error) {
	nw := &Network{World: simnet.New(seed)}
	for i := range nodes {
		n := &Node{Index: i, MTU: 1500, network: nw, due: clock.Never, random: nw.World.Rand(fmt.Sprint("router ", i))}
		n.config = func() tcp.Config {
			c := config(i)
			if c.Random == nil {
				c.Random = nw.World.Rand(fmt.Sprintf("table %d.%d", i, n.restart)).Uint64
			}
			return c
		}
		n.end = nw.World.RawEnd(fmt.Sprint("node", i), n.arrive)
		n.port = nw.World.RawEnd(fmt.Sprint("router", i), func(frame []byte) { nw.route(n, frame) })
		var err error
		if n.Cable, err = nw.World.Connect(n.end, n.port); err != nil {
			return nil, err
		}
		if err = n.boot(); err != nil {
			return nil, err
		}
		nw.Nodes = append(nw.Nodes, n)
	}
	return nw, nil
}

// boot gives the node a new host with an empty table, at the start and after a crash.
func (n *Node) boot() (err error) {
	n.Host, err = NewHost(wire.Addr{10, 0, 0, byte(n.Index + 1)}, n.config(), n.network.Now())
	n.Up = true
	return err
}

// Now is the tables' time.
func (nw *Network) Now() clock.Time { return begin.Add(nw.World.Now()) }

// fail stops the world.
func (nw *Network) fail(err error) {
	if nw.err == nil {
		nw.err = err
		nw.World.Fail(err)
	}
}

// Crash takes a node off for a time. All that its table knew is lost, and the next table has other keys. Handle and Moved stay; a pause goes on.
func (n *Node) Crash(d time.Duration) error {
	n.Up = false
	n.due, n.waiting, n.Turns = clock.Never, nil, 0
	n.restart++
	old := n.Host
	if err := n.boot(); err != nil {
		return err
	}
	n.Handle, n.Moved = old.Handle, old.Moved
	n.Up = false // boot has set it
	n.network.World.After(d, func() { n.Up = true })
	return nil
}

// arrive takes a frame from the cable: it shows the packet to Wire, gives it to the host, or keeps it while the node is paused, and schedules a
// turn.
func (n *Node) arrive(frame []byte) {
	if !n.Up || len(frame) < wire.EthernetLen || frame[12] != 8 || frame[13] != 0 {
		return
	}
	packet := frame[wire.EthernetLen:]
	if w := n.network.Wire; w != nil {
		if ip, _, b, d := wire.ParseIPv4(packet); d == wire.Accept && ip.Protocol() == wire.ProtocolTCP && len(b) >= wire.TCPLen &&
			wire.CheckTCP(ip, b) == wire.SumGood {
			w(n, packet, true)
		}
	}
	if n.resume > n.network.Now() {
		b := append([]byte(nil), packet...)
		n.waiting = append(n.waiting, b)
	} else {
		n.Receive(n.network.Now(), packet)
	}
	n.Wake(n.network.Now())
}

// Wake makes sure that the node has a turn at that time or before.
func (n *Node) Wake(at clock.Time) {
	if at = max(at, n.network.Now()); at >= n.due {
		return
	}
	n.due = at
	n.network.World.At(at.Sub(begin), func() {
		if n.due == at { // else another came before, or a crash
			n.turn()
		}
	})
}

// Pause makes the node stand still: packets arrive and wait, deadlines pass. It is what a collection of garbage or a stopped process is.
func (n *Node) Pause(d time.Duration) { n.resume = max(n.resume, n.network.Now().Add(d)) }

// turn processes what arrived during a pause, runs the host's Turn, and schedules the next turn at its deadline. A paused node only schedules.
func (n *Node) turn() {
	n.due = clock.Never
	if !n.Up {
		return
	}
	if n.resume > n.network.Now() {
		n.Wake(n.resume)
		return
	}
	n.Turns++
	now := n.network.Now()
	for _, b := range n.waiting { // before what is due: after a gap the answers may be there already
		n.Receive(now, b)
	}
	n.waiting = nil
	n.Turn(now, n.send)
	if err := n.Err(); err != nil {
		n.network.fail(fmt.Errorf("node %d: %w", n.Index, err))
		return
	}
	if d := n.Deadline(now); d != clock.Never {
		n.Wake(d)
	}
}

// send shows a packet to Wire and sends it on the cable, which always has room.
func (n *Node) send(packet []byte) bool {
	if w := n.network.Wire; w != nil {
		w(n, packet, false)
	}
	if err := n.end.Send(append(etherHeader[:wire.EthernetLen:wire.EthernetLen], packet...)); err != nil {
		n.network.fail(err)
	}
	return true
}

// etherHeader is what all frames have: addresses do not matter on cables with two ends.
var etherHeader = [wire.EthernetLen]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}

// route forwards a packet that came from a node.
func (nw *Network) route(from *Node, frame []byte) {
	if len(frame) < wire.EthernetLen || frame[12] != 8 || frame[13] != 0 {
		return
	}
	ip, _, _, d := wire.ParseIPv4(frame[wire.EthernetLen:])
	if d != wire.Accept || ip.TTL() == 1 {
		return
	}
	target := ip.Target()
	i := int(target[3]) - 1
	if [3]byte(target[:3]) != [3]byte{10, 0, 0} || i < 0 || i >= len(nw.Nodes) {
		return
	}
	to := nw.Nodes[i]
	if ip.TotalLen() > min(to.MTU, from.MTU) {
		if ip.DontFragment() && !to.Silent && !from.Silent {
			nw.refuse(from, frame[wire.EthernetLen:wire.EthernetLen+ip.TotalLen()], min(to.MTU, from.MTU))
		}
		return
	}
	b := append([]byte(nil), frame[:wire.EthernetLen+ip.TotalLen()]...)
	header := b[wire.EthernetLen : wire.EthernetLen+ip.HeaderLen()]
	header[8]--
	if ecn := header[1] & 3; ecn != 0 && to.Mark > 0 && to.random.Float64() < to.Mark {
		header[1] |= 3
		nw.Marked++
	}
	header[10], header[11] = 0, 0
	check := wire.Sum(0).Add(header).Check()
	header[10], header[11] = byte(check>>8), byte(check)
	if err := to.port.Send(b); err != nil {
		nw.fail(err)
	}
}

// refuse sends fragmentation needed (RFC 1191) back to a node.
func (nw *Network) refuse(from *Node, packet []byte, mtu int) {
	nw.Refused++
	e := wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPFragmentation, MTU: uint16(mtu), Packet: packet}
	body, err := e.Append(nil)
	if err != nil {
		nw.fail(err)
		return
	}
	f := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolICMP, Source: wire.Addr{10, 0, 0, 254}, Target: from.Addr}
	b, err := f.Append(append([]byte(nil), etherHeader[:]...), len(body))
	if err == nil {
		err = from.port.Send(append(b, body...))
	}
	if err != nil {
		nw.fail(err)
	}
}
