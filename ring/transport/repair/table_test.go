package repair

import (
	"encoding/binary"
	"hash"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// engine is the least transport under a table: frames come by AF_XDP and leave by a packet socket.
type engine struct {
	w          *world
	table      *tcp.Table
	id         tcp.ID
	device     *xdp.Device
	queue      *xdp.Queue
	index, raw int
	mac, peer  net.HardwareAddr
	frames     [64]link.Frame
	payload    map[tcp.Buffer][]byte
	last       tcp.Buffer
}

func now() clock.Time { return clock.Time(time.Now().UnixNano()) }

func newEngine(w *world) *engine {
	e := &engine{w: w, payload: map[tcp.Buffer][]byte{}}
	near, err := net.InterfaceByName(w.net.Device(0))
	w.NoError(err)
	e.index, e.mac = near.Index, near.HardwareAddr
	w.net.InPeer(func() {
		far, err := net.InterfaceByName("p0")
		w.NoError(err)
		e.peer = far.HardwareAddr
	})
	e.table, err = tcp.New(tcp.Config{Random: rand.Uint64}, now())
	w.NoError(err)
	e.device, err = xdp.Open(xdp.Config{Interface: w.net.Device(0), TCP: true})
	w.NoError(err)
	l := buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 2, Headroom: 192}
	r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	w.NoError(err)
	pool, err := buffers.New(r.Bytes(), l)
	w.NoError(err)
	e.queue, err = e.device.OpenQueue(0, pool)
	w.NoError(err)
	e.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	w.NoError(err)
	w.t.Cleanup(func() { _, _, _, _ = e.queue.Close(), e.device.Close(), r.Close(), unix.Close(e.raw) })
	return e
}

func (e *engine) keep(b []byte) tcp.Payload {
	e.last++
	e.payload[e.last] = b
	return tcp.Payload{Buffer: e.last, Length: uint32(len(b))}
}

func (e *engine) read(p tcp.Payload) []byte { return e.payload[p.Buffer][p.Offset : p.Offset+p.Length] }

// fromKernel takes the connection out of its socket.
func (e *engine) fromKernel() {
	w := e.w
	w.t.Helper()
	w.NoError(w.guard.Claim(w.flow))
	f, err := Freeze(w.fd)
	w.NoError(err)
	w.NoError(f.Close())
	w.fd = -1
	s := &f.State
	var q tcp.Queues
	for _, x := range []struct {
		list *[]tcp.Payload
		b    []byte
	}{{&q.Received, s.Received}, {&q.Sent, s.Sent}, {&q.Unsent, s.Unsent}} {
		if len(x.b) > 0 {
			*x.list = []tcp.Payload{e.keep(x.b)}
		}
	}
	e.id, err = e.table.Import(now(), &s.Snapshot, &q, 0)
	w.NoError(err)
	w.NoError(e.device.Claim(w.flow))
}

// toKernel makes a socket of the connection.
func (e *engine) toKernel() {
	w := e.w
	w.t.Helper()
	snapshot, q, err := e.table.Export(now(), e.id)
	w.NoError(err)
	w.NoError(e.device.Release(w.flow))
	s := State{Snapshot: snapshot}
	for _, p := range q.Sent {
		s.Sent = append(s.Sent, e.read(p)...)
	}
	for _, p := range q.Unsent {
		s.Unsent = append(s.Unsent, e.read(p)...)
	}
	c, err := Create(&s)
	w.NoError(err)
	w.NoError(w.guard.Release(w.flow))
	w.fd, err = c.Activate()
	w.NoError(err)
	w.NoError(e.table.Discard(now(), e.id))
}

// turn is one turn of a ring: it hashes what has come, and sends.
func (e *engine) turn(h hash.Hash, s *stream) (got int) {
	w := e.w
	for _, f := range e.frames[:e.queue.Receive(e.frames[:])] {
		b := make([]byte, f.Packet.Len())
		f.Packet.CopyTo(b)
		w.NoError(f.Packet.Release())
		total := int(binary.BigEndian.Uint16(b[16:]))
		e.last++
		var g tcp.Segment
		w.Equal(wire.Accept, g.Parse(wire.Addr(b[26:30]), wire.Addr(b[30:34]), b[34:14+total], e.last, 34))
		if kept, _ := e.table.Input(now(), &g); kept {
			e.payload[e.last] = b
		}
	}
	for e.table.Expire(now()) {
	}
	for _, x := range e.table.Events() {
		switch x.Kind {
		case tcp.EventData:
			h.Write(e.read(x.Payload))
			got += int(x.Payload.Length)
			e.table.Credit(now(), x.Conn, int(x.Payload.Length))
		case tcp.EventSent:
			delete(e.payload, x.Payload.Buffer)
		case tcp.EventFailed:
			w.FailNow("the connection failed", "%v", x.Reason)
		}
	}
	for s != nil && e.table.Room(e.id) >= 8000 && (s.left > 0 || len(s.rest) > 0) {
		b := s.next(8000)
		s.rest = nil
		w.NoError(e.table.Send(now(), e.id, e.keep(b), false))
	}
	var g tcp.Segment
	for e.table.Output(now(), &g) {
		e.transmit(&g)
	}
	return got
}

func (e *engine) transmit(g *tcp.Segment) {
	n := g.HeaderLen() + int(g.Payload.Length)
	b := append(append(append([]byte{}, e.peer...), e.mac...), 8, 0)
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolTCP, Source: g.Local.Addr, Target: g.Remote.Addr}
	b, err := ip.Append(b, n)
	e.w.NoError(err)
	head := len(b)
	b = append(b, make([]byte, g.HeaderLen())...)
	var payload []byte
	if g.Payload.Length > 0 {
		payload = e.read(g.Payload)
		b = append(b, payload...)
	}
	g.Put(b[head:], wire.Pseudo(g.Local.Addr, g.Remote.Addr, wire.ProtocolTCP, uint16(n)), wire.Sum(0).Add(payload))
	// A full transmit queue is a loss.
	_ = unix.Sendto(e.raw, b, 0, &unix.SockaddrLinklayer{Ifindex: e.index, Halen: 6})
}

// A connection of the kernel becomes one of our stack and is the kernel's again, ten moves in mid-stream: each byte arrives in both directions,
// and nobody is reset.
func TestKernelAndTable(t *testing.T) {
	w := newWorld(t)
	e := newEngine(w)
	const total = 12 << 20
	x, moves := w.exchange(total), 0
	for end := time.Now().Add(patience); !x.over(); {
		w.True(time.Now().Before(end), "%s after %d moves; %+v", x, moves, e.table.Stats())
		if w.fd < 0 {
			x.got += e.turn(x.arrived, x.sent)
		} else {
			if !x.socket() {
				time.Sleep(100 * time.Microsecond)
			}
			e.turn(x.arrived, nil) // what is late
		}
		if moves < 10 && x.progress() > (moves+1)*total/14 {
			if w.fd >= 0 {
				e.fromKernel()
			} else {
				e.toKernel()
			}
			moves++
		}
	}
	w.Equal(10, moves)
	x.check()
	stats := e.table.Stats()
	require.Zero(t, stats.Resets)
	require.Zero(t, stats.ResetsTaken)
	t.Logf("ten moves; the table sent %d segments, %d of them again, %d time-outs", stats.Out, stats.Retransmitted, stats.TimeOuts)
}

// single has the peer send segments that a ring can take: joined ones are longer than the MTU.
func (w *world) single() {
	w.net.InPeer(func() {
		l, err := netlink.LinkByName("p0")
		w.NoError(err)
		w.NoError(netlink.LinkSetGSOMaxSegs(l, 1))
	})
}
