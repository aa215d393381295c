package stack

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/internal/wire/malformed"
	"github.com/socketxtreme/socketxtreme/udp"
)

// seeds are one frame of each kind that the stack knows, and those that it must not fall over.
func seeds() [][]byte {
	quoted := from(us, peer, "quoted", func(d *datagram) { d.udp = wire.UDPFields{SourcePort: 53, TargetPort: 9} })[14:]
	e, err := (&wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPPort, Packet: quoted}).Append(nil)
	if err != nil {
		panic(err)
	}
	list := [][]byte{
		from(peer, us, "unicast"), from(peer, grp, "group"), from(peer, subnet, "broadcast"), from(peer, us, ""),
		arpFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us), arpFrame(wire.ARPReply, peerMAC, peer, ourMAC, us),
		icmpFrame((&wire.ICMPEcho{ID: 1, Data: []byte("x")}).Append(nil)), icmpFrame(e),
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
				w.in(b[2 : 2+n])
				w.wellFormed()
			}
			b = b[2+n:]
		}
		w.after(10 * time.Second)
		w.wellFormed()
	})
}

func (w *world) fuzzSockets() {
	w.socket(udp.Endpoint{Local: us, Remote: peer, RemotePort: 9})
	id := w.socket(udp.Endpoint{})
	w.NoError(w.s.Join(w.now, id, grp, iface, none4))
	stopped := w.socket(udp.Endpoint{LocalPort: 54})
	w.s.Stop(stopped, true)
}

// wellFormed reads what was sent as a receiver does.
func (w *world) wellFormed() {
	for _, b := range w.out() {
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
		w.in(b)
		w.wellFormed()
		w.s.Clear()
	}
	w.Greater(len(w.reasons()), 25)
}

// Nothing is allocated for a frame, whatever becomes of it, nor for one that is sent.
func TestNoAllocationPerFrame(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	for range 2 {
		m := w.socket(udp.Endpoint{})
		w.NoError(w.s.Join(w.now, m, grp, iface, none4))
	}
	w.known()
	w.out()
	bad := from(peer, us, "x")
	bad[len(bad)-1] ^= 1
	burst := [][]byte{from(peer, us, "x"), from(peer, grp, "x"), bad, from(peer, gateway, "x"), {1, 2, 3}}
	frames := make([]Frame, len(burst))
	l := w.pool.Layout()
	receive := func() {
		for i, b := range burst {
			n, _ := w.pool.Take(0)
			copy(w.pool.Memory(n)[l.Headroom:], b)
			frames[i] = Frame{Packet: w.pool.Fill(n, l.Headroom, len(b), 0)}
		}
		w.got = w.s.Input(w.now, 0, frames, w.got[:0])
		for i := range w.got {
			_ = w.got[i].Packet.Release()
		}
	}
	send := func() {
		p, _ := w.pool.Alloc(64)
		p, _ = w.pool.Transmit(p)
		w.s.Refresh()
		if v, e := w.s.Send(w.now, id, 0, peer, 9, p, 0); v != Queued || e != 0 {
			t.Fatal(v, e)
		}
		for _, o := range w.s.Output(0) {
			w.s.giveBack(o.Packet)
		}
		w.s.Took(0, len(w.s.Output(0)))
	}
	receive()
	send()
	w.Zero(testing.AllocsPerRun(1000, receive))
	w.Zero(testing.AllocsPerRun(1000, send))
	w.got = w.got[:0]
}

// BenchmarkEcho is what the stack costs for a datagram in and one out, bursts of 32, 64 bytes, without a link: buffers, checksums,
// lookup, headers.
func BenchmarkEcho(b *testing.B) {
	w := newWorld(b)
	id := w.socket(udp.Endpoint{Local: us, Remote: peer, RemotePort: 9})
	w.known()
	w.out()
	frame := from(peer, us, string(make([]byte, 64)))
	l := w.pool.Layout()
	var frames [32]Frame
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += len(frames) {
		for j := range frames {
			n, _ := w.pool.Take(0)
			copy(w.pool.Memory(n)[l.Headroom:], frame) // the link's part
			frames[j] = Frame{Packet: w.pool.Fill(n, l.Headroom, len(frame), 0)}
		}
		w.s.Refresh()
		w.got = w.s.Input(w.now, 0, frames[:], w.got[:0])
		for j := range w.got {
			p, _ := w.pool.Transmit(w.got[j].Packet)
			w.s.Send(w.now, id, 0, peer, 9, p, 0)
		}
		for _, o := range w.s.Output(0) {
			w.s.giveBack(o.Packet)
		}
		w.s.Took(0, len(w.got))
	}
	w.got = w.got[:0]
}
