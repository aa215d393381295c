package ip_test

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// changed gives the host other tables.
func (w *world) changed(mtu int, mac wire.MAC) {
	f := iptest.Facts()
	f.Links[0].MTU, f.Links[0].MAC = mtu, mac
	w.LocalHost.Set(f)
	w.IP.Refresh()
}

// The MTU shrinks and grows with the interface, but not beyond what the link was made for: a longer frame would not fit into it.
func TestMTUOfTheInterface(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	w.KnowPeer()
	for _, c := range []struct{ interfaces, want int }{{1500, 1500}, {600, 600}, {9000, 1500}, {1400, 1400}, {65536, 1500}, {68, 68}} {
		w.changed(c.interfaces, ourMAC)
		_, err := w.Send(id, peer, 9, strings.Repeat("x", c.want-28))
		w.NoError(err, "%d", c.interfaces)
		w.Len(w.Only(), c.want+wire.EthernetLen)
		_, err = w.Send(id, peer, 9, strings.Repeat("x", c.want-27))
		w.ErrorIs(err, unix.EMSGSIZE, "%d", c.interfaces)
	}
}

// A new station address of the interface is ours from then on, in both directions; the old one is somebody else's.
func TestMACOfTheInterface(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	w.KnowPeer()
	w.Len(w.In(iptest.From(peer, us, "x")), 1)
	other := wire.MAC{2, 0, 0, 0, 0, 0x77}
	w.changed(1500, other)
	w.Drop(wire.EthernetNotOurs, iptest.From(peer, us, "x"))
	w.Len(w.In(iptest.From(peer, us, "x", func(d *iptest.Datagram) { d.Eth.Target = other })), 1)
	_, err := w.Send(id, peer, 9, "y")
	w.NoError(err)
	w.Equal(other, w.Parse(w.Only()).Eth.Source())
	w.In(iptest.ARPFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	eth, a := w.ParseARP(w.Only())
	w.Equal(other, eth.Source())
	w.Equal(other, a.SenderMAC())

	// Who chose another address for a link than the interface's keeps it.
	chosen := wire.MAC{2, 0, 0, 0, 0, 0x99}
	w = newWorld(t, func(c *ip.Config) { c.Interfaces[0].MAC, c.Interfaces[0].Chosen = chosen, true })
	w.Socket(udp.Endpoint{Local: us})
	w.changed(1500, other)
	w.Len(w.In(iptest.From(peer, us, "x", func(d *iptest.Datagram) { d.Eth.Target = chosen })), 1)
}

// An address that goes takes its traffic along, and brings it back when it comes again; routes likewise.
func TestAddressGoesAndComes(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	w.KnowPeer()
	for range 3 {
		f := iptest.Facts()
		f.Addresses[0].Local, f.Routes[0].Prefix = gateway.Netip(), f.Routes[4].Prefix
		w.LocalHost.Set(f)
		w.Drop(wire.IPv4NotOurs, iptest.From(peer, us, "x"))
		_, err := w.Send(id, peer, 9, "x")
		w.ErrorIs(err, unix.EADDRNOTAVAIL)
		w.LocalHost.Set(iptest.Facts())
		w.Len(w.In(iptest.From(peer, us, "x")), 1)
		_, err = w.Send(id, peer, 9, "x")
		w.NoError(err)
		w.Only()
	}
	// A gateway's route that goes over another one.
	w.In(iptest.ARPFrame(wire.ARPRequest, gwMAC, gateway, wire.MAC{}, us))
	w.Out()
	_, err := w.Send(id, far, 9, "x")
	w.NoError(err)
	w.Equal(gwMAC, w.Parse(w.Only()).Eth.Target())
	f := iptest.Facts()
	f.Routes[4].Hops[0].Gateway = peer.Netip()
	w.LocalHost.Set(f)
	_, err = w.Send(id, far, 9, "x")
	w.NoError(err)
	w.Equal(peerMAC, w.Parse(w.Only()).Eth.Target())
	w.LocalHost.Set(iptest.Facts())
}

// Queries about ever other sources of a group do not make a list that grows: beyond a limit the whole group is answered about.
func TestQueriesDoNotPileUp(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{})
	w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4))
	w.Out()
	w.After(2 * time.Second)
	w.Out()
	query := func(n int) {
		var sources []byte
		for i := range 100 {
			sources = binary.BigEndian.AppendUint32(sources, 0x0b000000+uint32(100*n+i))
		}
		w.In(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: 50 * time.Minute, Sources: sources}))
		w.In(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: 50 * time.Minute, Sources: sources[:4*ip.QuerySources/2]}))
	}
	before := heap()
	for n := range 5000 {
		query(n)
	}
	w.Less(heap(), before+1<<20)
	w.Equal(1, w.IP.PendingReports())
	w.LessOrEqual(len(w.IP.PendingSources(0)), ip.QuerySources)
	w.After(time.Hour)
	w.NotEmpty(w.Out())
	w.Zero(w.IP.PendingReports())
	// Few sources are kept one by one.
	w.In(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: time.Second, Sources: peer[:]}))
	w.In(igmpFrame(1, grp, wire.Query{Version: 3, MaxResponse: time.Second, Sources: us[:]}))
	w.Equal([]wire.Addr{peer, us}, w.IP.PendingSources(0))
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
	l := w.Pool.Layout()
	for name, b := range map[string][]byte{
		"echo":        iptest.ICMPFrame((&wire.ICMPEcho{ID: 1, Data: make([]byte, 1400)}).Append(nil)),
		"closed port": iptest.From(peer, us, strings.Repeat("x", 1400)),
		"ARP":         iptest.ARPFrame(wire.ARPRequest, peerMAC, peer, wire.MAC{}, us),
	} {
		frames := make([]ip.Frame, 1)
		sent := 0
		one := func() {
			w.Now += clock.Time(time.Second) // or the limit of answers would be reached
			n, _ := w.Pool.Take(0)
			copy(w.Pool.Memory(n)[l.Headroom:], b)
			frames[0] = ip.Frame{Packet: w.Pool.Fill(n, l.Headroom, len(b), 0)}
			w.IP.Refresh()
			w.IP.Input(w.Now, 0, frames)
			for _, o := range w.IP.Output(0) {
				w.Pool.FreeTransmit(o.Packet)
				sent++
			}
			w.IP.Took(0, len(w.IP.Output(0)))
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
	for i := range ip.MaxBurst {
		mac := peerMAC
		mac[4] = byte(i)
		burst = append(burst, iptest.ARPFrame(wire.ARPRequest, mac, peer, wire.MAC{}, us))
	}
	id := w.Socket(udp.Endpoint{Local: us})
	w.KnowPeer()
	_, err := w.Send(id, peer, 9, "x") // one that nobody sends to is in no table
	w.NoError(err)
	w.Only()
	before := w.LocalHost.Generation()
	w.In(burst...)
	w.Equal(before+1, w.LocalHost.Generation())
	w.Len(w.Out(), ip.MaxBurst)
	_, err = w.Send(id, peer, 9, "x")
	w.NoError(err)
	w.Equal(byte(ip.MaxBurst-1), w.Parse(w.Only()).Eth.Target()[4], "the last one counts")
}

// Who waits for a neighbour asks again each second, without another send: the first request may have come while the interface was down.
func TestNeighbourIsAskedForAgain(t *testing.T) {
	h := &kernelHost{snap: host.NewSnapshot(iptest.Facts(), 1)}
	w := newWorld(t, func(c *ip.Config) { c.LocalHost, c.Host = nil, h })
	id := w.Socket(udp.Endpoint{Local: us})
	_, err := w.Send(id, peer, 9, "waits")
	w.NoError(err)
	first := len(h.asked)
	for i := range 2 {
		w.Equal(w.Now.Add(time.Second), w.IP.Deadline())
		w.After(time.Second)
		w.Len(h.asked, first+1+i)
		w.Equal(host.Target{Interface: iface, Addr: peer.Netip()}, h.asked[first+i])
	}
	w.After(time.Second)
	w.EqualValues(1, w.IP.GivenUp(host.GiveUpTime))
	w.Len(h.asked, first+2, "nobody waits any more")
	w.Equal(clock.Never, w.IP.Deadline())
}
