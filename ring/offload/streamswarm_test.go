package offload_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// swarm is a ring with TCP that echoes, and at the other end of its memory link any number of clients. A client is eight bytes: no stack and no
// timer. The test polls both.
type swarm struct {
	*require.Assertions
	t        testing.TB
	set      *ring.Set
	ring     *ring.Ring
	pool     *buffers.DriverPool // the ring's
	driver   ring.Driver
	accepted int
	dst      []ring.Completion

	wire    *memory.End // the clients' end
	far     *buffers.DriverPool
	out     []link.Out
	frames  [64]link.Frame
	clients []swarmClient
	opened  int     // clients that have sent their SYN
	joined  int     // those that have got the answer
	got     int     // bytes that have come back
	acked   tcp.Seq // what the last segment that came acknowledges
	resets  int     // that came
	ends    int     // FINs that came in order
	holds   bool    // data is not acknowledged by itself
	silent  int     // a client that does not even note data; -1: none
	missed  int     // what it was sent beyond what it has acknowledged
}

// swarmClient is the client's next sequence number, and the one that it expects of the server.
type swarmClient struct{ seq, ack tcp.Seq }

const (
	swarmPorts = 60_000 // clients of an address
	swarmFirst = 1024   // their first port
	swarmMAC   = 1      // of macs
	swarmText  = 'x'    // all that clients send
)

var swarmServer = tcp.Endpoint{Addr: subnets[0][0].Addr().As4(), Port: 80}

// swarmAddr is an address of clients.
func swarmAddr(i int) wire.Addr { return wire.Addr{10, 9, 0, byte(100 + i)} }

// endpoint is that of a client.
func (w *swarm) endpoint(i int) tcp.Endpoint {
	return tcp.Endpoint{Addr: swarmAddr(i / swarmPorts), Port: uint16(swarmFirst + i%swarmPorts)}
}

// newSwarm makes a ring that listens on port 80, and n clients that have not begun yet.
func newSwarm(t testing.TB, n int, o *streams.Options) *swarm { return newSwarmMTU(t, n, o, 1500) }

func newSwarmMTU(t testing.TB, n int, o *streams.Options, mtu int) *swarm {
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192}
	farLayout := layout
	farLayout.LargeCount = 64
	w := &swarm{Assertions: require.New(t), t: t, pool: newPool(t, layout), far: newPool(t, farLayout), dst: make([]ring.Completion, 64),
		silent: -1, clients: make([]swarmClient, n)}
	near, far, err := memory.Pair(w.pool, w.far, memory.Config{Names: [2]string{"mem0", "mem1"}, Addrs: macs, Slots: 1024, MTU: mtu})
	w.NoError(err)
	w.wire = far
	f := facts(0, mtu)
	for i := range n/swarmPorts + 1 {
		f.Neighbours = append(f.Neighbours, host.Neighbour{Target: host.Target{Interface: linkIndex, Addr: netip.AddrFrom4(swarmAddr(i))},
			MAC: wire.MAC(macs[swarmMAC]), State: 0x80})
	}
	h, err := offload.NewMemoryHost(f, rand.Uint64)
	w.NoError(err)
	oc := overLink(t, h, near)
	oc.TCP = o
	open := offload.New(oc)
	w.set, err = ring.NewSet(ring.SetConfig{Pool: w.pool, Kind: "offload", Transport: h, OneRing: offload.OneRing,
		Driver: func(c ring.DriverConfig) (_ ring.Driver, err error) {
			w.driver, err = open(c)
			return w.driver, err
		}})
	w.NoError(err)
	w.ring, err = w.set.NewRing()
	w.NoError(err)
	t.Cleanup(func() {
		_ = w.set.Close()
		_ = far.Close()
	})
	l, err := w.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	w.NoError(err)
	w.NoError(l.Bind(swarmServer.AddrPort()))
	w.NoError(l.Listen(4096))
	w.poll()
	return w
}

// servers are the server's ends of the connections.
func (w *swarm) servers() (list []*ring.Socket) {
	w.NoError(w.ring.EachSocket(func(s *ring.Socket) {
		if s.Kind() == ring.KindStream {
			list = append(list, s)
		}
	}))
	return list
}

// poll is a turn of the ring, whose application echoes.
func (w *swarm) poll() {
	n, err := w.ring.Poll(w.dst)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range w.dst[:n] {
		c := &w.dst[i]
		if c.Events.Has(ring.EventNewConnection) {
			w.accepted++
		}
		if c.Events.Has(ring.EventPacket) {
			if _, err := c.Socket.Send(c.Packet.Bytes()); err != nil {
				w.t.Fatal(err)
			}
			_ = c.Packet.Release()
		}
	}
}

// send puts a segment onto the wire, for flush to send.
func (w *swarm) send(s *tcp.Segment, payload []byte) {
	p, frame := w.far.AllocTransmit(0, wire.EthernetLen+wire.IPv4Len+s.HeaderLen()+len(payload))
	if p.IsZero() {
		w.t.Fatal("the clients have no buffer")
	}
	putSegment(frame, s, payload)
	if w.out = append(w.out, link.Out{Packet: p}); len(w.out) == cap(w.frames[:]) {
		w.flush()
	}
}

// putSegment writes a whole frame of the clients.
func putSegment(frame []byte, s *tcp.Segment, payload []byte) {
	e := wire.EthernetFields{Target: wire.MAC(macs[0]), Source: wire.MAC(macs[swarmMAC]), Type: wire.TypeIPv4}
	b := e.Append(frame[:0])
	n := s.HeaderLen() + len(payload)
	f := wire.IPv4Fields{DontFragment: true, TTL: 64, Protocol: wire.ProtocolTCP, Source: s.Local.Addr, Target: s.Remote.Addr}
	b, err := f.Append(b, n)
	if err != nil {
		panic(err) // a bug of the test
	}
	segment := frame[len(b) : len(b)+n]
	copy(segment[s.HeaderLen():], payload)
	s.Put(segment, wire.Pseudo(s.Local.Addr, s.Remote.Addr, wire.ProtocolTCP, uint16(n)), wire.Sum(0).Add(payload))
}

// flush sends what was put onto the wire.
func (w *swarm) flush() {
	if n := w.wire.Send(w.out); n != len(w.out) {
		w.t.Fatal("the wire is full")
	}
	w.out = w.out[:0]
	if err := w.wire.Flush(); err != nil {
		w.t.Fatal(err)
	}
	w.wire.Complete(nil)
}

// segment is one of a client, with what it acknowledges.
func (w *swarm) segment(i int, flags wire.TCPFlags) tcp.Segment {
	c := &w.clients[i]
	return tcp.Segment{Local: w.endpoint(i), Remote: swarmServer, Seq: c.seq, Ack: c.ack, Flags: flags, Window: 65535}
}

// syn begins a client's connection.
func (w *swarm) syn(i int) {
	w.clients[i].seq = tcp.Seq(i * 7919)
	s := w.segment(i, wire.TCPSyn)
	s.Options.Has, s.Options.MSS = wire.TCPHasMSS|wire.TCPHasSACKPermitted, 1460
	w.send(&s, nil)
	w.clients[i].seq++
}

// data sends bytes of a client.
func (w *swarm) data(i int, payload []byte) {
	s := w.segment(i, wire.TCPAck|wire.TCPPsh)
	w.send(&s, payload)
	w.clients[i].seq = w.clients[i].seq.Add(len(payload))
}

// acknowledge sends an acknowledgement of a client.
func (w *swarm) acknowledge(i int) {
	s := w.segment(i, wire.TCPAck)
	w.send(&s, nil)
}

// receive takes what has come for the clients, and acknowledges it unless holds is set.
func (w *swarm) receive() {
	for {
		n := w.wire.Receive(w.frames[:])
		if n == 0 {
			break
		}
		for k := range w.frames[:n] {
			w.arrived(w.frames[k].Packet.Bytes())
			_ = w.frames[k].Packet.Release()
		}
	}
	w.flush()
}

func (w *swarm) arrived(frame []byte) {
	const at = wire.EthernetLen + wire.IPv4Len
	ip, t := frame[wire.EthernetLen:], frame[at:]
	i := int(ip[19]-100)*swarmPorts + int(binary.BigEndian.Uint16(t[2:])) - swarmFirst
	if ip[9] != wire.ProtocolTCP || i < 0 || i >= w.opened {
		return // for a sender that is none of the clients
	}
	seq, flags := tcp.Seq(binary.BigEndian.Uint32(t[4:])), wire.TCPFlags(t[13])
	length := int(binary.BigEndian.Uint16(ip[2:])) - wire.IPv4Len - int(t[12]>>4)*4
	c := &w.clients[i]
	w.acked = tcp.Seq(binary.BigEndian.Uint32(t[8:]))
	switch {
	case flags&wire.TCPRst != 0:
		w.resets++
	case flags&wire.TCPSyn != 0:
		c.ack = seq + 1
		w.joined++
		w.acknowledge(i)
	case i == w.silent:
		w.missed = max(w.missed, seq.Add(length).Minus(c.ack))
	case length > 0 && seq == c.ack:
		for _, b := range frame[len(frame)-length:] {
			if b != swarmText {
				w.t.Fatalf("client %d gets %q, which no client has sent", i, b)
			}
		}
		c.ack = seq.Add(length)
		w.got += length
		w.takeEnd(i, flags)
	case flags&wire.TCPFin != 0 && seq == c.ack:
		w.takeEnd(i, flags)
	}
}

// takeEnd takes the FIN of a segment in order, and acknowledges what came.
func (w *swarm) takeEnd(i int, flags wire.TCPFlags) {
	if flags&wire.TCPFin != 0 {
		w.clients[i].ack++
		w.ends++
	}
	if !w.holds {
		w.acknowledge(i)
	}
}

// open opens connections until n are accepted.
func (w *swarm) open(n int) {
	for end := time.Now().Add(10 * time.Minute); w.accepted < n; {
		for range 32 { // half of what a Poll takes: their acknowledgements come in the next turn
			if w.opened < n {
				w.syn(w.opened)
				w.opened++
			}
		}
		w.flush()
		w.poll()
		w.receive()
		w.poll()
		if time.Now().After(end) {
			w.FailNow("not all were accepted", "%d of %d: %v", w.accepted, n, w.ring.Stats().Driver)
		}
	}
	w.settle()
}

// settle lets the ring do what is left, delayed acknowledgements among it.
func (w *swarm) settle() {
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		w.poll()
		w.receive()
	}
}

// text is n bytes of what clients send.
func text(n int) []byte { return bytes.Repeat([]byte{swarmText}, n) }

// echo is one round trip of a client.
func (w *swarm) echo(i int, payload []byte) time.Duration {
	w.data(i, payload)
	start := time.Now()
	w.flush()
	for want := w.got + len(payload); w.got < want; {
		w.poll()
		w.receive()
		if time.Since(start) > patience {
			w.FailNow("no echo", "%v", w.ring.Stats().Driver)
		}
	}
	return time.Since(start)
}
