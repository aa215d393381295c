package stack

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// changed gives the host other tables.
func (w *world) changed(mtu int, mac wire.MAC) {
	f := ownFacts()
	f.Links[0].MTU, f.Links[0].MAC = mtu, mac
	w.s.own.Set(f)
	w.s.Refresh()
}

// The MTU shrinks and grows with the interface, but not beyond what the link was made for: a longer frame would not fit into it.
func TestMTUOfTheInterface(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	w.known()
	for _, c := range []struct{ interfaces, want int }{{1500, 1500}, {600, 600}, {9000, 1500}, {1400, 1400}, {65536, 1500}, {68, 68}} {
		w.changed(c.interfaces, ourMAC)
		_, err := w.send(id, peer, 9, strings.Repeat("x", c.want-28))
		w.NoError(err, "%d", c.interfaces)
		w.Len(w.only(), c.want+wire.EthernetLen)
		_, err = w.send(id, peer, 9, strings.Repeat("x", c.want-27))
		w.ErrorIs(err, unix.EMSGSIZE, "%d", c.interfaces)
	}
}

// A new station address of the interface is ours from then on, in both directions; the old one is somebody else's.
func TestMACOfTheInterface(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	w.known()
	w.Len(w.in(from(peer, us, "x")), 1)
	other := wire.MAC{2, 0, 0, 0, 0, 0x77}
	w.changed(1500, other)
	w.drop(wire.EthernetNotOurs, from(peer, us, "x"))
	w.Len(w.in(from(peer, us, "x", func(d *datagram) { d.eth.Target = other })), 1)
	_, err := w.send(id, peer, 9, "y")
	w.NoError(err)
	w.Equal(other, w.parse(w.only()).eth.Source())
	w.in(arpFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	eth, a := w.arp(w.only())
	w.Equal(other, eth.Source())
	w.Equal(other, a.SenderMAC())

	// Who chose another address for a link than the interface's keeps it.
	chosen := wire.MAC{2, 0, 0, 0, 0, 0x99}
	w = newWorld(t, func(c *Config) { c.Interfaces[0].MAC, c.Interfaces[0].Chosen = chosen, true })
	w.socket(udp.Endpoint{Local: us})
	w.changed(1500, other)
	w.Len(w.in(from(peer, us, "x", func(d *datagram) { d.eth.Target = chosen })), 1)
}

// An address that goes takes its traffic along, and brings it back when it comes again; routes likewise.
func TestAddressGoesAndComes(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	w.known()
	for range 3 {
		f := ownFacts()
		f.Addresses[0].Local, f.Routes[0].Prefix = gateway.Netip(), f.Routes[4].Prefix
		w.s.own.Set(f)
		w.drop(wire.IPv4NotOurs, from(peer, us, "x"))
		_, err := w.send(id, peer, 9, "x")
		w.ErrorIs(err, unix.EADDRNOTAVAIL)
		w.s.own.Set(ownFacts())
		w.Len(w.in(from(peer, us, "x")), 1)
		_, err = w.send(id, peer, 9, "x")
		w.NoError(err)
		w.only()
	}
	// A gateway's route that goes over another one.
	w.in(arpFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	w.out()
	_, err := w.send(id, far, 9, "x")
	w.NoError(err)
	w.Equal(gwMAC, w.parse(w.only()).eth.Target())
	f := ownFacts()
	f.Routes[4].Hops[0].Gateway = peer.Netip()
	w.s.own.Set(f)
	_, err = w.send(id, far, 9, "x")
	w.NoError(err)
	w.Equal(peerMAC, w.parse(w.only()).eth.Target())
	w.s.own.Set(ownFacts())
}

// Queries about ever other sources of a group do not make a list that grows: beyond a limit the whole group is answered about.
func TestQueriesDoNotPileUp(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{})
	w.NoError(w.s.Join(w.now, id, grp, iface, none4))
	w.out()
	w.after(2 * time.Second)
	w.out()
	query := func(n int) {
		var sources []byte
		for i := range 100 {
			sources = binary.BigEndian.AppendUint32(sources, 0x0b000000+uint32(100*n+i))
		}
		w.in(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: 50 * time.Minute, Sources: sources}))
		w.in(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: 50 * time.Minute, Sources: sources[:4*querySources/2]}))
	}
	before := heap()
	for n := range 5000 {
		query(n)
	}
	w.Less(heap(), before+1<<20)
	w.Len(w.s.igmp.pending, 1)
	w.LessOrEqual(len(w.s.igmp.pending[0].sources), querySources)
	w.after(time.Hour)
	w.NotEmpty(w.out())
	w.Empty(w.s.igmp.pending)
	// Few sources are kept one by one.
	w.in(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: time.Second, Sources: peer[:]}))
	w.in(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: time.Second, Sources: us[:]}))
	w.Equal([]wire.Addr{peer, us}, w.s.igmp.pending[0].sources)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What strangers make the stack answer costs no memory either.
func TestAnswersDoNotAllocate(t *testing.T) {
	w := newWorld(t)
	l := w.pool.Layout()
	for name, b := range map[string][]byte{
		"echo":        icmpFrame((&wire.ICMPEcho{ID: 1, Data: make([]byte, 1400)}).Append(nil)),
		"closed port": from(peer, us, strings.Repeat("x", 1400)),
		"ARP":         arpFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us),
	} {
		frames := make([]Frame, 1)
		sent := 0
		one := func() {
			w.now += clock.Time(time.Second) // or the limit of answers would be reached
			n, _ := w.pool.Take(0)
			copy(w.pool.Memory(n)[l.Headroom:], b)
			frames[0] = Frame{Packet: w.pool.Fill(n, l.Headroom, len(b), 0)}
			w.s.Refresh()
			w.s.Input(w.now, 0, frames, w.got[:0])
			for _, o := range w.s.Output(0) {
				w.s.giveBack(o.Packet)
				sent++
			}
			w.s.Took(0, len(w.s.Output(0)))
		}
		one()
		w.Zero(testing.AllocsPerRun(100, one), name)
		w.Equal(102, sent, name)
	}
}

// A neighbour that changes its address with every frame costs one table for a burst, not one for each of its frames.
func TestManyNewsOneTable(t *testing.T) {
	w := newWorld(t)
	var burst [][]byte
	for i := range MaxBurst {
		mac := peerMAC
		mac[4] = byte(i)
		burst = append(burst, arpFrame(wire.ARPRequest, mac, peer, wire.MAC{}, us))
	}
	id := w.socket(udp.Endpoint{Local: us})
	w.known()
	_, err := w.send(id, peer, 9, "x") // one that nobody sends to is in no table
	w.NoError(err)
	w.only()
	before := w.s.own.Generation()
	w.in(burst...)
	w.Equal(before+1, w.s.own.Generation())
	w.Len(w.out(), MaxBurst)
	_, err = w.send(id, peer, 9, "x")
	w.NoError(err)
	w.Equal(byte(MaxBurst-1), w.parse(w.only()).eth.Target()[4], "the last one counts")
}

// Who waits for a neighbour asks again each second, without another send: the first request may have come while the interface was down.
func TestNeighbourIsAskedForAgain(t *testing.T) {
	h := &kernelHost{snap: host.NewSnapshot(ownFacts(), 1)}
	w := newWorld(t, func(c *Config) { c.Own, c.Host = nil, h })
	id := w.socket(udp.Endpoint{Local: us})
	_, err := w.send(id, peer, 9, "waits")
	w.NoError(err)
	first := len(h.asked)
	for i := range 2 {
		w.Equal(w.now.Add(time.Second), w.s.Deadline())
		w.after(time.Second)
		w.Len(h.asked, first+1+i)
		w.Equal(host.Target{Interface: iface, Addr: peer.Netip()}, h.asked[first+i])
	}
	w.after(time.Second)
	w.EqualValues(1, w.s.GivenUp(host.GiveUpTime))
	w.Len(h.asked, first+2, "nobody waits any more")
	w.Equal(clock.Never, w.s.Deadline())
}
