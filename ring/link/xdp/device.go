package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Device is an interface with our steering program on it. Its queues are links of their own, each over the pool of the goroutine that
// owns it. Any goroutine.
type Device struct {
	config  Config
	kind    kind
	info    link.Info
	program *Program
	native  bool
	queues  []int
	leftOut []int     // queues that the configuration does not name
	path    link.Path // what all queues have in common

	rules     *rules // nil without
	card      *ethtool
	strayedMu sync.Mutex // held from the reading of the counter on, so that two callers do not go back
	strayed   uint64     // steer.no_queue when Strayed was last asked

	mu   sync.Mutex
	open map[int]*Queue
}

// Open puts the steering program on an interface of the calling thread's network namespace. It takes no packet yet. Where the kernel or the
// interface does not allow it, the error is a *link.Refusal with the reason's code. Wrong configurations, and what goes wrong with the receive
// rules of Config.RulesDir, are plain errors.
func Open(c Config) (*Device, error) {
	c.defaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	found, err := findLink(c.Interface)
	if err != nil {
		return nil, err
	}
	d := &Device{config: c, kind: kindOf(found), open: map[int]*Queue{}}
	if found, err = d.waitFree(found); err != nil {
		return nil, err
	}
	attrs := found.Attrs() // as they are once no other program is on it
	d.info = link.Info{Name: c.Interface, Index: attrs.Index, MTU: attrs.MTU, Headroom: unix.XDP_PACKET_HEADROOM}
	d.info.TagsApart = takesTagsOut(c.Interface)
	copy(d.info.Addr[:], attrs.HardwareAddr)
	d.path = link.Path{Kind: "xdp", Interface: c.Interface}
	if err := d.attach(); err != nil {
		return nil, err
	}
	// Queues are counted with the program attached: some drivers set up their queues anew for it.
	if err := d.chooseQueues(attrs.NumRxQueues); err != nil {
		return nil, errors.Join(err, d.program.Close())
	}
	if c.Rules {
		if err := d.openRules(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// findLink asks the kernel for an interface of the calling thread's network namespace. Error: a refusal, xdp.no_device if there is none.
func findLink(name string) (netlink.Link, error) {
	found, err := netlink.LinkByName(name)
	if err != nil {
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			err = unix.ENODEV
		}
		return nil, refuse(err, "interface "+name)
	}
	return found, nil
}

// openRules opens the card's receive rules for Steer. A card without them is no error: the path gets the reason, and Steer refuses.
func (d *Device) openRules() error {
	space, err := os.Readlink("/proc/thread-self/ns/net") // such as net:[4026531840]: indexes of interfaces are its own
	if err != nil {
		return fmt.Errorf("xdp: rules: %w", err)
	}
	if d.card, err = newEthtool(d.config.Interface); err != nil {
		return fmt.Errorf("xdp: rules: %w", err)
	}
	prefix := fmt.Sprintf("%s-%d-", strings.Trim(space, "net:[]"), d.info.Index)
	d.rules, err = openRules(d.card, d.config.RulesDir, prefix)
	var none *link.Refusal
	if errors.As(err, &none) {
		d.path.Reasons = append(d.path.Reasons, none.Reason)
		return nil
	}
	return err
}

// attach loads the program and attaches it in the first mode that succeeds: in the one that the configuration names, or for ModeAuto first
// natively where the kind of interface is worth it, then generically. The second mode is tried only where the driver does not attach the
// program; another program on the interface, a missing privilege and a program that does not load end it. Error: a refusal.
func (d *Device) attach() error {
	modes := []bool{d.config.Mode == ModeNative}
	if d.config.Mode == ModeAuto {
		if modes = []bool{false}; d.kind.native {
			modes = []bool{true, false}
		}
	}
	var err error
	for i, native := range modes {
		if err = d.attachAs(native); err == nil {
			d.native = native
			d.path.Mode = "generic"
			if native {
				d.path.Mode = "native"
			}
			return nil
		}
		if isBusy(err) {
			var program uint32 // it came after waitFree has looked
			if found, e := findLink(d.config.Interface); e == nil {
				program, _ = occupant(found)
			}
			return busyProgram(d.config.Interface, program, err)
		}
		var known *link.Refusal
		if errors.As(err, &known) || errors.Is(err, unix.EPERM) || i == len(modes)-1 {
			break
		}
		d.reason(ReasonNoNative, "the driver of %s does not run the program: %v", d.config.Interface, err)
	}
	if d.config.Mode == ModeNative && !errors.Is(err, unix.EPERM) {
		var known *link.Refusal
		if !errors.As(err, &known) {
			return refusal(ReasonNoNative, err, "the driver of %s does not run the program", d.config.Interface)
		}
	}
	return refuse(err, "attaching the steering program to "+d.config.Interface)
}

// attachAs loads a program for the mode and attaches it. It tries the kinds of stamps that stamps lists, and each without frames of several
// pages if the kernel refuses those; what was not had is a reason of the path.
func (d *Device) attachAs(native bool) error {
	protocols := []uint8{link.UDP}
	if d.config.TCP {
		protocols = append(protocols, link.TCP)
	}
	// A program that does not say it can live with frames of several pages cannot be attached to a driver whose frames are longer. TCP of a
	// kernel on this machine comes in frames of up to 64 KiB whatever the MTU (TSO).
	o := programOptions{flows: d.config.Flows, queues: maxQueues, protocols: protocols, mtu: d.info.MTU,
		frags: d.info.MTU > pageMTU || d.config.TCP}
	var err error
	for _, stamp := range d.stamps(native) {
		o.stamp, o.bound = stamp, 0
		if stamp == stampHardware {
			o.bound = d.info.Index
		}
		var p *Program
		p, err = loadProgram(o)
		if o.frags && errors.Is(err, unix.EINVAL) {
			o.frags = false
			if p, err = loadProgram(o); err == nil {
				d.reason(ReasonNoJumbo, "programs that run on frames of several pages (since Linux 5.18)")
			}
		}
		if err == nil {
			if err = d.attachWithin(p, native); err == nil {
				d.program = p
				d.path.Clock = clockOf[stamp]
				return nil
			}
			_ = p.Close()
			if stamp != stampHardware {
				return err // it is the program that the interface refuses, not its stamps
			}
		}
		if isBusy(err) || errors.Is(err, unix.EPERM) {
			return err
		}
		switch stamp {
		case stampHardware:
			d.reason(ReasonNoHardwareTime, "stamps of the card on %s: %v", d.config.Interface, err)
		case stampKernel:
			d.reason(ReasonNoXDPTime, "stamps of the program on %s: %v", d.config.Interface, err)
		}
	}
	return err
}

var clockOf = [...]link.Clock{stampNothing: link.ClockNone, stampKernel: link.ClockKernel, stampHardware: link.ClockHardware}

// stamps lists the stamps to load the program with, to be tried in this order: what the configuration asks for, then what replaces it.
func (d *Device) stamps(native bool) []stamping {
	switch d.config.Time {
	case TimeXDP:
		return []stamping{stampKernel, stampNothing}
	case TimeHardware:
		if d.kind.clock && native {
			return []stamping{stampHardware, stampKernel, stampNothing}
		}
		why := "a " + d.kind.name + " interface has no clock"
		if d.kind.clock {
			why = "programs behind the driver cannot read the card's clock"
		}
		d.reason(ReasonNoHardwareTime, "stamps of the card on %s: %s", d.config.Interface, why)
		return []stamping{stampKernel, stampNothing}
	}
	return []stamping{stampNothing}
}

// attachWithin attaches, and tries EBUSY again for a while: a process that ends lets go of the interface some time later.
func (d *Device) attachWithin(p *Program, native bool) error {
	for end := time.Now().Add(d.config.Retry); ; time.Sleep(5 * time.Millisecond) {
		err := p.attach(d.info.Index, native)
		if err == nil || !isBusy(err) || time.Now().After(end) {
			return err
		}
	}
}

const (
	// maxQueues is the size of the map of sockets: more queues than interfaces have.
	maxQueues = 1024
	// pageMTU is the largest MTU with which a frame, headroom and the kernel's own record fit a page of 4 KiB in every driver; on a
	// veth 3,498.
	pageMTU = 3498
)

// NumQueues is how many queues of an interface frames can arrive on, and so how many Open takes when none are named. In the calling
// thread's network namespace.
func NumQueues(name string) (int, error) {
	found, err := findLink(name)
	if err != nil {
		return 0, err
	}
	return queueCount(name, found.Attrs().NumRxQueues), nil
}

// chooseQueues sets what Queues lists: the queues that the configuration names, or all of the interface. allocated is the kernel's number of
// receive queues, for a driver that does not tell how many it uses.
func (d *Device) chooseQueues(allocated int) error {
	count := queueCount(d.config.Interface, allocated)
	if d.config.Queues != nil {
		for i, q := range d.config.Queues {
			if q < 0 || q >= count {
				return fmt.Errorf("xdp: Queues[%d] is %d, %s has 0 to %d", i, q, d.config.Interface, count-1)
			}
			if slices.Contains(d.config.Queues[:i], q) {
				return fmt.Errorf("xdp: Queues[%d] is %d, which is there already", i, q)
			}
		}
		d.queues = slices.Clone(d.config.Queues)
		for q := range count {
			if !slices.Contains(d.queues, q) {
				d.leftOut = append(d.leftOut, q)
			}
		}
		return nil
	}
	// All of them in generic mode too. A veth leaves the number of the sender's transmit queue in the frame, where the receiving side
	// takes it for one more than that of a receive queue: of four queues, frames of senders on queue 0 and 1 arrive on 0, on 2 on 1,
	// on 3 on 2.
	for q := range count {
		d.queues = append(d.queues, q)
	}
	return nil
}

// queueCount is how many queues the interface uses now, or how many it has where the driver does not say.
func queueCount(name string, allocated int) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return max(allocated, 1)
	}
	defer func() { _ = unix.Close(fd) }()
	c, e := ethtoolChannels(fd, name)
	if e != 0 {
		return max(allocated, 1)
	}
	return max(int(c.rxCount+c.combinedCount), 1)
}

// reason adds a reason to the path of the device, once: several attempts may fail for the same one.
func (d *Device) reason(code, format string, args ...any) {
	r := link.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(d.path.Reasons, r) {
		d.path.Reasons = append(d.path.Reasons, r)
	}
}

// Info is what the queues have in common: Queue is 0, and how frames lie in buffers is for each queue to say.
func (d *Device) Info() link.Info { return d.info }

// Path is what the queues have in common.
func (d *Device) Path() link.Path { return d.path }

// Queues lists the queues that frames can arrive on, or those that were asked for.
func (d *Device) Queues() []int { return slices.Clone(d.queues) }

// LeftOut lists the queues that frames can arrive on and that Config.Queues does not name.
func (d *Device) LeftOut() []int { return slices.Clone(d.leftOut) }

// Program is the steering program.
func (d *Device) Program() *Program { return d.program }

// Claim takes a flow's packets from the kernel on all open queues. See Program.Claim.
func (d *Device) Claim(f Flow) error { return d.program.Claim(f) }

// Release gives a flow back. See Program.Release.
func (d *Device) Release(f Flow) error { return d.program.Release(f) }

// Pass has a connection on a claimed port stay the kernel's, StopPassing ends that. See Program.Pass.
func (d *Device) Pass(f Flow) error        { return d.program.Pass(f) }
func (d *Device) StopPassing(f Flow) error { return d.program.StopPassing(f) }

// Steer makes the card deliver a flow to one of the queues, by a receive rule that Unsteer or Close removes, or the next Open if the
// process crashes. Error: a refusal with ReasonNoRules when the card has none.
func (d *Device) Steer(f Flow, queue int) error {
	switch {
	case d.rules == nil:
		return refusal(ReasonNoRules, nil, "%s takes no receive rules, or none were asked for", d.config.Interface)
	case !slices.Contains(d.queues, queue):
		return fmt.Errorf("xdp: steer %v: queue %d is not one of %v", f, queue, d.queues)
	}
	return d.rules.steer(f, queue)
}

// Unsteer removes the rule of a flow. Error: ErrNoClaim when there is none of ours.
func (d *Device) Unsteer(f Flow) error {
	if d.rules == nil {
		return fmt.Errorf("xdp: unsteer %v: %w", f, ErrNoClaim)
	}
	return d.rules.unsteer(f)
}

// Strayed reports how many claimed frames have come in on queues that are not open since it was last asked: rules that do their work make
// it 0. Those frames went to the kernel.
func (d *Device) Strayed() uint64 {
	d.strayedMu.Lock()
	defer d.strayedMu.Unlock()
	var now uint64
	for _, c := range d.Counters(nil) {
		if c.Name == countNames[countNoQueue] {
			now = c.Value
		}
	}
	n := now - d.strayed
	d.strayed = now
	return n
}

// AddAddrs makes the interface's addresses known, as they are now: Program.AddAddr for each.
func (d *Device) AddAddrs() error {
	ifc, err := net.InterfaceByIndex(d.info.Index)
	if err != nil {
		return fmt.Errorf("xdp: %s: %w", d.config.Interface, err)
	}
	addrs, err := ifc.Addrs()
	if err != nil {
		return fmt.Errorf("xdp: addresses of %s: %w", d.config.Interface, err)
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, _ := netip.AddrFromSlice(n.IP); ip.Unmap().Is4() {
			const untagged = 0
			if err := d.program.AddAddr(ip.Unmap(), untagged); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget makes a closed queue's number free for OpenQueue. A queue that was opened there since stays.
func (d *Device) forget(q *Queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[q.queue] == q {
		delete(d.open, q.queue)
	}
}

// Counters appends the counts of the steering program.
func (d *Device) Counters(dst []link.Counter) []link.Counter { return d.program.Counters(dst) }

// Close takes the program off the interface: the kernel has all traffic back. Queues still open receive nothing more and are closed by
// their owners.
func (d *Device) Close() error {
	err := d.program.Close()
	if errors.Is(err, link.ErrClosed) {
		return err
	}
	if d.rules != nil {
		err = errors.Join(err, d.rules.close())
	}
	if d.card != nil {
		err = errors.Join(err, d.card.close())
	}
	return err
}
