package offload_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// wires is a host made up for kinds of interface that the kernel at hand may lack: its tables say what the test wants, its devices are memory
// links whose other ends the test holds. The addresses are those of real veth interfaces, v0 to v2, which the tables call bonds or VLANs: the
// shadows are the kernel's sockets there.
type wires struct {
	t        testing.TB
	tables   host.Facts
	change   func(host.Facts)
	mirror   *host.Host
	exchange *offload.Exchange
	index    [3]int // of v0 to v2
	pool     *buffers.DriverPool
	far      *buffers.DriverPool // of the other ends
	drops    *[wire.NumDrops]uint64

	mu      sync.Mutex
	devices map[string]*wireDevice
	opened  atomic.Int32
	closed  atomic.Int32
	passed  int // frames that the program would have passed to the kernel
}

// wireDevice is a device with one queue.
type wireDevice struct {
	w      *wires
	info   link.Info
	mu     sync.Mutex
	claims map[link.Flow]bool
	addrs  map[string]bool
	gone   bool
	end    *memory.End // the other one, while the queue is open
}

func newWires(t testing.TB) *wires {
	testnet.New(t, testnet.Pair{}, testnet.Pair{}, testnet.Pair{})
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 1024, Headroom: 192}
	w := &wires{t: t, pool: newPool(t, layout), far: newPool(t, layout), devices: map[string]*wireDevice{}}
	here, err := host.Open(host.Config{})
	require.NoError(t, err)
	defer here.Close()
	for i := range w.index {
		l, ok := here.Snapshot().LinkByName(fmt.Sprintf("v%d", i))
		require.True(t, ok)
		w.index[i] = l.Index
	}
	return w
}

const up = unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST

// peerMAC is the station of every neighbour.
var peerMAC = wire.MAC{2, 0, 0, 0, 0, 0xfe}

// interfaceMAC is that of v0 to v2.
func interfaceMAC(i int) wire.MAC { return wire.MAC{2, 0, 0, 0, 1, byte(i)} }

// having adds v0 to v2 to the tables, as what edit makes of them, with address and neighbours.
func (w *wires) having(i int, edit func(l *host.Link)) {
	l := host.Link{Index: w.index[i], Name: fmt.Sprintf("v%d", i), Type: unix.ARPHRD_ETHER, MAC: interfaceMAC(i), MTU: 1500, Flags: up,
		Netns: -1}
	edit(&l)
	f := offload.Facts(l, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), 24))
	w.tables.Links = append(w.tables.Links, f.Links...)
	w.tables.Addresses = append(w.tables.Addresses, f.Addresses...)
	w.tables.Routes = append(w.tables.Routes, f.Routes...)
	w.tables.Neighbours = append(w.tables.Neighbours, host.Neighbour{MAC: peerMAC, State: unix.NUD_PERMANENT,
		Target: host.Target{Interface: l.Index, Addr: netip.AddrFrom4([4]byte{10, 0, byte(i), 2})}})
}

// carrying adds an interface without addresses: a bond's member.
func (w *wires) carrying(index int, name string, edit func(l *host.Link)) {
	l := host.Link{Index: index, Name: name, Type: unix.ARPHRD_ETHER, MAC: interfaceMAC(0), MTU: 1500, Flags: up, Netns: -1}
	edit(&l)
	w.tables.Links = append(w.tables.Links, l)
}

// link is an interface of the tables; after a change call tell.
func (w *wires) link(name string) *host.Link {
	i := slices.IndexFunc(w.tables.Links, func(l host.Link) bool { return l.Name == name })
	require.GreaterOrEqual(w.t, i, 0, name)
	return &w.tables.Links[i]
}

func (w *wires) without(name string) {
	w.tables.Links = slices.DeleteFunc(slices.Clone(w.tables.Links), func(l host.Link) bool { return l.Name == name })
}

// start makes the exchange.
func (w *wires) start() {
	var err error
	w.mirror, w.change, err = host.OpenTables(w.tables)
	require.NoError(w.t, err)
	w.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: w.mirror, Open: w.open})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, w.exchange.Close())
		require.NoError(w.t, w.mirror.Close())
		require.Equal(w.t, w.opened.Load(), w.closed.Load(), "every device is closed")
	})
}

// tell makes the tables the host's, and waits until it has them.
func (w *wires) tell() {
	before := w.mirror.Snapshot()
	w.change(host.Facts{Links: slices.Clone(w.tables.Links), Addresses: w.tables.Addresses, Routes: w.tables.Routes,
		Neighbours: w.tables.Neighbours})
	for end := time.Now().Add(patience); w.mirror.Snapshot() == before; time.Sleep(100 * time.Microsecond) {
		require.True(w.t, time.Now().Before(end))
	}
}

func (w *wires) open(name string, _ nic.Patience) (nic.Device, error) {
	l, ok := w.mirror.Snapshot().LinkByName(name)
	if !ok {
		return nil, &link.Refusal{Reason: link.Reason{Code: "xdp.no_device", Text: name}}
	}
	d := &wireDevice{w: w, claims: map[link.Flow]bool{}, addrs: map[string]bool{},
		info: link.Info{Name: name, Index: l.Index, Addr: l.MAC, MTU: l.MTU, Headroom: 192}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.devices[name]; was != nil && !was.isGone() {
		return nil, &link.Refusal{Reason: link.Reason{Code: "xdp.busy", Text: name}}
	}
	w.devices[name] = d
	w.opened.Add(1)
	return d, nil
}

func (w *wires) device(name string) *wireDevice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.devices[name]
}

func (d *wireDevice) isGone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone
}

func (d *wireDevice) Claim(f link.Flow) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.claims[f] {
		return unix.EEXIST
	}
	d.claims[f] = true
	return nil
}

func (d *wireDevice) Release(f link.Flow) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.claims[f] {
		return unix.ENOENT
	}
	delete(d.claims, f)
	return nil
}

func (d *wireDevice) AddAddr(a netip.Addr, vlan uint16) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs[fmt.Sprint(a, vlan)] = true
	return nil
}

func (d *wireDevice) RemoveAddr(a netip.Addr, vlan uint16) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.addrs, fmt.Sprint(a, vlan))
	return nil
}

func (d *wireDevice) OnLost(func())                              {}
func (d *wireDevice) OpenGuard() (nic.Guard, error)              { return nil, nil }
func (d *wireDevice) Pass(link.Flow) error                       { return nil }
func (d *wireDevice) StopPassing(link.Flow) error                { return nil }
func (d *wireDevice) Queues() []int                              { return []int{0} }
func (d *wireDevice) Info() link.Info                            { return d.info }
func (d *wireDevice) Path() link.Path                            { return link.Path{Kind: "memory", Interface: d.info.Name} }
func (d *wireDevice) Check() error                               { return nil }
func (d *wireDevice) Counters(dst []link.Counter) []link.Counter { return dst }
func (d *wireDevice) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return link.ErrClosed
	}
	d.gone = true
	d.w.closed.Add(1)
	return nil
}

func (d *wireDevice) PrepareQueue(_ int, pool *buffers.DriverPool, _ int) (link.Staged, error) {
	near, far, err := memory.Pair(pool, d.w.far, memory.Config{Names: [2]string{d.info.Name, "far"},
		Addrs: [2][6]byte{d.info.Addr, peerMAC}, MTU: d.info.MTU})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end = far
	return stagedEnd{near, d}, nil
}

// stagedEnd is a memory link that is opened and closed in parts.
type stagedEnd struct {
	*memory.End
	d *wireDevice
}

func (stagedEnd) Start() error    { return nil }
func (stagedEnd) Stop()           {}
func (stagedEnd) Shut() error     { return nil }
func (e stagedEnd) Retire() error { return e.Close() }

func (e stagedEnd) Close() error {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if e.d.end != nil {
		_ = e.d.end.Close()
		e.d.end = nil
	}
	return e.End.Close()
}

// claimed reports whether the program would redirect the packet.
func (d *wireDevice) claimed(vlan uint16, to, from netip.AddrPort) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return false
	}
	for f := range d.claims {
		wild := f.Local.Addr().IsUnspecified() && d.addrs[fmt.Sprint(to.Addr(), vlan)]
		if f.VLAN == vlan && f.Local.Port() == to.Port() && (f.Local.Addr() == to.Addr() || wild) && (!f.Remote.IsValid() || f.Remote == from) {
			return true
		}
	}
	return false
}

// come has a datagram with a number come in on a device, from 10.0.<i>.2 to an address of vi or to a group.
func (w *wires) come(name string, i int, vlan uint16, to netip.AddrPort, number uint64) {
	w.t.Helper()
	d := w.device(name)
	from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 2}), 9000)
	if d == nil || !d.claimed(vlan, to, from) {
		w.passed++
		return
	}
	target, _ := wire.AddrFrom(to.Addr())
	source, _ := wire.AddrFrom(from.Addr())
	f := wire.UDPFlow{Link: wire.EthernetFields{Source: peerMAC, Target: interfaceMAC(i), Tag: wire.Tag(vlan)}, TTL: 64,
		Source: source, Target: target, SourcePort: from.Port(), TargetPort: to.Port()}
	if to.Addr().IsMulticast() {
		f.Link.Target = wire.GroupMAC(target)
	}
	template, err := wire.NewUDPTemplate(f)
	require.NoError(w.t, err)
	p, err := w.far.Alloc(template.Len() + 8)
	require.NoError(w.t, err)
	b := p.Room()[:template.Len()+8]
	binary.LittleEndian.PutUint64(b[template.Len():], number)
	template.Put(b, 1)
	p, err = w.far.Transmit(p)
	require.NoError(w.t, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Equal(w.t, 1, d.end.Send([]link.Out{{Packet: p}}))
	require.NoError(w.t, d.end.Flush())
	d.end.Complete(nil)
}

// left is a datagram that left by a device.
type left struct {
	vlan   uint16
	source wire.MAC
	to     netip.AddrPort
	number uint64
}

// gone are the datagrams that have left by a device since it was asked.
func (w *wires) gone(name string) (list []left) {
	w.t.Helper()
	d := w.device(name)
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	frames := make([]link.Frame, 16)
	for d.end != nil {
		n := d.end.Receive(frames)
		for i := range frames[:n] {
			eth, tag, typ, rest, drop := wire.ParseEthernet(frames[i].Packet.Bytes())
			require.Equal(w.t, wire.Accept, drop)
			require.Equal(w.t, wire.TypeIPv4, typ)
			ip, _, segment, drop := wire.ParseIPv4(rest)
			require.Equal(w.t, wire.Accept, drop)
			u := (*wire.UDP)(segment)
			list = append(list, left{tag.VID(), eth.Source(), netip.AddrPortFrom(ip.Target().Netip(), u.TargetPort()),
				binary.LittleEndian.Uint64(segment[wire.UDPLen:])})
			require.NoError(w.t, frames[i].Packet.Release())
		}
		if n == 0 {
			break
		}
	}
	return list
}

// ring makes a set with a ring, which ends with the test.
func (w *wires) ring(list ...nic.Interface) (*ring.Set, *ring.Ring, ring.Driver) {
	var driver ring.Driver
	made := offload.New(offload.Config{Exchange: w.exchange, Interfaces: list, Drops: w.drops})
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: w.pool, Kind: "offload", OneRing: offload.OneRing,
		Driver: func(c ring.DriverConfig) (_ ring.Driver, err error) {
			driver, err = made(c)
			return driver, err
		}})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, set.Close()) })
	r, err := set.NewRing()
	require.NoError(w.t, err)
	return set, r, driver
}

// listener makes a socket and what watches it.
func (w *wires) listener(set *ring.Set, local string) *watcher {
	s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(w.t, err)
	require.NoError(w.t, s.SetReuseAddr(true))
	require.NoError(w.t, s.Bind(netip.MustParseAddrPort(local)))
	require.NoError(w.t, s.SetMulticastLoop(false))
	x := &watcher{t: w.t.(*testing.T), s: s, dst: make([]ring.Completion, 64), seen: map[uint64]bool{}}
	return x
}

// send has a socket send a number, and the ring flush it.
func (x *watcher) send(to string, number uint64) {
	_, err := x.s.SendTo(binary.LittleEndian.AppendUint64(nil, number), netip.MustParseAddrPort(to))
	require.NoError(x.t, err)
	require.NoError(x.t, x.s.Ring().Flush())
}
