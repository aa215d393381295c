package simnet

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// KernelNIC is an interface of a machine with a kernel. Its frames go through the steering program, if there is one, then to a ring's queue
// or to the kernel's stack.
type KernelNIC struct {
	kernel       *Kernel
	index        int
	name         string
	mac          [6]byte
	mtu          int
	addrs        []netip.Prefix
	present      bool
	up           bool
	carrier      bool
	out          *Line
	queues       []*kqueue // that rings have opened, nil where none has
	device       *kdevice  // the steering program of the rings
	otherProgram int       // another program is on the interface; 0: none
	serial       int       // of programs
	in           uint64    // frames that came from the line
	sentUncabled uint64    // frames that were sent without a cable
}

// Name is the interface's name, "eth0" for the first of a machine.
func (n *KernelNIC) Name() string { return n.name }

func (n *KernelNIC) label() string { return n.kernel.name + "." + n.name }
func (n *KernelNIC) home() *World  { return n.kernel.world }

// plug connects the interface to the line out, on which it sends; an interface has one cable.
func (n *KernelNIC) plug(out *Line) (socketPlace, error) {
	if n.out != nil {
		return socketPlace{}, fmt.Errorf("simnet: connect %s: it has a cable already", n.label())
	}
	n.out = out
	return socketPlace{kernel: n}, nil
}

func (n *KernelNIC) carries() bool { return n.present && n.up && n.carrier }

// SetUp takes the interface up or down, as its administrator does.
func (n *KernelNIC) SetUp(up bool) {
	if n.up != up {
		n.up = up
		if !up {
			n.forgetNeighbours()
		}
		n.kernel.onTablesChanged()
	}
}

// SetCarrier plugs the interface's cable in or out.
func (n *KernelNIC) SetCarrier(carrier bool) {
	if n.carrier != carrier {
		if n.carrier = carrier; !carrier {
			n.forgetNeighbours() // neigh_carrier_down
		}
		n.kernel.onTablesChanged()
	}
}

// Delete removes the interface, with its addresses, its program and its memberships; Make makes it again, with another number.
//
// The addresses stay noted, so that Make gives them back, as whatever configures the host's network would.
func (n *KernelNIC) Delete() {
	if n.present {
		n.present = false
		n.removeProgram()
		n.forgetNeighbours()
		n.kernel.onTablesChanged()
	}
}

// Make makes an interface again that was deleted: with another number, its former addresses, up and with a carrier. The rings' program is not
// on it.
func (n *KernelNIC) Make() {
	if !n.present {
		n.kernel.nextIndex++
		n.present, n.up, n.carrier, n.index = true, true, true, n.kernel.nextIndex
		n.kernel.onTablesChanged()
	}
}

// SetAddrs replaces the interface's addresses.
func (n *KernelNIC) SetAddrs(addrs ...netip.Prefix) {
	n.addrs = slices.Clone(addrs)
	n.kernel.onTablesChanged()
}

// SetMTU changes the interface's MTU.
func (n *KernelNIC) SetMTU(mtu int) {
	n.mtu = mtu
	n.kernel.onTablesChanged()
}

// SetProgram puts another program on the interface in the place of the rings' own, or takes it off.
func (n *KernelNIC) SetProgram(on bool) {
	if n.otherProgram = 0; on {
		n.removeProgram()
		n.serial++
		n.otherProgram = n.serial
	}
	n.kernel.onTablesChanged()
}

// TakeOffProgram takes the rings' program off, as an administrator may.
func (n *KernelNIC) TakeOffProgram() { n.removeProgram() }

func (n *KernelNIC) removeProgram() {
	if n.device != nil {
		n.device.detached = true
	}
}

// arrive handles a frame that arrives from the line: the rings' program redirects it to a queue, or the kernel's stack receives it.
func (n *KernelNIC) arrive(f *frame) {
	k, w := n.kernel, n.kernel.world
	n.in++
	to := atStack
	if !n.carries() {
		k.stats.LostDown++
		to = atDown
	} else if q := n.steer(f.b); q != nil {
		k.stats.Steered++
		if to = atQueue; !q.arrive(f) {
			to = atQueueFull
		}
	}
	if k.watcher != nil {
		k.watcher.arrived(n, f, to)
	}
	if to == atStack {
		k.input(n, f.b)
	}
	w.releaseFrame(f)
}

// steer does what the rings' XDP program does: it returns the queue to which a frame is redirected, or nil for the kernel's stack.
func (n *KernelNIC) steer(b []byte) *kqueue {
	d := n.device
	if d == nil || d.detached || len(b) < 42 || wire.MAC(b[:6]) != n.mac && b[0]&1 == 0 {
		return nil
	}
	_, tag, typ, payload, bad := wire.ParseEthernet(b)
	if bad != 0 || typ != wire.TypeIPv4 || tag != 0 {
		return nil
	}
	ip, _, body, bad := wire.ParseIPv4(payload)
	if bad != 0 || ip.Protocol() != wire.ProtocolUDP || ip.IsFragment() || len(body) < wire.UDPLen {
		return nil
	}
	u := (*wire.UDP)(body)
	if !d.matches(netip.AddrPortFrom(ip.Source().Netip(), u.SourcePort()), netip.AddrPortFrom(ip.Target().Netip(), u.TargetPort())) {
		return nil
	}
	h := mix(mix(offset, uint64(ip.Source().Uint32())<<32|uint64(ip.Target().Uint32())), uint64(u.SourcePort())<<16|uint64(u.TargetPort()))
	q := n.queues[h%uint64(len(n.queues))]
	if q == nil || !q.started || q.stopped {
		n.kernel.stats.Strayed++
		return nil
	}
	return q
}

// transmit sends a frame on the line, which owns the reference from now on.
func (n *KernelNIC) transmit(b []byte, byRing bool) {
	k, w := n.kernel, n.kernel.world
	if k.watcher != nil {
		k.watcher.left(n, b, byRing)
	}
	if n.out == nil {
		n.sentUncabled++
		return
	}
	f := w.newFrame(len(b))
	copy(f.b, b)
	f.kind = kindOf(f.b)
	n.out.send(f)
}

// kdevice is the steering program on an interface, with the claims of the rings.
type kdevice struct {
	nic      *KernelNIC
	index    int // of the interface when it was opened
	claims   map[link.Flow]*kclaim
	addrs    map[netip.Addr]int
	detached bool
	closed   bool
	queues   []*kqueue
}

type kclaim struct {
	n  int
	at int64 // when it has effect
}

var _ nic.Device = (*kdevice)(nil)

// openDevice puts the rings' program on an interface.
func (k *Kernel) openDevice(name string, _ nic.Patience) (nic.Device, error) {
	for _, n := range k.nics {
		if n.name != name || !n.present {
			continue
		}
		if n.otherProgram != 0 || n.device != nil {
			return nil, &link.Refusal{Reason: link.Reason{Code: "xdp.busy", Text: "another program is on " + name}, Err: unix.EBUSY}
		}
		n.device = &kdevice{nic: n, index: n.index, claims: map[link.Flow]*kclaim{}, addrs: map[netip.Addr]int{}}
		if k.config.device != nil {
			return k.config.device(n.device), nil
		}
		return n.device, nil
	}
	return nil, fmt.Errorf("simnet: %s: %w", name, unix.ENODEV)
}

// matches reports whether a claim that has effect covers a datagram from source to target.
func (d *kdevice) matches(source, target netip.AddrPort) bool {
	has := func(f link.Flow) bool {
		c := d.claims[f]
		return c != nil && c.at <= d.nic.kernel.world.now
	}
	if has(link.Flow{Protocol: link.UDP, Local: target}) || has(link.Flow{Protocol: link.UDP, Local: target, Remote: source}) ||
		has(link.Flow{Protocol: link.UDP, Local: target, Remote: netip.AddrPortFrom(source.Addr(), 0)}) {
		return true
	}
	anywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), target.Port())
	return d.addrs[target.Addr()] > 0 && (has(link.Flow{Protocol: link.UDP, Local: anywhere}) ||
		has(link.Flow{Protocol: link.UDP, Local: anywhere, Remote: source}))
}

// OnLost does nothing: rings find out when they check.
func (d *kdevice) OnLost(func()) {}

// OpenGuard opens none: no TCP is carried there.
func (d *kdevice) OpenGuard() (nic.Guard, error) { return nil, nil }
func (d *kdevice) Pass(link.Flow) error          { return nil } // its kernel has no connections
func (d *kdevice) StopPassing(link.Flow) error   { return nil }

// Claim adds a claim for a flow, which has effect after the machine's ClaimDelay.
func (d *kdevice) Claim(f link.Flow) error {
	k := d.nic.kernel
	if d.closed {
		return link.ErrClosed
	}
	if c := d.claims[f]; c != nil {
		c.n++
		return nil
	}
	// The delay is a hash of flow and time, not the next number of the world's random source: the driver makes its claims in the order of a
	// map, which differs from run to run.
	h := splitmix(uint64(k.world.now) ^ mix(uint64(f.Local.Port()), uint64(f.Remote.Port())))
	d.claims[f] = &kclaim{n: 1, at: k.world.now + int64(h%uint64(k.config.ClaimDelay))}
	return nil
}

// Release removes a claim.
func (d *kdevice) Release(f link.Flow) error {
	switch c := d.claims[f]; {
	case d.closed:
		return link.ErrClosed
	case c == nil:
		return fmt.Errorf("simnet: %s: %v is not claimed: %w", d.nic.name, f, unix.ENOENT)
	case c.n > 1:
		c.n--
	default:
		delete(d.claims, f)
	}
	return nil
}

// AddAddr makes an address known.
func (d *kdevice) AddAddr(a netip.Addr, _ uint16) error {
	d.addrs[a]++
	return nil
}

// RemoveAddr undoes AddAddr.
func (d *kdevice) RemoveAddr(a netip.Addr, _ uint16) error {
	if d.addrs[a]--; d.addrs[a] <= 0 {
		delete(d.addrs, a)
	}
	return nil
}

// Queues are all of the interface.
func (d *kdevice) Queues() (list []int) {
	for i := range d.nic.queues {
		list = append(list, i)
	}
	return list
}

// PrepareQueue opens a queue.
func (d *kdevice) PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (link.Staged, error) {
	n := d.nic
	switch {
	case d.closed || d.detached || !n.present:
		return nil, fmt.Errorf("simnet: %s: %w", n.name, link.ErrDetached)
	case n.queues[queue] != nil:
		return nil, fmt.Errorf("simnet: %s: queue %d: %w", n.name, queue, unix.EBUSY)
	}
	q := newKQueue(d, queue, pool, fill)
	n.queues[queue] = q
	d.queues = append(d.queues, q)
	return q, nil
}

// Info is what the queues have in common.
func (d *kdevice) Info() link.Info {
	return link.Info{Name: d.nic.name, Index: d.index, Addr: d.nic.mac, MTU: d.nic.mtu, MaxFrame: 2048, PerBuffer: 2048, MaxPieces: 1,
		Headroom: 192}
}

// Path is how frames travel.
func (d *kdevice) Path() link.Path {
	return link.Path{Kind: "simnet", Interface: d.nic.name, Clock: link.ClockHardware}
}

// Check reports whether the program is still on its interface.
func (d *kdevice) Check() error {
	if d.detached || d.closed {
		return fmt.Errorf("simnet: %s: %w", d.nic.name, link.ErrDetached)
	}
	return nil
}

// Counters appends nothing: the machine has the counts.
func (d *kdevice) Counters(dst []link.Counter) []link.Counter { return dst }

// Close takes the program off.
func (d *kdevice) Close() error {
	if d.closed {
		return link.ErrClosed
	}
	d.closed = true
	if d.nic.device == d {
		d.nic.device = nil
	}
	return nil
}

// target is a neighbour by the interface.
func (n *KernelNIC) target(a netip.Addr) host.Target { return host.Target{Interface: n.index, Addr: a} }
