package ip_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/internal/wire/malformed"
	"github.com/socketxtreme/socketxtreme/udp"
)

// seeds are one frame of each kind that the stack knows, and those that it must not fall over.
func seeds() [][]byte {
	quoted := iptest.From(us, peer, "quoted", func(d *iptest.Datagram) { d.UDP = wire.UDPFields{SourcePort: 53, TargetPort: 9} })[14:]
	e, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPPort, Packet: quoted}).Append(nil)
	if err != nil {
		panic(err)
	}
	list := [][]byte{
		iptest.From(peer, us, "unicast"), iptest.From(peer, grp, "group"), iptest.From(peer, subnet, "broadcast"), iptest.From(peer, us, ""),
		iptest.ARPFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us), iptest.ARPFrame(wire.ARPReply, peerMAC, peer, ourMAC, us),
		iptest.ICMPFrame((&wire.ICMPEcho{ID: 1, Data: []byte("x")}).Append(nil)), iptest.ICMPFrame(e),
		igmpFrame(1, none4, wire.Query{Version: 3}), igmpFrame(1, grp, wire.Query{Version: 2, MaxResponse: time.Second}),
		igmpFrame(1, grp, wire.Query{Version: 3, Sources: peer[:]}),
	}
	for _, f := range malformed.Frames(malformed.Station{MAC: peerMAC, Addr: peer, Port: 9}, malformed.Station{MAC: ourMAC, Addr: us, Port: 53}) {
		list = append(list, f.Bytes)
	}
	return list
}

// FuzzFrames gives the stack a list of frames, each behind its length: whatever is in them, nothing panics, every buffer comes back, and what
// is sent is well formed.
func FuzzFrames(f *testing.F) {
	var all []byte
	for _, b := range seeds() {
		one := append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
		f.Add(one)
		all = append(all, one...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t)
		w.fuzzSockets()
		for len(b) > 2 {
			n := min(int(binary.BigEndian.Uint16(b))%4000, len(b)-2)
			if n > 0 {
				w.In(b[2 : 2+n])
				w.wellFormed()
			}
			b = b[2+n:]
		}
		w.After(10 * time.Second)
		w.wellFormed()
	})
}

func (w *world) fuzzSockets() {
	w.Socket(udp.Endpoint{Local: us, Remote: peer, RemotePort: 9})
	id := w.Socket(udp.Endpoint{})
	w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4))
	stopped := w.Socket(udp.Endpoint{LocalPort: 54})
	w.UDP.StopDelivery(stopped)
}

// wellFormed reads what was sent as a receiver does.
func (w *world) wellFormed() {
	for _, b := range w.Out() {
		eth, _, typ, rest, d := wire.ParseEthernet(b)
		w.Equal(wire.Accept, d)
		if typ == wire.TypeARP {
			_, d = wire.ParseARP(rest, eth.Source())
		} else {
			_, _, _, d = wire.ParseIPv4(rest)
		}
		w.Equal(wire.Accept, d, "%v", d)
	}
}

// The seeds with a few bytes changed, many times: what the fuzzer does, in every test run.
func TestBrokenFrames(t *testing.T) {
	w := newWorld(t)
	w.fuzzSockets()
	r := rand.New(rand.NewPCG(3, 4))
	list := seeds()
	for range 20_000 {
		b := append([]byte(nil), list[r.IntN(len(list))]...)
		for range 1 + r.IntN(3) {
			switch r.IntN(3) {
			case 0:
				b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
			case 1:
				b[r.IntN(len(b))] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
			case 2:
				b = b[:1+r.IntN(len(b))]
			}
		}
		if len(b) > 34 && r.IntN(2) == 0 { // mend the header's sum, so that what lies behind it is reached
			b[24], b[25] = 0, 0
			s := wire.Sum(0).Add(b[14:34]).Check()
			b[24], b[25] = byte(s>>8), byte(s)
		}
		w.In(b)
		w.wellFormed()
		w.UDP.ClearErrors()
		w.IP.ClearFailures()
	}
	w.Greater(len(w.Reasons()), 25)
}

// Nothing is allocated for a frame, whatever becomes of it, nor for one that is sent.
func TestNoAllocationPerFrame(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	for range 2 {
		m := w.Socket(udp.Endpoint{})
		w.NoError(w.UDP.Join(w.Now, m, grp, iface, none4))
	}
	w.KnowPeer()
	w.Out()
	bad := iptest.From(peer, us, "x")
	bad[len(bad)-1] ^= 1
	burst := [][]byte{iptest.From(peer, us, "x"), iptest.From(peer, grp, "x"), bad, iptest.From(peer, gateway, "x"), {1, 2, 3}}
	frames := make([]ip.Frame, len(burst))
	l := w.Pool.Layout()
	receive := func() {
		for i, b := range burst {
			n, _ := w.Pool.Take(0)
			copy(w.Pool.Memory(n)[l.Headroom:], b)
			frames[i] = ip.Frame{Packet: w.Pool.Fill(n, l.Headroom, len(b), 0)}
		}
		w.IP.Input(w.Now, 0, frames)
		for _, d := range w.UDP.Deliveries() {
			_ = d.Packet.Release()
		}
		w.UDP.ClearDeliveries()
	}
	send := func() {
		p, _ := w.Pool.Alloc(64)
		p, _ = w.Pool.Transmit(p)
		w.IP.Refresh()
		if v, e := w.UDP.SendSlow(w.Now, id, 0, peer, 9, p, 0); v != udp.Queued || e != 0 {
			t.Fatal(v, e)
		}
		for _, o := range w.IP.Output(0) {
			w.Pool.FreeTransmit(o.Packet)
		}
		w.IP.Took(0, len(w.IP.Output(0)))
	}
	receive()
	send()
	w.Zero(testing.AllocsPerRun(1000, receive))
	w.Zero(testing.AllocsPerRun(1000, send))
}

// BenchmarkEcho is what the stack costs for a datagram in and one out, bursts of 32, 64 bytes, without a link: buffers, checksums,
// lookup, headers.
func BenchmarkEcho(b *testing.B) {
	w := newWorld(b)
	id := w.Socket(udp.Endpoint{Local: us, Remote: peer, RemotePort: 9})
	w.KnowPeer()
	w.Out()
	frame := iptest.From(peer, us, string(make([]byte, 64)))
	l := w.Pool.Layout()
	var frames [32]ip.Frame
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += len(frames) {
		for j := range frames {
			n, _ := w.Pool.Take(0)
			copy(w.Pool.Memory(n)[l.Headroom:], frame) // the link's part
			frames[j] = ip.Frame{Packet: w.Pool.Fill(n, l.Headroom, len(frame), 0)}
		}
		w.IP.Refresh()
		w.IP.Input(w.Now, 0, frames[:])
		got := w.UDP.Deliveries()
		for j := range got {
			p, _ := w.Pool.Transmit(got[j].Packet)
			w.UDP.SendSlow(w.Now, id, 0, peer, 9, p, 0)
		}
		n := len(got)
		w.UDP.ClearDeliveries()
		for _, o := range w.IP.Output(0) {
			w.Pool.FreeTransmit(o.Packet)
		}
		w.IP.Took(0, n)
	}
}
