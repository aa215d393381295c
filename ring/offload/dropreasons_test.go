package offload_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/internal/wire/malformed"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// dropWorld is a rawEnd whose ring counts its drops in a statistics file, as rings of package xtreme do.
type dropWorld struct {
	*rawEnd
	file *stats.Reader
	host *offload.MemoryHost
}

// dropsFile makes a statistics file with a block for a ring's drops, and opens it as a reader does. Both end with the test, behind the ring.
func dropsFile(t *testing.T) (*stats.Reader, *[wire.NumDrops]uint64) {
	file, err := stats.Create(stats.Config{Directory: filepath.Join(t.TempDir(), "stats")})
	require.NoError(t, err)
	block := file.Open(stats.Drops, nil, 1)
	r, err := stats.Open(file.Path())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, file.Close())
	})
	return r, sys.Overlay[[wire.NumDrops]uint64](block.Counters())
}

// newDropWorld makes one; with o its stack speaks TCP.
func newDropWorld(t *testing.T, budget int, o *streams.Options) *dropWorld {
	file, drops := dropsFile(t)
	w := &dropWorld{file: file, rawEnd: &rawEnd{t: t, pool: newPool(t, layout), ours: newPool(t, layout), dst: make([]ring.Completion, 64)}}
	a, b, err := memory.Pair(w.ours, w.pool, memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem1"}, MTU: 1500,
		Faults: [2]memory.Fault{nil, func(frame []byte) ([]byte, int) { return frame[:w.cut], 1 }}})
	require.NoError(t, err)
	w.wire = b
	w.host, err = offload.NewMemoryHost(facts(0, 1500), rand.Uint64)
	require.NoError(t, err)
	oc := overLink(t, w.host, a)
	oc.TCP, oc.Drops = o, drops
	w.set, err = ring.NewSet(ring.SetConfig{Pool: w.ours, Kind: "offload", Transport: w.host, OneRing: offload.OneRing, Driver: offload.New(oc)})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.set.Close())
		require.NoError(t, b.Close())
	})
	w.s, err = w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048, Budget: budget})
	require.NoError(t, err)
	require.NoError(t, w.s.Bind(netip.AddrPortFrom(netip.AddrFrom4(us.Addr), us.Port)))
	w.poll()
	return w
}

// counted are the drops in the file that are not zero.
func (w *dropWorld) counted() map[string]uint64 {
	list := w.file.Blocks(stats.Drops)
	require.Len(w.t, list, 1)
	all := map[string]uint64{}
	for name, v := range list[0].Totals {
		if v > 0 {
			all[name] = v
		}
	}
	return all
}

// packet is a frame from the stranger to us around an IPv4 payload, to a group's MAC for a group.
func packet(protocol, ttl uint8, from, to wire.Addr, payload []byte) []byte {
	e := wire.EthernetFields{Target: us.MAC, Source: stranger.MAC, Type: wire.TypeIPv4}
	switch {
	case to.IsMulticast():
		e.Target = wire.GroupMAC(to)
	case to == wire.Addr{255, 255, 255, 255}:
		e.Target = wire.Broadcast
	}
	h := wire.IPv4Fields{TTL: ttl, Protocol: protocol, Source: from, Target: to}
	b, err := h.Append(e.Append(nil), len(payload))
	if err != nil {
		panic(err)
	}
	return append(b, payload...)
}

// datagram is a UDP datagram from the stranger.
func datagram(to wire.Addr, port uint16) []byte {
	u := wire.UDPFields{SourcePort: stranger.Port, TargetPort: port}
	b, err := u.Append(nil, stranger.Addr, to, []byte("datagram"))
	if err != nil {
		panic(err)
	}
	return b
}

// provoked are reasons that no frame of package malformed has alone: each puts n frames that are dropped for it and for nothing else, and
// returns n.
var provoked = map[wire.Drop]func(t *testing.T) (w *dropWorld, n uint64){
	wire.UDPPartial: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		d := datagram(us.Addr, us.Port)
		binary.BigEndian.PutUint16(d[6:], uint16(wire.Pseudo(stranger.Addr, us.Addr, wire.ProtocolUDP, uint16(len(d)))))
		return w, w.times(3, packet(wire.ProtocolUDP, 64, stranger.Addr, us.Addr, d))
	},
	wire.EthernetInactive: func(t *testing.T) (*dropWorld, uint64) {
		file, drops := dropsFile(t)
		bond := bonded(t, host.BondActiveBackup)
		bond.drops = drops
		bond.start()
		set, r, _ := bond.ring(bondOnV0)
		x := bond.listener(set, "10.0.0.1:7000")
		const n = 3
		for i := range uint64(n) {
			bond.come("m1", 0, 0, x.s.LocalAddr(), i)
		}
		x.until("dropped", func() bool { return counter(r, "eth.inactive") == n })
		return &dropWorld{rawEnd: &rawEnd{t: t, s: x.s}, file: file}, n
	},
	// What is wrong with another member's report is counted; a right one is no reason.
	wire.IGMPRecords: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		w.times(1, report(4, 0, 1, 239, 1, 2, 3, 10, 0, 0, 1))
		require.Empty(t, w.counted())
		return w, w.times(3, report(4, 0, 2, 239, 1, 2, 3, 10, 0, 0, 1))
	},
	wire.IGMPRecord: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		return w, w.times(3, report(7, 0, 0, 239, 1, 2, 3))
	},
	wire.IPv4SourceOurs: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		return w, w.times(3, packet(wire.ProtocolUDP, 64, subnets[0][1].Addr().As4(), us.Addr, datagram(us.Addr, us.Port)))
	},
	wire.UDPNoSocket: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		return w, w.times(4, packet(wire.ProtocolUDP, 64, stranger.Addr, us.Addr, datagram(us.Addr, us.Port+1)))
	},
	wire.UDPBudget: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 4096, nil)
		var held []buffers.Packet
		sent := uint64(0)
		for w.s.Stats().Drops < 5 {
			require.Less(t, sent, uint64(10_000))
			w.put(packet(wire.ProtocolUDP, 64, stranger.Addr, us.Addr, datagram(us.Addr, us.Port)))
			sent++
			for _, c := range w.poll() {
				held = append(held, c.Packet)
			}
		}
		dropped := w.s.Stats().Drops
		// Each datagram that was sent is with the application, or was kept for it, or is one of the drops.
		for len(held) > 0 {
			require.NoError(t, held[0].Release())
			held = held[1:]
			sent--
			for _, c := range w.poll() {
				held = append(held, c.Packet)
			}
		}
		require.Equal(t, sent, dropped)
		return w, sent
	},
	wire.UDPForeignPeer: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		require.NoError(t, s.Bind(netip.AddrPortFrom(netip.AddrFrom4(us.Addr), 55)))
		require.NoError(t, s.Connect(netip.AddrPortFrom(netip.AddrFrom4(stranger.Addr), stranger.Port+1)))
		return w, w.times(3, packet(wire.ProtocolUDP, 64, stranger.Addr, us.Addr, datagram(us.Addr, 55)))
	},
	wire.UDPGroupNotJoined: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		group := netip.MustParseAddr("233.252.0.7")
		require.NoError(t, s.Bind(netip.AddrPortFrom(group, 56)))
		require.NoError(t, s.JoinGroup(group, "mem0", netip.MustParseAddr("10.9.0.50")))
		return w, w.times(3, packet(wire.ProtocolUDP, 1, stranger.Addr, group.As4(), datagram(group.As4(), 56)))
	},
	wire.ICMPGroup: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		return w, w.times(3, packet(wire.ProtocolICMP, 1, stranger.Addr, wire.AllSystems, ping(1)))
	},
	wire.ICMPRate: func(t *testing.T) (*dropWorld, uint64) {
		w := newDropWorld(t, 0, nil)
		answered := uint64(0)
		n := uint64(0)
		for limit := time.Now().Add(patience); n-answered < 20; { // the limit is per second
			require.True(t, time.Now().Before(limit))
			for range 32 {
				w.put(packet(wire.ProtocolICMP, 64, stranger.Addr, us.Addr, ping(uint16(n))))
				n++
			}
			for range 4 {
				_, err := w.s.Ring().Poll(w.dst)
				require.NoError(t, err)
				answered += uint64(len(w.taken()))
			}
		}
		return w, n - answered
	},
	wire.TCPShort:  segment(func(b []byte) []byte { return b[:19] }),
	wire.TCPOffset: segment(func(b []byte) []byte { b[12] = 4 << 4; return sealTCP(b) }),
	wire.TCPLong:   segment(func(b []byte) []byte { b[12] = 15 << 4; return sealTCP(b) }),
	wire.TCPSum:    segment(func(b []byte) []byte { b[16] ^= 1; return b }),
	wire.TCPPort:   segment(func(b []byte) []byte { b[2], b[3] = 0, 0; return sealTCP(b) }),
	wire.TCPPartial: segment(func(b []byte) []byte {
		binary.BigEndian.PutUint16(b[16:], uint16(wire.Pseudo(stranger.Addr, us.Addr, wire.ProtocolTCP, uint16(len(b)))))
		return b
	}),
	wire.TCPFlagsBad:     segment(func(b []byte) []byte { b[13] |= byte(wire.TCPFin); return sealTCP(b) }),
	wire.TCPNoConnection: segment(func(b []byte) []byte { b[3]++; return sealTCP(b) }),
	wire.TCPGroup: func(t *testing.T) (*dropWorld, uint64) {
		w, _ := newListener(t)
		f := wire.TCPFields{SourcePort: 9, TargetPort: 80, Seq: 1, Flags: wire.TCPSyn, Window: 1000}
		b, err := f.Append(nil, stranger.Addr, wire.AllSystems, nil)
		require.NoError(t, err)
		return w, w.times(3, packet(wire.ProtocolTCP, 64, stranger.Addr, wire.AllSystems, b))
	},
	wire.TCPBacklog: func(t *testing.T) (*dropWorld, uint64) {
		w, p := newListener(t)
		p.send(wire.TCPFields{Seq: 1, Flags: wire.TCPSyn})
		p.port++ // MaxHalfOpen is 1
		return w, p.send(wire.TCPFields{Seq: 1, Flags: wire.TCPSyn})
	},
	wire.TCPUnacceptable: func(t *testing.T) (*dropWorld, uint64) {
		w, p := newConnection(t)
		return w, p.send(wire.TCPFields{Seq: p.seq + 1<<30, Ack: p.ack, Flags: wire.TCPAck, Options: p.stamp(2000)}, "beyond the window")
	},
	wire.TCPOld: func(t *testing.T) (*dropWorld, uint64) {
		w, p := newConnection(t)
		return w, p.send(wire.TCPFields{Seq: p.seq, Ack: p.ack, Flags: wire.TCPAck, Options: p.stamp(1)}, "of long ago")
	},
	wire.TCPBudget: func(t *testing.T) (*dropWorld, uint64) {
		w, p := newConnection(t)
		return w, p.send(wire.TCPFields{Seq: p.seq + 100, Ack: p.ack, Flags: wire.TCPAck, Options: p.stamp(2000)}, strings.Repeat("x", 500))
	},
}

// elsewhere are the reasons that a ring on a memory link cannot have, with the test that provokes them.
var elsewhere = map[wire.Drop][2]string{
	wire.TCPMoving: {"move_stream_test.go", "TestConnectionMovesUnderLoad"}, // a memory host has no kernel to move to; exact: tcp's TestExport
}

// Every reason for a drop is provoked: its counter in the file grows by the number of frames, and no other does.
func TestEveryDropReasonIsProvoked(t *testing.T) {
	frames := map[wire.Drop]malformed.Frame{}
	for _, f := range malformed.Frames(stranger, us) {
		if f.Want != wire.Accept {
			frames[f.Want] = f
		}
	}
	for d := wire.Drop(1); d < wire.NumDrops; d++ {
		if d.String() == "unknown" {
			continue // no reason has the code
		}
		t.Run(d.String(), func(t *testing.T) {
			if at, ok := elsewhere[d]; ok {
				text, err := os.ReadFile(at[0])
				require.NoError(t, err)
				require.Contains(t, string(text), at[1])
				return
			}
			var w *dropWorld
			var n uint64
			if provoke := provoked[d]; provoke != nil {
				w, n = provoke(t)
			} else if f, ok := frames[d]; ok {
				w = newDropWorld(t, 0, nil)
				n = w.times(3, f.Bytes)
			} else {
				t.Fatal("no test provokes this reason: add a frame to package malformed, or a way to the table provoked")
			}
			require.NotZero(t, n)
			require.Equal(t, map[string]uint64{d.String(): n}, w.counted())
			require.Equal(t, w.counted(), w.drops(), "the ring's own counters")
		})
	}
}

// times sends a frame so often, and returns that.
func (w *dropWorld) times(n uint64, frame []byte) uint64 {
	for range n {
		w.put(frame)
		for _, c := range w.poll() {
			w.t.Errorf("delivered: %v", c.Events)
		}
	}
	return n
}

// taken are the frames that the ring has sent.
func (w *dropWorld) taken() (list [][]byte) {
	var frames [64]link.Frame
	for _, f := range frames[:w.wire.Receive(frames[:])] {
		list = append(list, append([]byte(nil), f.Packet.Bytes()...))
		require.NoError(w.t, f.Packet.Release())
	}
	return list
}

// ping is an echo request.
func ping(sequence uint16) []byte {
	b := []byte{wire.ICMPEchoRequest, 0, 0, 0, 0, 1, byte(sequence >> 8), byte(sequence)}
	binary.BigEndian.PutUint16(b[2:], wire.Sum(0).Add(b).Check())
	return b
}

// report is a report of IGMPv3 with one group record: its type, the length of its auxiliary data, the number of its sources, group and sources.
func report(typ, auxiliary, sources byte, rest ...byte) []byte {
	b := append([]byte{wire.IGMPv3Report, 0, 0, 0, 0, 0, 0, 1, typ, auxiliary, 0, sources}, rest...)
	binary.BigEndian.PutUint16(b[2:], wire.Sum(0).Add(b).Check())
	return packet(wire.ProtocolIGMP, 1, stranger.Addr, wire.AllIGMPRouters, b)
}

// sealTCP makes the sum of a segment from the stranger right.
func sealTCP(b []byte) []byte {
	b[16], b[17] = 0, 0
	sum := wire.Pseudo(stranger.Addr, us.Addr, wire.ProtocolTCP, uint16(len(b))).Plus(wire.Sum(0).Add(b)).Check()
	binary.BigEndian.PutUint16(b[16:], sum)
	return b
}

// segment provokes with SYNs that are changed first.
func segment(change func(b []byte) []byte) func(t *testing.T) (*dropWorld, uint64) {
	return func(t *testing.T) (*dropWorld, uint64) {
		w, _ := newListener(t)
		f := wire.TCPFields{SourcePort: 9, TargetPort: 80, Seq: 1, Flags: wire.TCPSyn, Window: 1000}
		b, err := f.Append(nil, stranger.Addr, us.Addr, nil)
		require.NoError(t, err)
		return w, w.times(3, packet(wire.ProtocolTCP, 64, stranger.Addr, us.Addr, change(b)))
	}
}

// rawPeer speaks TCP by hand.
type rawPeer struct {
	w        *dropWorld
	port     uint16
	seq, ack uint32
	echo     uint32 // the last timestamp of the ring
}

// newListener is a ring that listens on port 80, with little room for everything.
func newListener(t *testing.T) (*dropWorld, *rawPeer) {
	o := quickTCP(false)
	o.Table.MaxHalfOpen, o.Table.Cookies, o.Table.MaxOutOfOrder = 1, tcp.CookiesNever, 400
	w := newDropWorld(t, 0, o)
	l, err := w.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, l.Bind(netip.AddrPortFrom(netip.AddrFrom4(us.Addr), 80)))
	require.NoError(t, l.Listen(8))
	return w, &rawPeer{w: w, port: 9, seq: 1}
}

// stamp is the timestamp option.
func (p *rawPeer) stamp(value uint32) wire.TCPOptions {
	return wire.TCPOptions{Has: wire.TCPHasTimestamps, TSValue: value, TSEcho: p.echo}
}

// send sends a segment; 1 is how many it is.
func (p *rawPeer) send(f wire.TCPFields, payload ...string) uint64 {
	f.SourcePort, f.TargetPort, f.Window = p.port, 80, 1000
	b, err := f.Append(nil, stranger.Addr, us.Addr, []byte(strings.Join(payload, "")))
	require.NoError(p.w.t, err)
	p.w.put(packet(wire.ProtocolTCP, 64, stranger.Addr, us.Addr, b))
	for range 2 {
		_, err := p.w.s.Ring().Poll(p.w.dst)
		require.NoError(p.w.t, err)
	}
	return 1
}

// newConnection is a connection with timestamps.
func newConnection(t *testing.T) (*dropWorld, *rawPeer) {
	w, p := newListener(t)
	p.send(wire.TCPFields{Seq: p.seq, Flags: wire.TCPSyn, Options: p.stamp(1000)})
	p.seq++
	for limit := time.Now().Add(patience); p.ack == 0; {
		require.True(t, time.Now().Before(limit))
		_, err := w.s.Ring().Poll(w.dst)
		require.NoError(t, err)
		for _, frame := range w.taken() {
			h, _, payload, d := wire.ParseIPv4(frame[wire.EthernetLen:])
			require.Equal(t, wire.Accept, d)
			if h.Protocol() != wire.ProtocolTCP {
				continue
			}
			s, options, _, d := wire.ParseTCP(payload)
			require.Equal(t, wire.Accept, d)
			var parsed wire.TCPOptions
			parsed.Parse(options)
			p.ack, p.echo = s.Seq()+1, parsed.TSValue
		}
	}
	p.send(wire.TCPFields{Seq: p.seq, Ack: p.ack, Flags: wire.TCPAck, Options: p.stamp(1001)})
	require.Empty(t, w.counted())
	return w, p
}
