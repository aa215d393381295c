package offload

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
	"github.com/socketxtreme/socketxtreme/udp"
)

// What this kind of driver alone can do.
var (
	_ ring.ProtocolDriver = (*driver)(nil)
	_ ring.PathReporter   = (*driver)(nil)
	_ ring.CounterSource  = (*driver)(nil)
	_ stack.Host          = (*driver)(nil)
)

// New returns the Driver of a ring.SetConfig. It makes one driver: the links are there once, and a second ring of the set is refused with
// the reason ring.no_steering, which SetConfig.OneRing prevents.
func New(c Config) func(ring.DriverConfig) (ring.Driver, error) {
	made := false
	if x := c.Exchange; x != nil && x.config.MemoryHost != nil {
		x.config.MemoryHost.streams = c.TCP != nil // from here on its sockets may be opened
	}
	return func(dc ring.DriverConfig) (ring.Driver, error) {
		if made {
			return nil, &ring.FeatureError{Feature: OneRing.Text, Code: OneRing.Code}
		}
		d, err := open(c, dc)
		if err != nil {
			return nil, err
		}
		made = true
		return d, nil
	}
}

// open makes the driver: tables, stack, transport, the descriptors that a sleep waits on, and the interfaces of the configuration. On an error
// nothing is left open.
func open(c Config, dc ring.DriverConfig) (*driver, error) {
	if dc.Pool == nil {
		return nil, fmt.Errorf("offload: pool is nil: %w", unix.EINVAL)
	}
	isReal := c.Clock == nil // asked before complete fills it in
	if err := c.complete(); err != nil {
		return nil, err
	}
	d := &driver{config: c, pool: dc.Pool, turn: turnClock{source: c.Clock, isReal: isReal}, flights: flights{pool: dc.Pool},
		sleep:  sleeper{isVirtual: c.Sleep != nil, woken: c.Woken},
		below:  newBelow(&c.Exchange.config),
		claims: steering.NewTable(),
		others: otherSockets{known: &shadow.OtherSockets{}, watcher: c.Exchange.watcher}, tcp: streamPart{icmp: icmpErrors{fd: -1}}}
	random := c.Random
	if random == nil {
		random = rand.Uint64
	}
	sc := ip.Config{Pool: dc.Pool, Random: random, MTU: c.MTU, Drops: c.Drops}
	uc := udp.Config{Fragment: c.Fragment}
	if c.Sender != nil {
		sc.SendViaKernel = d.isDeclined
	}
	sc.LoopViaKernel, sc.Cut = d.needsKernel, d.flights.cut
	if d.below.memoryHost != nil {
		sc.LocalHost = d.below.memoryHost.tables
	} else {
		sc.Host = d.below.mirror
	}
	if c.TCP != nil {
		d.pool.KeepForSegments(buffers.Small) // before other rings see the pool
	}
	if err := c.Exchange.enter(d); err != nil {
		return nil, err
	}
	uc.Directory, uc.Number = c.Exchange.directory, d.number
	d.nics = nic.New(nic.Config{Table: c.Exchange.nics, Ring: d.number, Pool: d.pool, Clock: d.turn.source, Wake: d.sleep.wakeOwner, Events: attachments{d},
		Background: d.below.system.Background})
	d.tcp.claims = streamClaims{table: d.claims, nics: d.nics, threeTuple: c.ConnectionThreeTuple}
	// From here on leave undoes what was made. Close, which closes descriptors as well, does so once they are open.
	var err error
	if d.ip, err = ip.New(sc); err == nil {
		d.udp, err = udp.New(d.ip, uc)
	}
	if err == nil {
		d.transport = stack.New(stack.Config{Host: d, Below: d.below.transport, IP: d.ip, UDP: d.udp, Pool: d.pool, Now: &d.turn.now})
	}
	if err == nil && c.TCP != nil {
		err = d.registerTCP()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("offload: %w", err), d.leave())
	}
	d.turn.read()
	d.turn.readTAI()
	if err := d.openDescriptors(); err != nil {
		return nil, errors.Join(fmt.Errorf("offload: %w", err), d.leave())
	}
	for _, i := range c.Interfaces {
		if err := d.nics.Add(i); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	d.below.watch(func(news host.Change) { // last: the mirror's goroutine wakes the ring, and Close ends it
		if d.sleep.announced.Load() && (news.Tables || d.sleep.awaits(news.Neighbours)) {
			d.sleep.wake()
		}
	})
	return d, nil
}

// Kind is "offload".
func (d *driver) Kind() string { return "offload" }

// caps are what every ring of this kind can do.
const caps = ring.CapZeroCopySend | ring.CapSharedMulticast | ring.CapPathChanges

// streamCaps are what it can do beside that when it carries TCP.
const streamCaps = ring.CapWindowAtRelease | ring.CapOutPerAck

// Caps: packets given to SendPacket leave from their own memory, members of a group share a packet, and links may go and come back.
func (d *driver) Caps() ring.Caps {
	if d.config.TCP != nil {
		return caps | streamCaps
	}
	return caps
}

// Why returns the reason why the driver does not have capability c; empty if it has.
func (d *driver) Why(c ring.Caps) ring.Reason {
	switch {
	case d.Caps().Has(c):
		return ring.Reason{}
	case c == ring.CapThreadBound:
		return ring.Reason{Code: "offload.any_thread", Text: "a link belongs to a goroutine, which may change its thread"}
	case c == ring.CapWindowAtRelease, c == ring.CapOutPerAck:
		return ring.Reason{Code: "offload.no_tcp", Text: "this ring was made for UDP alone, which has neither windows nor acknowledgements"}
	case c == ring.CapTxTimestamps:
		return ring.Reason{Code: "offload.no_transmit_time", Text: "AF_XDP tells when a frame left only through its transmit metadata " +
			"(Linux 6.8, few drivers), which this link does not use; without it a frame is known to have left, not when"}
	case c == ring.CapLaunchTime:
		return ring.Reason{Code: "offload.no_launch_time", Text: "a launch time needs AF_XDP's transmit metadata (Linux 6.15, few cards), " +
			"which this link does not use: the ring paces by itself"}
	case c == ring.CapBackgroundProgress:
		return ring.Reason{Code: "offload.owner_only", Text: "the stack has no lock: its owner's Poll advances it"}
	}
	return ring.Reason{Code: "offload.unknown", Text: "an offloaded ring does not know " + c.String()}
}

// WhySocket returns why a stream that the kernel carries does not have a capability that the stack has; empty for other sockets.
func (d *driver) WhySocket(s *ring.Socket, c ring.Caps) ring.Reason {
	switch c {
	case ring.CapZeroCopySend, ring.CapWindowAtRelease, ring.CapOutPerAck:
		if d.hasStream(s) && isKernels(s) && d.tcp.viaKernel.Driver != nil {
			return d.tcp.viaKernel.Why(c)
		}
	}
	return ring.Reason{}
}

// HasBackground: frames may be on their way out, and neighbours may be asked for, without a socket.
func (d *driver) HasBackground() bool { return true }

// Bind: any thread will do.
func (d *driver) Bind() error { return nil }

// Close gives back what the driver holds and closes the links.
func (d *driver) Close() error {
	d.below.stopWatching()
	d.sleep.announced.Store(false) // jobs that end do not wake it
	d.sleep.mu.Lock()
	defer d.sleep.mu.Unlock()
	if d.sleep.isClosed {
		return fmt.Errorf("offload: close driver: %w", ring.ErrClosed)
	}
	d.sleep.isClosed = true
	d.dropUndelivered()
	d.udp.Close()
	if d.tcp.streams != nil {
		d.tcp.streams.ResetAll()
		d.tcp.streams.Output()
		_ = d.flushLinks()            // the resets leave if the links have room
		d.tcp.streams.ReleaseClaims() // while the devices, which have the claims, are open
	}
	d.ip.Close()
	err := d.leave()
	if d.tcp.streams != nil { // the links are closed: none of them reads the buffers any more
		d.tcp.streams.ReleaseAll()
	}
	d.flights.drop()
	err = errors.Join(err, d.tcp.viaKernel.close(&d.shadows.List), d.tcp.icmp.close(&d.shadows.List), d.tcp.closeRecord())
	d.shadows.Close()
	d.below.release()
	return errors.Join(err, d.sleep.close())
}

// leave closes the links, waits for jobs, and takes the driver out of its exchange.
func (d *driver) leave() error {
	err := d.nics.Close()
	d.ties.await()
	for i := range d.links {
		d.links[i].tap.Close()
	}
	d.config.Exchange.leave(d)
	return err
}
