package xtreme

import (
	"errors"
	"log/slog"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// interfaces is what the offloaded rings of an engine share: the mirror of the kernel's tables, and the exchange, which has one steering
// program for each interface and hands datagrams from ring to ring. An interface is opened when a socket first needs it, and closed with
// the last poller that uses it. Mirror and exchange are closed with the last poller of kind offload. All are of one network namespace: that
// of the thread that made the first socket that could be offloaded.
type interfaces struct {
	log    *slog.Logger
	named  []conf.Interface // from the settings: the only ones that may be opened, and their queues; none: all
	tcp    bool             // the steering programs take TCP too
	busy   bool             // each poll of a link without frames runs the driver's poll (conf.Offload.BusyPoll)
	mode   conf.XDPMode
	txRing int // entries of a queue's transmit ring; 0: the default

	mu       sync.Mutex
	mirror   *host.Host
	exchange *offload.Exchange
	users    int                    // pollers between join and leave
	modes    map[string]string      // by name: "native" or "generic", of the interfaces opened so far
	busyNow  map[string]busyRefusal // by name: interfaces that another program had when they were last asked for
	reported map[string]bool        // by name: interfaces that announce has logged
	stamps   map[string]xdp.Time    // by name: see stampBy
	queues   map[string][]int       // by name: see queuesToOpen
	shared   map[string]bool        // by name: interfaces that a poller with a QueueShare has opened
	counts   map[string]int         // by name: queues of the devices of those
	joining  sync.Mutex             // held while mirror and exchange are opened, which may wait; before mu
}

// busyRefusal is the reason for an interface that another program uses. Until it ends the answer is taken from here, because opening a busy
// interface is tried for a while before it fails.
type busyRefusal struct {
	reason ring.Reason
	until  time.Time
}

// busyRefusalTime is how long a busy interface is not tried again.
const busyRefusalTime = time.Second

func newInterfaces(log *slog.Logger, s *conf.Settings) *interfaces {
	o := &s.Offload
	return &interfaces{log: log, named: o.Interfaces, tcp: o.TCP, busy: o.BusyPoll, mode: o.Mode, txRing: transmitRing(s.RingEntries), modes: map[string]string{},
		busyNow: map[string]busyRefusal{}, reported: map[string]bool{}, stamps: map[string]xdp.Time{}, queues: map[string][]int{}, shared: map[string]bool{}, counts: map[string]int{}}
}

// transmitRing returns the size of a transmit ring with room for that many frames: the next power of two, 8 or more. 0, the default, stays 0.
func transmitRing(entries int) int {
	if entries == 0 {
		return 0
	}
	return max(8, 1<<bits.Len(uint(entries-1)))
}

// join counts a poller among the users and returns what they share, which it makes for the first one. The poller calls leave when it closes.
func (x *interfaces) join() (*host.Host, *offload.Exchange, error) {
	x.joining.Lock()
	defer x.joining.Unlock()
	if h, e := x.joinOpen(); h != nil {
		return h, e, nil
	}
	h, err := host.Open(host.Config{})
	if err != nil {
		return nil, nil, err
	}
	e, err := offload.NewExchange(offload.ExchangeConfig{Host: h, Open: x.open})
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mirror, x.exchange, x.users = h, e, 1
	return h, e, nil
}

// joinOpen is join where others have joined: it waits for nothing. Else it returns nil, and the poller is no user.
func (x *interfaces) joinOpen() (*host.Host, *offload.Exchange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users == 0 {
		return nil, nil
	}
	x.users++
	return x.mirror, x.exchange
}

// currentExchange is the exchange, nil while no poller is of kind offload. Any goroutine.
func (x *interfaces) currentExchange() *offload.Exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.exchange
}

// leave undoes join; the last poller closes mirror and exchange. The poller has closed its offloaded ring before.
func (x *interfaces) leave() error {
	x.mu.Lock()
	x.users--
	last, exchange, mirror := x.users == 0, x.exchange, x.mirror
	if last {
		clear(x.busyNow)
		clear(x.stamps)
		clear(x.queues)
		clear(x.shared)
		clear(x.counts)
	}
	x.mu.Unlock()
	if !last {
		return nil
	}
	err := errors.Join(exchange.Close(), mirror.Close()) // without the lock: open takes it while the exchange holds its own
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.exchange == exchange { // else a poller has joined meanwhile, and made new ones
		x.exchange, x.mirror = nil, nil
	}
	return err
}

// noteShared notes that pollers with a share have opened an interface, and how many queues its devices have.
func (x *interfaces) noteShared(ifName string, below []string) {
	counts := make([]int, len(below))
	for i, name := range below {
		counts[i], _ = xdp.NumQueues(name) // it was just opened; if it is gone nobody opens a share
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shared[ifName] = true
	for i, name := range below {
		x.counts[name] = max(counts[i], 1)
	}
}

// sharedQueues is how many queues a device had when a poller with a share opened it; 1 for one that has become a bond's member since.
func (x *interfaces) sharedQueues(name string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(x.counts[name], 1)
}

// sharedNames lists the interfaces that pollers with a share have opened.
func (x *interfaces) sharedNames() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.shared))
}

// open opens an interface for AF_XDP, with the queues and in the mode that the settings say. The exchange calls it
// (offload.ExchangeConfig.Open) when the first ring needs the interface. With XDPAuto the mode is generic for kinds of interface that are known
// to need it; else the driver decides.
func (x *interfaces) open(name string, p nic.Patience) (nic.Device, error) {
	x.mu.Lock()
	mirror := x.mirror
	x.mu.Unlock()
	c := xdp.Config{Queues: x.queuesToOpen(name), TCP: x.tcp, Time: x.stampedBy(name), BusyPoll: x.busy, TxRing: x.txRing}
	if x.tcp {
		c.Flows = 1 << 16 // each connection that is opened here has one
	}
	switch x.mode {
	case conf.XDPNative:
		c.Mode = xdp.ModeNative
	case conf.XDPGeneric:
		c.Mode = xdp.ModeGeneric
	default:
		snap := mirror.Snapshot()
		if l, ok := snap.LinkByName(name); ok && snap.Path(l.Index).Generic {
			c.Mode = xdp.ModeGeneric
		}
	}
	d, err := nic.XDP(c)(name, p)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.modes[name] = d.Path().Mode
	return d, nil
}

// stampBy asks that the frames of an interface be stamped at least as exactly as t. It takes effect when the interface is opened: an
// interface that is open keeps its stamps until it is opened anew, for example after its device was removed and came back.
func (x *interfaces) stampBy(name string, t xdp.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stamps[name] = max(x.stamps[name], t)
}

// stampedBy returns the most exact source of stamps that was asked for by stampBy, with which an interface is opened.
func (x *interfaces) stampedBy(name string) xdp.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(x.stamps[name], xdp.TimePoll)
}

// stampSource returns what is to stamp the frames of an interface: the setting t, or the network card if the socket c that needs the interface
// asks for its stamps.
func stampSource(t conf.TimeSource, c *ring.Config) xdp.Time {
	switch {
	case t == conf.TimeHardware || c.Timestamps && c.HardwareTimestamps != ring.HardwareTimestampsOff:
		return xdp.TimeHardware
	case t == conf.TimeXDP:
		return xdp.TimeXDP
	}
	return xdp.TimePoll
}

// noteBusy remembers for busyRefusalTime that an interface could not be opened because another program uses it, with the reason.
func (x *interfaces) noteBusy(name string, r ring.Reason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.busyNow[name] = busyRefusal{r, time.Now().Add(busyRefusalTime)}
}

// recentlyBusy returns the reason of noteBusy, and whether it still holds.
func (x *interfaces) recentlyBusy(name string) (ring.Reason, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, ok := x.busyNow[name]
	return r.reason, ok && time.Now().Before(r.until)
}

// announce logs, once for each interface, in which mode it was opened and which checksum policy holds there. below is the interface whose
// queues carry its frames: the same one, or that below a VLAN or bond.
func (x *interfaces) announce(name, below string, sums checksumChoice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reported[name] {
		return
	}
	x.reported[name] = true
	x.log.Info("offloaded interface", "interface", name, "mode", x.modes[below], "checksums", sums.policy.String(), "because", sums.because)
}

// queuesOf returns the queues that a list names for a device; nil means all. If the list does not name the device itself, it is those named with
// VLANs on it, and with bonds that it is a member of: their frames come by its queues. named is false if the list names nothing of these.
func queuesOf(list []conf.Interface, snap *host.Snapshot, device string) (queues []int, named bool) {
	if own, ok := entryOf(list, device); ok {
		return own.Queues, true
	}
	all := false
	for _, i := range list {
		l, ok := snap.LinkByName(i.Name)
		if !ok {
			continue
		}
		if p := snap.Path(l.Index); p.Offload && slices.Contains(devices(snap, &p), device) {
			queues, named, all = append(queues, i.Queues...), true, all || len(i.Queues) == 0
		}
	}
	if all {
		return nil, true
	}
	slices.Sort(queues)
	return slices.Compact(queues), named
}

// queuesToOpen returns the queues that the settings name for a device. Where its VLANs or its bond are not there, because the device was removed
// and came back before them, they are those that it was opened with before.
func (x *interfaces) queuesToOpen(device string) []int {
	x.mu.Lock()
	defer x.mu.Unlock()
	queues, named := queuesOf(x.named, x.mirror.Snapshot(), device)
	if !named {
		return x.queues[device]
	}
	x.queues[device] = queues
	return queues
}

// entryOf returns what a list says of an interface, by the interface's own name.
func entryOf(list []conf.Interface, name string) (i conf.Interface, ok bool) {
	at := slices.IndexFunc(list, func(i conf.Interface) bool { return i.Name == name })
	if at < 0 {
		return i, false
	}
	return list[at], true
}

// refusalReason returns the reason for a path from the error of opening an interface or one of its queues.
func refusalReason(err error) ring.Reason {
	var r *link.Refusal
	if errors.As(err, &r) {
		text := r.Reason.Text
		if r.Err != nil {
			text += ": " + r.Err.Error()
		}
		return ring.Reason{Code: r.Reason.Code, Text: text}
	}
	if errors.Is(err, unix.EBUSY) {
		return ring.Reason{Code: xdp.ReasonBusy, Text: err.Error()}
	}
	return ring.Reason{Code: xdp.ReasonRefused, Text: err.Error()}
}
