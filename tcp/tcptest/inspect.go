package tcptest

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Inspector holds the packets of a network against rules that packets alone show. It knows nothing of the tables.
type Inspector struct {
	network *Network
	streams map[place]*stream
	// Retransmitted counts segments whose payload was on the wire before, Probes those of one byte beyond a window, by node.
	Retransmitted, Probes []int
}

// place is one end of a connection.
type place struct {
	node          int
	local, remote tcp.Endpoint
}

// stream is what a node has sent on a connection, and what has reached it. Numbers are those of the wire.
type stream struct {
	next     tcp.Seq // behind the last that was sent
	fin      tcp.Seq // behind the FIN, if there was one
	finished bool    // fin is set
	scale    uint8   // window shift of the node's SYN
	ownScale bool    // the node's SYN had a window scale option
	offered  tcp.Seq // right edge of the window that the node has offered
	offering bool    // offered is set
	probed   bool    // the node has sent a window probe

	agreed  bool    // the peer's SYN has arrived: peer, peerHas and mss are set
	peer    uint8   // window shift of the peer's SYN
	peerHas bool    // the peer's SYN had a window scale option
	mss     int     // of the peer's SYN
	edge    tcp.Seq // right edge of the peer's window, the furthest that has arrived
	allowed bool    // edge is set
	arrived tcp.Seq // behind the last number that has arrived
	heard   bool    // arrived is set

	doubtful bool // a SYN that nobody on the network sent has reached the node: the rest may be about another connection
}

// Inspect puts an inspector on a network.
func Inspect(nw *Network) *Inspector {
	x := &Inspector{network: nw, streams: map[place]*stream{}, Retransmitted: make([]int, len(nw.Nodes)), Probes: make([]int, len(nw.Nodes))}
	nw.Wire = x.packet
	return x
}

// Forget drops what is known of a node: it has crashed.
func (x *Inspector) Forget(node int) {
	for p := range x.streams {
		if p.node == node {
			delete(x.streams, p)
		}
	}
}

// packet is Network.Wire: it parses a packet that node n sends, or that arrived at it, and gives the segment to left or came. A violation stops
// the world.
func (x *Inspector) packet(n *Node, packet []byte, arrived bool) {
	ip, _, b, d := wire.ParseIPv4(packet)
	if d != wire.Accept {
		x.network.fail(fmt.Errorf("wire: node %d sends a bad packet: %v", n.Index, d))
		return
	}
	if ip.Protocol() != wire.ProtocolTCP {
		return
	}
	var s tcp.Segment
	if d := s.Parse(ip.Source(), ip.Target(), b, 0, 0); d != wire.Accept {
		if !arrived {
			x.network.fail(fmt.Errorf("wire: node %d sends a bad segment: %v", n.Index, d))
		}
		return
	}
	if !arrived {
		s.Local, s.Remote = s.Remote, s.Local
	}
	p := place{n.Index, s.Local, s.Remote}
	if arrived {
		x.came(p, &s)
		return
	}
	if wire.CheckTCP(ip, b) != wire.SumGood {
		x.network.fail(fmt.Errorf("wire: node %d sends a segment with a wrong checksum", n.Index))
	}
	if len(packet) > 1500 {
		x.network.fail(fmt.Errorf("wire: node %d sends a packet of %d bytes", n.Index, len(packet)))
	}
	if err := x.left(p, &s); err != nil {
		x.network.fail(fmt.Errorf("wire: node %d, %v to %v: %v %d+%d ack %d win %d: %w", n.Index, s.Local.AddrPort(), s.Remote.AddrPort(), s.Flags,
			s.Seq, s.Payload.Length, s.Ack, s.Window, err))
	}
}

// span is how many sequence numbers a segment takes: payload, SYN and FIN.
func span(s *tcp.Segment) int {
	n := int(s.Payload.Length)
	if s.Flags&wire.TCPSyn != 0 {
		n++
	}
	if s.Flags&wire.TCPFin != 0 {
		n++
	}
	return n
}

// Doubt notes that a node gets a SYN of a connection that the other end knows nothing of.
func (x *Inspector) Doubt(node int, local, remote tcp.Endpoint) {
	if st := x.streams[place{node, local, remote}]; st != nil {
		st.doubtful = true
	}
}

// came notes a segment that has arrived at a node: what the peer's SYN allows, the highest number, and the window's right edge.
func (x *Inspector) came(p place, s *tcp.Segment) {
	st := x.streams[p]
	if s.Flags&wire.TCPSyn != 0 {
		if st != nil && s.Flags&wire.TCPAck != 0 && s.Ack != st.next {
			return // it answers a SYN that the node has not sent
		}
		if st == nil || s.Flags&wire.TCPAck == 0 && (st.doubtful || st.heard && s.Seq != st.arrived && st.arrived.Before(s.Seq)) {
			st = &stream{doubtful: st != nil && st.doubtful} // until it is answered
			x.streams[p] = st
		}
		if !st.agreed { // a later one does not change what was agreed on
			st.peerHas = s.Options.Has&wire.TCPHasWindowScale != 0
			st.agreed, st.peer = true, min(s.Options.WindowScale, 14)
			if st.mss = 536; s.Options.Has&wire.TCPHasMSS != 0 {
				st.mss = max(int(s.Options.MSS), 48)
			}
		}
	}
	if st == nil || s.Flags&wire.TCPRst != 0 {
		return
	}
	if end := s.Seq.Add(span(s)); !st.heard || st.arrived.Before(end) {
		st.arrived, st.heard = end, true
	}
	if s.Flags&wire.TCPAck != 0 {
		window := int(s.Window)
		if s.Flags&wire.TCPSyn == 0 && st.peerHas && st.ownScale {
			window <<= st.peer
		}
		if edge := s.Ack.Add(window); !st.allowed || st.edge.Before(edge) {
			st.edge, st.allowed = edge, true
		}
	}
}

// left checks a segment that a node sends against what it has sent and what has reached it: acknowledgement, window offered, peer's window and
// MSS, nothing behind FIN. The error says which rule it breaks.
func (x *Inspector) left(p place, s *tcp.Segment) error {
	st := x.streams[p]
	if s.Flags&wire.TCPRst != 0 {
		return nil
	}
	if s.Flags&wire.TCPSyn != 0 {
		if st == nil {
			st = &stream{}
			x.streams[p] = st
		}
		if s.Flags&wire.TCPAck == 0 && st.next != s.Seq.Add(1) { // a new connection
			*st = stream{}
		}
		if s.Flags&wire.TCPAck != 0 && (!st.heard || st.arrived != s.Ack) && st.next != s.Seq.Add(1) {
			*st = stream{arrived: s.Ack, heard: true, doubtful: true} // it answers a SYN that came from elsewhere
		}
		if s.Flags&wire.TCPAck != 0 && st.heard && st.arrived == s.Ack && st.agreed {
			st.doubtful = false
		}
		st.next, st.finished, st.offering = s.Seq.Add(1), false, false
		st.ownScale = s.Options.Has&wire.TCPHasWindowScale != 0
		st.scale = s.Options.WindowScale
		return nil
	}
	if st == nil || st.doubtful {
		return nil // TIME-WAIT of a connection that was forgotten
	}
	if s.Flags&wire.TCPAck != 0 {
		if st.heard && st.arrived.Before(s.Ack) {
			return fmt.Errorf("it acknowledges %d more than has arrived", s.Ack.Minus(st.arrived))
		}
		window, slack := int(s.Window), 0
		if st.peerHas && st.ownScale {
			window <<= st.scale
			slack = 1<<st.scale - 1
		}
		edge := s.Ack.Add(window)
		if st.offering && edge.Add(slack).Before(st.offered) {
			return fmt.Errorf("the right edge of the window goes back by %d", st.offered.Minus(edge)) // RFC 9293 SHLD-14
		}
		if !st.offering || st.offered.Before(edge) {
			st.offered, st.offering = edge, true
		}
	}
	n := int(s.Payload.Length)
	end := s.Seq.Add(span(s))
	if st.finished && st.fin.Before(end) {
		return fmt.Errorf("it goes %d beyond the FIN", end.Minus(st.fin))
	}
	if s.Flags&wire.TCPFin != 0 {
		st.fin, st.finished = end, true
	}
	if n > 0 {
		if n > st.mss && st.mss > 0 {
			return fmt.Errorf("the peer takes segments of %d bytes", st.mss)
		}
		beyond := s.Seq.Add(n).Minus(st.edge)
		switch {
		case !st.allowed:
			return fmt.Errorf("it has data before anything was acknowledged")
		case beyond == 1 && n == 1:
			x.Probes[p.node]++ // RFC 9293 section 3.8.6.1
			st.probed = true
		case beyond > 0:
			return fmt.Errorf("it goes %d beyond the peer's window", beyond)
		case s.Seq.Before(st.next) && !st.probed:
			x.Retransmitted[p.node]++
		}
	}
	if st.next.Before(end) {
		st.next = end
	}
	return nil
}
