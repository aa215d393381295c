package xtreme

import (
	"errors"
	"log/slog"
	"math/bits"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/capture"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// interfaces are what the offloaded rings of an engine share: the mirror of the kernel's tables, and the exchange that has one steering
// program for each interface and hands datagrams from ring to ring. An interface is opened when a socket first needs it and closed with
// the last poller that uses it; mirror and exchange go with the last poller of the kind. All are of one network namespace, that
// of the thread which made the first socket that could be offloaded.
type interfaces struct {
	log     *slog.Logger
	named   []conf.Interface
	busy    bool // the ring runs the driver's poll
	mode    conf.XDPMode
	txRing  int           // entries of a queue's transmit ring; 0: the default
	capture *capture.File // nil: none

	mu       sync.Mutex
	mirror   *host.Host
	exchange *offload.Exchange
	users    int
	modes    map[string]string // by interface: native or generic
	refused  map[string]refused
	reported map[string]bool // interfaces whose choices were logged
	stamps   map[string]xdp.Time
}

// refused is an interface that another has: asking again costs the time for which it is tried.
type refused struct {
	reason ring.Reason
	until  time.Time
}

// refusedTime is how long a busy interface is not asked for again.
const refusedTime = time.Second

func newInterfaces(log *slog.Logger, s *conf.Settings) *interfaces {
	o := &s.Offload
	return &interfaces{log: log, named: o.Interfaces, busy: o.BusyPoll, mode: o.Mode, txRing: transmitRing(s.RingEntries), modes: map[string]string{},
		refused: map[string]refused{}, reported: map[string]bool{}, stamps: map[string]xdp.Time{}}
}

// transmitRing is the size of a transmit ring that has room for so many frames: a power of two, 8 or more; 0 is the default.
func transmitRing(entries int) int {
	if entries == 0 {
		return 0
	}
	return max(8, 1<<bits.Len(uint(entries-1)))
}

// join makes a poller one of the users, and opens the mirror for the first.
func (x *interfaces) join() (*host.Host, *offload.Exchange, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users == 0 {
		h, err := host.Open(host.Config{})
		if err != nil {
			return nil, nil, err
		}
		e, err := offload.NewExchange(offload.ExchangeConfig{Host: h, Open: x.open})
		if err != nil {
			return nil, nil, errors.Join(err, h.Close())
		}
		x.mirror, x.exchange = h, e
	}
	x.users++
	return x.mirror, x.exchange, nil
}

// leave undoes join. The poller's ring is closed.
func (x *interfaces) leave() error {
	x.mu.Lock()
	x.users--
	last, exchange, mirror := x.users == 0, x.exchange, x.mirror
	if last {
		clear(x.refused)
		clear(x.stamps)
	}
	x.mu.Unlock()
	if !last {
		return nil
	}
	return errors.Join(exchange.Close(), mirror.Close()) // without the lock, which open takes under the exchange's
}

// open is the exchange's way to a device: the interface with the queues that the engine's settings name, or all.
func (x *interfaces) open(name string, p nic.Patience) (nic.Device, error) {
	x.mu.Lock()
	mirror := x.mirror
	x.mu.Unlock()
	c := xdp.Config{Queues: queuesOf(x.named, name), Time: x.stampedBy(name), BusyPoll: x.busy, TxRing: x.txRing}
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
	return x.captured(d), nil
}

// stampBy notes what is to stamp the frames of an interface when it is opened: the most exact that was asked for. One that is open stays as
// it is; opened again, after it had gone, it has what was asked for meanwhile.
func (x *interfaces) stampBy(name string, t xdp.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stamps[name] = max(x.stamps[name], t)
}

func (x *interfaces) stampedBy(name string) xdp.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(x.stamps[name], xdp.TimePoll)
}

// stampedBy is what is to stamp frames, by a setting and what the socket asks that needs them first: who asks for a card's time asks that
// the card be read.
func stampedBy(t conf.TimeSource, c *ring.Config) xdp.Time {
	switch {
	case t == conf.TimeHardware || c.Timestamps && c.HardwareTimestamps != ring.HardwareTimestampsOff:
		return xdp.TimeHardware
	case t == conf.TimeXDP:
		return xdp.TimeXDP
	}
	return xdp.TimePoll
}

// refuse remembers that an interface was busy.
func (x *interfaces) refuse(name string, r ring.Reason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refused[name] = refused{r, time.Now().Add(refusedTime)}
}

// refusedNow is who had an interface a moment ago, if somebody did.
func (x *interfaces) refusedNow(name string) (ring.Reason, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, ok := x.refused[name]
	return r.reason, ok && time.Now().Before(r.until)
}

// announce logs, once per interface, how it was opened and which checksum rule holds there.
func (x *interfaces) announce(name, below string, sums choice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reported[name] {
		return
	}
	x.reported[name] = true
	x.log.Info("offloaded interface", "interface", name, "mode", x.modes[below], "checksums", sums.policy.String(), "because", sums.because)
}

// queuesOf are the queues that a list names for an interface; nil for all.
func queuesOf(list []conf.Interface, name string) []int {
	if i := slices.IndexFunc(list, func(i conf.Interface) bool { return i.Name == name }); i >= 0 {
		return list[i].Queues
	}
	return nil
}

// refusal is why an interface or a queue could not be had.
func refusal(err error) ring.Reason {
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
