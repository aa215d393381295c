package tcptest

import (
	"fmt"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/simnet"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// A scenario is three hosts around a router, listeners on each, and a list of operations: flows begin, cables get better and worse, hosts
// crash, strangers send segments. All cables are clear from healed on; then every connection has to end by itself.

const (
	numNodes     = 3
	firstPort    = 80
	numListeners = 3
	closedPort   = firstPort + numListeners
	healed       = 30 * time.Second
	patience     = 15 * time.Minute // until every record must be gone
)

// op is one operation. What it refers to may not be there.
type op struct {
	at   time.Duration
	do   verb
	node int
	back bool // of a cable: the direction to the node
	m    simnet.Impairment
	flow flowPlan
	n    int
	d    time.Duration
	p    float64
}

type verb uint8

const (
	doFlow verb = iota
	doImpair
	doMTU
	doMark
	doCrash
	doFlood
	doForge
	doPause
	doRenege
	numVerbs
)

func (o op) String() string {
	s := fmt.Sprintf("%9.3fs ", o.at.Seconds())
	direction := "from"
	if o.back {
		direction = "to"
	}
	switch o.do {
	case doFlow:
		return s + o.flow.String()
	case doImpair:
		return s + fmt.Sprintf("cable %s node %d: %v", direction, o.node, o.m)
	case doMTU:
		return s + fmt.Sprintf("cable of node %d: MTU %d, silent %v", o.node, o.n, o.back)
	case doMark:
		return s + fmt.Sprintf("router marks to node %d: %.2f", o.node, o.p)
	case doCrash:
		return s + fmt.Sprintf("node %d crashes for %v", o.node, o.d)
	case doFlood:
		return s + fmt.Sprintf("%d SYNs from nowhere to node %d", o.n, o.node)
	case doPause:
		return s + fmt.Sprintf("node %d stands still for %v", o.node, o.d)
	case doRenege:
		return s + fmt.Sprintf("node %d discards %d bytes beyond gaps", o.node, o.n)
	}
	return s + fmt.Sprintf("%d forged segments to node %d", o.n, o.node)
}

// plant is a bug put into a run.
type plant struct {
	table   func(c *tcp.Config)
	network func(nw *Network)
	host    func(h *Host) // each, when it is made
}

// scenario is one run.
type scenario struct {
	seed      uint64
	network   *Network
	inspector *Inspector
	settings  []tcp.Settings
	flows     []*flow
	byRemote  map[[2]tcp.Endpoint]*flow // by client's and server's endpoint
	sides     map[*Conn]*side
	plan      plant
	err       error
	lossless  bool
	lines     strings.Builder // what is printed of one seed
	flooded   [numNodes]bool

	totals
}

// totals are what happened in a run.
type totals struct {
	started, bytes, aborted, crashes            int
	moves                                       [16][16]int
	reasons                                     [16]int
	retransmitted, warnings                     int
	drops                                       map[wire.Drop]int
	lost                                        [simnet.NumCauses]int
	duplicated, reordered, corrupted, shortened int
	marked, refused, reneged                    int
	verbs                                       [numVerbs]int
}

func (x *scenario) fail(format string, args ...any) {
	if x.err == nil {
		x.err = fmt.Errorf(format, args...)
		x.network.World.Fail(x.err)
	}
}

// play runs the operations in a world of the seed.
func play(seed uint64, ops []op, p plant) (t totals, trace uint64, err error) {
	x := &scenario{seed: seed, byRemote: map[[2]tcp.Endpoint]*flow{}, sides: map[*Conn]*side{}, plan: p}
	x.drops = map[wire.Drop]int{}
	x.settings = settingsOf(seed)
	if x.lossless = isLossless(ops); x.lossless { // a peer that delays its acknowledgements for 40 ms is no cause to send again
		for i := range x.settings {
			x.settings[i].DelayedAck, x.settings[i].RTOMin = 40*time.Millisecond, 200*time.Millisecond
		}
	}
	x.network, err = NewNetwork(seed, numNodes, func(int) tcp.Config {
		c := tcp.Config{MaxHalfOpen: 16}
		if p.table != nil {
			p.table(&c)
		}
		return c
	})
	if err != nil {
		return t, 0, err
	}
	if p.network != nil {
		p.network(x.network)
	}
	x.inspector = Inspect(x.network)
	x.printPackets()
	for _, n := range x.network.Nodes {
		if err := n.Cable.Set(simnet.Impairment{Delay: time.Millisecond}); err != nil {
			return t, 0, err
		}
		x.start(n)
	}
	for _, o := range ops {
		x.network.World.At(o.at, func() { x.do(o) })
	}
	x.network.World.At(healed, x.heal)
	err = x.run()
	x.endPrint(err)
	x.count()
	return x.totals, x.network.World.Hash(), err
}

func (x *scenario) run() error {
	if err := x.network.World.Run(healed + patience); err != nil {
		return err
	}
	return x.finished()
}

// start makes a host that is new, or new after a crash, do its work.
func (x *scenario) start(n *Node) {
	n.Host.Moved = func(c *Conn, from, to tcp.State) {
		x.moves[from][to]++
		if s := x.sides[c]; s != nil {
			s.hurry(to)
		}
		if !legal(from, to) {
			x.fail("state: node %d moves from %v to %v", n.Index, from, to)
		}
	}
	n.Host.Piece = [...]int{64 << 10, 1460, 4096, 1448, 300}[x.seed%5]
	n.Host.Handle = func(now clock.Time, c *Conn, e tcp.Event) { x.event(n, now, c, e) }
	if x.plan.host != nil {
		x.plan.host(n.Host)
	}
	for i := range numListeners {
		_, err := n.Listen(tcp.ListenConfig{Local: tcp.Endpoint{Port: uint16(firstPort + i)}, Backlog: 8, Settings: x.settings[i]})
		if err != nil {
			x.fail("listen: %w", err)
		}
	}
}

// event is the application of all nodes.
func (x *scenario) event(n *Node, now clock.Time, c *Conn, e tcp.Event) {
	if e.Kind == tcp.EventAccepted {
		x.accept(n, now, c)
	}
	if e.Kind == tcp.EventWarning {
		x.warnings++
	}
	if s := x.sides[c]; s != nil {
		s.step(now)
	}
}

func (x *scenario) accept(n *Node, now clock.Time, c *Conn) {
	f := x.byRemote[[2]tcp.Endpoint{c.Remote, c.Local}]
	c = n.Accept(c.Listener, c.User)
	if c == nil {
		return
	}
	if f == nil || f.sides[1] != nil && f.sides[1].conn != nil {
		c.Abort(now) // a SYN that came late
		return
	}
	x.join(f, 1, n, c)
}

func (x *scenario) join(f *flow, index int, n *Node, c *Conn) {
	s := &side{scenario: x, flow: f, index: index, plan: f.plan.sides[index], node: n, conn: c}
	f.sides[index] = s
	x.sides[c] = s
}

func (x *scenario) do(o op) {
	n := x.network.Nodes[o.node]
	now := x.network.Now()
	x.verbs[o.do]++
	switch o.do {
	case doFlow:
		x.begin(o.flow)
	case doImpair:
		l := n.Cable.AB
		if o.back {
			l = n.Cable.BA
		}
		if err := l.Set(o.m); err != nil {
			x.fail("impair: %w", err)
		}
	case doMTU:
		n.MTU, n.Silent = o.n, o.back
	case doMark:
		n.Mark = o.p
	case doCrash:
		x.crash(n, o.d)
	case doFlood:
		x.flood(n, o)
	case doForge:
		x.forge(n, o)
	case doPause:
		n.Pause(o.d)
	case doRenege:
		x.reneged += n.Table.Renege(o.n)
	}
	n.Wake(now)
}

// begin starts a flow.
func (x *scenario) begin(p flowPlan) {
	client, server := x.network.Nodes[p.client], x.network.Nodes[p.server]
	if !client.Up {
		return
	}
	f := &flow{number: len(x.flows), plan: p, disturbed: !server.Up || x.flooded[p.server]}
	d := tcp.Dial{Local: tcp.Endpoint{Addr: client.Addr, Port: uint16(p.from)}, Remote: tcp.Endpoint{Addr: server.Addr, Port: uint16(p.port)},
		Settings: x.settings[p.settings]}
	if p.both {
		if !server.Up {
			return
		}
		d.Remote.Port = uint16(p.from) // neither end listens
	}
	now := x.network.Now()
	c, err := client.Connect(now, d)
	if err != nil {
		return // the port is taken
	}
	f.local, f.remote = c.Local, d.Remote
	x.flows = append(x.flows, f)
	x.byRemote[[2]tcp.Endpoint{f.local, f.remote}] = f
	x.join(f, 0, client, c)
	f.sides[0].hurry(c.State())
	client.Wake(now)
	if p.both {
		f.disturbed = true // where one SYN arrives late, the other end may be refused
		back := tcp.Dial{Local: d.Remote, Remote: f.local, Settings: x.settings[p.settings]}
		if c, err := server.Connect(now, back); err == nil {
			x.join(f, 1, server, c)
			server.Wake(now)
		}
	}
}

func (x *scenario) crash(n *Node, d time.Duration) {
	if !n.Up {
		return
	}
	x.crashes++
	for _, f := range x.flows {
		for _, s := range f.sides {
			if s != nil && s.node == n {
				s.dead = true
				f.disturbed = true
			}
		}
		if f.plan.server == n.Index || f.plan.client == n.Index {
			f.disturbed = true
		}
	}
	x.inspector.Forget(n.Index)
	x.noteHost(n.Host)
	if err := n.Crash(d); err != nil {
		x.fail("crash: %w", err)
		return
	}
	x.start(n)
}

// flood sends SYNs from addresses that nobody has.
func (x *scenario) flood(n *Node, o op) {
	r := x.network.World.Rand(fmt.Sprint("flood ", o.at))
	for range o.n {
		x.inject(n, wire.TCPFields{SourcePort: uint16(1 + r.IntN(65535)), TargetPort: uint16(firstPort + r.IntN(numListeners)), Seq: r.Uint32(), Flags: wire.TCPSyn,
			Window: 1000}, wire.Addr{10, 0, 0, byte(100 + r.IntN(100))}, n.Addr, nil)
	}
	// From now on it may answer with cookies, and then a handshake whose last segment is lost ends in a reset.
	x.flooded[n.Index] = true
	for _, f := range x.flows {
		f.disturbed = f.disturbed || f.plan.server == n.Index && f.sides[1] == nil
	}
}

// forge sends segments that are about to fit the node's connections: their ports are right, their numbers are near.
func (x *scenario) forge(n *Node, o op) {
	r := x.network.World.Rand(fmt.Sprint("forge ", o.at))
	for _, f := range x.flows { // a SYN that fits makes a simultaneous open of a handshake
		f.disturbed = f.disturbed || f.sides[0] != nil && !f.sides[0].conn.Connected
	}
	for range o.n {
		if len(x.flows) == 0 {
			return
		}
		f := x.flows[r.IntN(len(x.flows))]
		from, to := f.local, f.remote
		if r.IntN(2) == 0 {
			from, to = to, from
		}
		if to.Addr != n.Addr {
			from, to = to, from
		}
		if to.Addr != n.Addr {
			continue
		}
		st := x.inspector.streams[place{n.Index, to, from}]
		seq, ack := r.Uint32(), r.Uint32()
		flags := []wire.TCPFlags{wire.TCPRst, wire.TCPSyn, wire.TCPAck, wire.TCPSyn | wire.TCPAck, wire.TCPRst | wire.TCPAck, 0,
			wire.TCPFin | wire.TCPAck}[r.IntN(7)]
		if st != nil && r.IntN(2) == 0 && flags&(wire.TCPRst|wire.TCPSyn) != 0 {
			// Inside the window and not at its edge: RFC 5961 wants a challenge.
			seq = uint32(st.arrived) + 1 + uint32(r.IntN(100))
		}
		if flags&wire.TCPRst != 0 && st != nil && (seq == uint32(st.arrived) || flags&wire.TCPAck != 0) {
			seq += 1 << 30
		}
		if st != nil && r.IntN(4) == 0 { // data with the right acknowledgement, outside the window
			data := make([]byte, 1+r.IntN(200))
			seq = uint32(st.arrived) + []uint32{1 << 30, 1 << 31, 3 << 30}[r.IntN(3)]
			x.inject(n, wire.TCPFields{SourcePort: from.Port, TargetPort: to.Port, Seq: seq, Ack: uint32(st.next), Flags: wire.TCPAck | wire.TCPPsh,
				Window: uint16(st.edge.Minus(st.next) & 0xff)}, from.Addr, to.Addr, data)
			continue
		}
		if flags == wire.TCPSyn {
			x.inspector.Doubt(n.Index, to, from)
		}
		x.inject(n, wire.TCPFields{SourcePort: from.Port, TargetPort: to.Port, Seq: seq, Ack: ack, Flags: flags, Window: uint16(r.Uint32())}, from.Addr, to.Addr, nil)
	}
}

func (x *scenario) inject(n *Node, f wire.TCPFields, source, target wire.Addr, payload []byte) {
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolTCP, Source: source, Target: target}
	b, err := ip.Append(nil, f.HeaderLen()+len(payload))
	if err == nil {
		b, err = f.Append(b, source, target, payload)
	}
	if err != nil {
		x.fail("inject: %w", err)
		return
	}
	x.printForged(n, f)
	if n.Up {
		n.Receive(x.network.Now(), b)
		n.Wake(x.network.Now())
	}
}

// heal makes all cables good.
func (x *scenario) heal() {
	for _, n := range x.network.Nodes {
		if err := n.Cable.Set(simnet.Impairment{Delay: time.Millisecond}); err != nil {
			x.fail("heal: %w", err)
		}
		n.Silent, n.Mark = false, 0
		if !x.settings[0].PathMTU {
			n.MTU = 1500 // the router does not fragment
		}
	}
}

// legal reports whether a connection may be seen in one state and next in another: the moves of RFC 9293 section 3.3.2, several at once where a
// segment does several things.
func legal(from, to tcp.State) bool {
	if to == tcp.Closed {
		return true // a reset, a time-out, Abort; or the record went into TIME-WAIT
	}
	return legalMoves[from]&(1<<to) != 0
}

var legalMoves = [...]uint16{
	tcp.Closed:      1<<tcp.SynSent | 1<<tcp.SynReceived | 1<<tcp.Established | 1<<tcp.CloseWait,
	tcp.SynSent:     1<<tcp.SynReceived | 1<<tcp.Established | 1<<tcp.FinWait1 | 1<<tcp.CloseWait,
	tcp.SynReceived: 1<<tcp.Established | 1<<tcp.FinWait1 | 1<<tcp.CloseWait | 1<<tcp.Closing | 1<<tcp.LastAck | 1<<tcp.FinWait2,
	tcp.Established: 1<<tcp.FinWait1 | 1<<tcp.CloseWait,
	tcp.FinWait1:    1<<tcp.FinWait2 | 1<<tcp.Closing | 1<<tcp.TimeWait,
	tcp.FinWait2:    1 << tcp.TimeWait,
	tcp.CloseWait:   1 << tcp.LastAck,
	tcp.Closing:     1 << tcp.TimeWait,
	tcp.LastAck:     0,
	tcp.TimeWait:    0,
}

// finished checks what must hold at the end.
func (x *scenario) finished() error {
	for _, f := range x.flows {
		for _, s := range f.sides {
			if err := s.finished(); err != nil {
				return err
			}
		}
		client, server := f.sides[0], f.sides[1]
		if f.polite() {
			if server == nil {
				return fmt.Errorf("liveness: flow %d: the server never had it", f.number)
			}
			if client.got != server.plan.bytes || server.got != client.plan.bytes {
				return fmt.Errorf("content: flow %d: %d of %d and %d of %d bytes have arrived", f.number, client.got, server.plan.bytes, server.got, client.plan.bytes)
			}
		}
	}
	for _, n := range x.network.Nodes {
		if err := n.Err(); err != nil {
			return fmt.Errorf("node %d: %w", n.Index, err)
		}
		if n.Live() > 0 || n.Memory() > 0 {
			return fmt.Errorf("ledger: node %d has %d records and %d bytes at the end", n.Index, n.Live(), n.Memory())
		}
		if d := n.Table.Deadline(); d != clock.Never {
			return fmt.Errorf("timer: node %d still has a deadline at the end, at %v", n.Index, d.Sub(begin))
		}
		if limit := 20*(n.Segments.In+n.Segments.Out) + 2000; n.Turns > limit {
			return fmt.Errorf("timer: node %d had %d turns for %d segments", n.Index, n.Turns, n.Segments.In+n.Segments.Out)
		}
		if r := x.inspector.Retransmitted[n.Index]; x.lossless && r > 0 {
			return fmt.Errorf("cause: node %d has sent %d segments again, and none was lost", n.Index, r)
		}
	}
	return nil
}

// isLossless reports that no operation loses, delays or disturbs anything.
func isLossless(ops []op) bool {
	for _, o := range ops {
		if o.do != doFlow && o.do != doMark {
			return false
		}
	}
	return true
}

func (x *scenario) noteHost(h *Host) {
	for d, n := range h.Drops {
		x.drops[d] += n
	}
}

func (x *scenario) count() {
	x.started, x.marked, x.refused = len(x.flows), x.network.Marked, x.network.Refused
	for _, n := range x.network.Nodes {
		x.noteHost(n.Host)
		x.retransmitted += x.inspector.Retransmitted[n.Index]
	}
	for _, l := range x.network.World.Lines() {
		s := l.Stats()
		for i, n := range s.Lost {
			x.lost[i] += int(n)
		}
		x.duplicated += int(s.Duplicated)
		x.reordered += int(s.Reordered)
		x.corrupted += int(s.Corrupted)
		x.shortened += int(s.Shortened)
	}
}
