package udp_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/internal/wire/malformed"
	"github.com/socketxtreme/socketxtreme/udp"
)

// matches reports whether the fast path takes a frame, and the payload that it finds.
func (w *world) matches(frame []byte) (id udp.ID, payload string, ok bool) {
	if !w.UDP.CanMatch(0) {
		return 0, "", false
	}
	x, n := w.UDP.MatchFast(0, frame)
	if x == nil {
		return 0, "", false
	}
	return x.ID, string(frame[udp.FastOffset : udp.FastOffset+n]), true
}

func (w *world) requireFast(frame []byte, id udp.ID, payload string) {
	w.T.Helper()
	got, bytes, ok := w.matches(frame)
	w.True(ok, "the fast path does not take the frame")
	w.Equal(id, got)
	w.Equal(payload, bytes)
}

func TestFastFlowOfOneSocket(t *testing.T) {
	group := func(w *world, id udp.ID) { w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4)) }
	for name, c := range map[string]struct {
		e      udp.Endpoint
		target wire.Addr
		then   func(*world, udp.ID)
	}{
		"bound to an address": {udp.Endpoint{Local: us}, us, nil},
		"bound to none":       {udp.Endpoint{}, us, nil},
		"connected":           {udp.Endpoint{Local: us, Remote: peer, RemotePort: 9}, us, nil},
		"member of a group":   {udp.Endpoint{Local: grp}, grp, group},
		"subnet's broadcast":  {udp.Endpoint{}, subnet, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.Socket(c.e)
			if c.then != nil {
				c.then(w, id)
			}
			frame := iptest.From(peer, c.target, "first")
			_, _, ok := w.matches(frame)
			w.False(ok, "nothing is remembered yet")
			w.Len(w.In(frame), 1)
			w.requireFast(frame, id, "first")
			w.requireFast(iptest.From(peer, c.target, "another length, and padded"+string(make([]byte, 20))), id,
				"another length, and padded"+string(make([]byte, 20)))
			w.requireFast(append(frame, make([]byte, 60-len(frame))...), id, "first")
			before := w.UDP.Stats().Delivered
			w.UDP.CountFast()
			w.Equal(before+1, w.UDP.Stats().Delivered)
		})
	}
}

// A frame that several sockets or none receive is never remembered, nor is one whose socket does not read.
func TestNoFastFlow(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		w.NoError(w.UDP.Join(w.Now, w.Socket(udp.Endpoint{Local: grp}), grp, iface, none4))
	}
	frame := iptest.From(peer, grp, "x")
	w.Len(w.In(frame), 2)
	_, _, ok := w.matches(frame)
	w.False(ok)

	id := w.Socket(udp.Endpoint{Local: us})
	frame = iptest.From(peer, us, "x")
	w.UDP.StopDelivery(id)
	w.Empty(w.In(frame))
	_, _, ok = w.matches(frame)
	w.False(ok)
}

// A member of the group that does not read is a second socket: its datagrams go to its backlog, and it has all that come after it reads again.
func TestNoFastFlowBesideABacklog(t *testing.T) {
	w := newWorld(t)
	a, b := w.Socket(udp.Endpoint{Local: grp}), w.Socket(udp.Endpoint{Local: grp})
	w.NoError(w.UDP.Join(w.Now, a, grp, iface, none4))
	w.NoError(w.UDP.Join(w.Now, b, grp, iface, none4))
	w.UDP.StopDelivery(b)
	frame := iptest.From(peer, grp, "x")
	w.Len(w.In(frame), 1, "the other is in the backlog")
	_, _, ok := w.matches(frame)
	w.False(ok)
	w.True(w.UDP.NextBacklogged(b))
	w.NoError(w.UDP.Deliveries()[0].Packet.Release())
	w.UDP.ClearDeliveries()
	w.True(w.UDP.StartDelivery(b))
	_, _, ok = w.matches(frame)
	w.False(ok)
}

// What changes between two datagrams of a flow makes it stale, or keeps frames from matching.
func TestFastFlowsBecomeStale(t *testing.T) {
	second := wire.Addr{10, 0, 0, 77}
	for name, change := range map[string]func(w *world, id, member udp.ID){
		"a socket is added": func(w *world, _, _ udp.ID) { w.Socket(udp.Endpoint{Local: us, Remote: peer, RemotePort: 9}) },
		"a socket is changed": func(w *world, id, _ udp.ID) {
			w.NoError(w.UDP.Change(id, udp.Endpoint{Local: us, LocalPort: 53}, udp.Options{}))
		},
		"a socket is removed": func(w *world, id, _ udp.ID) { w.UDP.Remove(w.Now, id) },
		"a group is left":     func(w *world, _, m udp.ID) { w.NoError(w.UDP.Leave(w.Now, m, grp, iface, none4)) },
		"a group is joined":   func(w *world, id, _ udp.ID) { w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4)) },
		"a VLAN goes down":    func(w *world, _, _ udp.ID) { w.IP.SetVLANDown(0, true) },
		"a bond's backup":     func(w *world, _, _ udp.ID) { w.IP.SetMember(0, ip.MemberBackup) },
		"a link is added": func(w *world, _, _ udp.ID) {
			w.NoError(w.IP.AddInterface(ip.Interface{Index: 9, MAC: peerMAC, MTU: 1500}))
		},
		"the socket is stopped": func(w *world, id, m udp.ID) { w.UDP.StopDelivery(id); w.UDP.StopDelivery(m) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id, member := w.Socket(udp.Endpoint{Local: us}), w.Socket(udp.Endpoint{Local: grp})
			w.NoError(w.UDP.Join(w.Now, member, grp, iface, none4))
			for _, frame := range [][]byte{iptest.From(peer, us, "x"), iptest.From(peer, grp, "x"), iptest.From(second, us, "x")} {
				w.Len(w.In(frame), 1)
				_, _, ok := w.matches(frame)
				w.True(ok)
			}
			change(w, id, member)
			for _, frame := range [][]byte{iptest.From(peer, us, "x"), iptest.From(peer, grp, "x"), iptest.From(second, us, "x")} {
				_, _, ok := w.matches(frame)
				w.False(ok)
			}
		})
	}
}

// An address that becomes the host's own is no peer's any more.
func TestFastFlowsFollowAddresses(t *testing.T) {
	w := newWorld(t)
	w.Socket(udp.Endpoint{Local: us})
	frame := iptest.From(peer, us, "x")
	w.Len(w.In(frame), 1)
	_, _, ok := w.matches(frame)
	w.True(ok)
	w.IP.InvalidateRoutes() // what a snapshot of other tables ends in
	_, _, ok = w.matches(frame)
	w.False(ok)
}

// The fast path takes no frame that Input would not deliver, or not so: single bits, cut frames, and headers whose sums were made right again.
func TestFastPathAgreesWithInput(t *testing.T) {
	for _, policy := range []udp.Policy{udp.Strict, udp.AcceptPartial, udp.Off} {
		t.Run(policy.String(), func(t *testing.T) {
			set := func(c *ip.Config) { c.Interfaces[0].Checksum = policy }
			fast, slow := newWorld(t, set), newWorld(t, set)
			for _, w := range []*world{fast, slow} {
				w.Socket(udp.Endpoint{Local: us})
				w.Socket(udp.Endpoint{Local: us, LocalPort: 54})
			}
			good := iptest.From(peer, us, "what the flow is remembered by")
			fast.Len(fast.In(good), 1)
			taken := 0
			agree := func(frame []byte, what string) {
				id, payload, ok := fast.matches(frame)
				if !ok {
					return
				}
				taken++
				got := slow.In(slices.Clone(frame))
				slow.Len(got, 1, "%s: Input delivers nothing: %v", what, slow.Reasons())
				slow.Equal(id, got[0].ID, what)
				slow.Equal(payload, string(got[0].Packet.Bytes()), what)
			}
			for bit := range 8 * len(good) {
				frame := slices.Clone(good)
				frame[bit/8] ^= 1 << (bit % 8)
				agree(frame, fmt.Sprint("bit ", bit))
				resum(frame)
				agree(frame, fmt.Sprint("bit ", bit, ", sums right"))
			}
			for n := range good {
				agree(good[:n], fmt.Sprint("cut to ", n))
			}
			from, to := malformed.Station{MAC: peerMAC, Addr: peer, Port: 9}, malformed.Station{MAC: ourMAC, Addr: us, Port: 53}
			for _, f := range malformed.Frames(from, to) {
				agree(f.Bytes, f.Class+": "+f.Name)
			}
			r := rand.New(rand.NewPCG(7, 7))
			for i := range 50_000 {
				frame := append(slices.Clone(good), make([]byte, r.IntN(20))...)
				for range 1 + r.IntN(3) {
					frame[r.IntN(udp.FastOffset)] = byte(r.Uint32())
				}
				resum(frame)
				agree(frame, fmt.Sprint("random ", i))
			}
			fast.Greater(taken, 100)
		})
	}
}

// resum makes the sums of a datagram right, if its lengths allow that.
func resum(frame []byte) {
	h := frame[wire.EthernetLen:]
	binary.BigEndian.PutUint16(h[10:], 0)
	binary.BigEndian.PutUint16(h[10:], wire.Sum(0).Add(h[:wire.IPv4Len]).Check())
	d := h[wire.IPv4Len:]
	n := int(binary.BigEndian.Uint16(d[4:]))
	if n < wire.UDPLen || n > len(d) {
		return
	}
	binary.BigEndian.PutUint16(d[6:], 0)
	pseudo := wire.Pseudo(wire.Addr(h[12:16]), wire.Addr(h[16:20]), wire.ProtocolUDP, uint16(n))
	binary.BigEndian.PutUint16(d[6:], pseudo.Add(d[:n]).Check())
}

// BenchmarkFastPath is what a received datagram costs on the fast path, and what looking its socket up costs without.
func BenchmarkFastPath(b *testing.B) {
	w := newWorld(b)
	w.Socket(udp.Endpoint{Local: us})
	frame := iptest.From(peer, us, string(make([]byte, 64)))
	w.In(frame)
	b.ReportAllocs()
	for b.Loop() {
		if x, _ := w.UDP.MatchFast(0, frame); x == nil {
			b.Fatal("the fast path does not take the frame")
		}
	}
}
