package xtreme

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// offloading is what a poller of kind offload has beside its kernel rings: a set of one ring over the interfaces that its sockets name,
// made when the first socket can use it. Both sets share the poller's pool: a packet received on one can be sent on the other.
type offloading struct {
	poller      *Poller
	named       []conf.Interface // those that may be opened; none: all
	interfaces  []conf.Interface // with the queues that are this poller's; none: those that nobody has
	checksum    conf.Checksum
	time        conf.TimeSource
	logic       ring.Logic
	notes       []ring.Reason // of the region
	mirror      *host.Host    // nil until a socket could be offloaded
	exchange    *offload.Exchange
	attachments []nic.Interface
	fill        int // small buffers that cards may still be given

	driver ring.Driver
	set    atomic.Pointer[ring.Set]
}

// choice is a checksum policy and why it is that.
type choice struct {
	policy  udp.Policy
	because string
}

func newOffloading(p *Poller, c *PollerConfig, logic ring.Logic, notes []ring.Reason) *offloading {
	s := &p.engine.settings.Offload
	f := &offloading{poller: p, named: s.Interfaces, interfaces: c.Interfaces, checksum: s.Checksum, time: s.Time, logic: logic, notes: notes}
	if len(c.Interfaces) > 0 {
		f.named = c.Interfaces
	}
	if c.Checksum != "" {
		f.checksum = c.Checksum
	}
	switch {
	case c.OffloadTime != "":
		f.time = c.OffloadTime
	case p.engine.settings.CardTime != 0:
		f.time = conf.TimeHardware // the socket that opens an interface need not be the one that asks for its times
	}
	f.drop()
	return f
}

func (f *offloading) rings() []*ring.Ring {
	if set := f.set.Load(); set != nil {
		return set.Rings()
	}
	return nil
}

// place is what Poller.place answers where no rule does.
func (f *offloading) place(s *ring.Socket) (*ring.Set, []ring.Reason, error) {
	why := f.never(s)
	var offloaded *ring.Set
	if why == nil {
		offloaded, why = f.carry(s)
	}
	if offloaded != nil {
		return offloaded, why, nil
	}
	if ring.ConfigOf(s).RequireOffload {
		return nil, nil, required(why)
	}
	return f.poller.set, why, nil
}

// never is why a socket cannot be offloaded whatever interfaces there are.
func (f *offloading) never(s *ring.Socket) []ring.Reason {
	switch {
	case s.Kind() != ring.KindDatagram:
		return []ring.Reason{noTCP}
	case ring.HandleOf(s).Adopted:
		return []ring.Reason{{Code: "offload.adopted",
			Text: "a socket made elsewhere may have options and memberships that nobody can ask for: the kernel carries it"}}
	case !s.LocalAddr().Addr().Is4():
		return []ring.Reason{{Code: "offload.no_ipv6", Text: "our own stack speaks IPv4: the kernel carries the socket"}}
	}
	return nil
}

var noTCP = ring.Reason{Code: "offload.no_tcp", Text: "our own stack speaks UDP: the kernel carries TCP and unix-domain sockets"}

// carry opens what the socket needs and is not open yet. The set is nil when it gets nothing: or, where all is required, not all.
func (f *offloading) carry(s *ring.Socket) (*ring.Set, []ring.Reason) {
	if f.mirror == nil {
		m, x, err := f.poller.engine.nics.join()
		if err != nil {
			return nil, []ring.Reason{{Code: "offload.no_mirror", Text: "the kernel's tables cannot be read: " + err.Error()}}
		}
		f.mirror, f.exchange = m, x
	}
	if set := f.set.Load(); set != nil && len(set.Rings()) == 0 {
		f.drop() // the application closed the ring itself
	}
	snap := f.mirror.Snapshot()
	w := wish{device: s.Device(), local: s.LocalAddr().Addr(), groups: ring.OptionsOf(s).Groups, named: f.named}
	list, why := w.wanted(snap)
	if len(list) == 0 && len(why) == 0 && s.Ring() != nil {
		return f.set.Load(), nil // joins a group that it is not bound to: no packet will come of it
	}
	had := 0
	for i, index := range list {
		reasons := f.have(snap, index, len(list)-i, stampedBy(f.time, ring.ConfigOf(s)))
		if reasons == nil {
			had++
		}
		why = append(why, reasons...)
	}
	everywhere := w.device == 0 && w.local.IsUnspecified() && len(w.groups) == 0
	if had == 0 || ring.ConfigOf(s).RequireOffload && !everywhere && len(why) > 0 {
		return nil, why
	}
	return f.set.Load(), why
}

// have makes an interface one of the ring's. left is how many are still to be opened for this socket, itself included; stamps is what is to
// stamp its frames, if it is opened.
func (f *offloading) have(snap *host.Snapshot, index, left int, stamps xdp.Time) []ring.Reason {
	p := snap.Path(index)
	l, _ := snap.Link(index)
	if slices.ContainsFunc(f.attachments, func(h nic.Interface) bool { return h.On == l.Name }) {
		return nil
	}
	nics := f.poller.engine.nics
	below := devices(snap, &p)
	if r, ok := nics.refusedNow(below[0]); ok && !bonded(snap, &p) {
		return []ring.Reason{r}
	}
	sums := f.choose(&p)
	i := nic.Interface{Name: below[0], On: l.Name, VLAN: p.VLAN, Queues: queuesOf(f.interfaces, below[0]), Checksum: sums.policy,
		Path: append(sums.reasons(l.Name), reversePathFilter(l.Name)...)}
	if bonded(snap, &p) {
		i.Name, i.Bond, i.Queues = l.Name, true, queuesOf(f.interfaces, l.Name)
	}
	// Frames of another tag come by links that are there already.
	queues := 0
	if !slices.ContainsFunc(f.attachments, func(h nic.Interface) bool {
		return h.Name == i.Name || h.Bond && i.Bond && f.sameBond(snap, h, below)
	}) {
		var why ring.Reason
		if i.Fill, queues, why = f.share(&i, below, left); why.Code != "" {
			return []ring.Reason{why}
		}
	}
	for _, name := range below {
		nics.stampBy(name, stamps)
	}
	if err := f.use(i); err != nil {
		why := refusal(err)
		var whole *link.Refusal // of the interface, not of a queue that another ring of this process has
		if errors.As(err, &whole) && why.Code == xdp.ReasonBusy {
			nics.refuse(below[0], why)
		}
		return []ring.Reason{why}
	}
	f.attachments = append(f.attachments, i)
	f.fill -= i.Fill * queues
	nics.announce(l.Name, below[0], sums)
	return nil
}

// devices are the names of the interfaces whose queues carry the frames.
func devices(snap *host.Snapshot, p *host.Path) (names []string) {
	for _, index := range p.Attach {
		l, _ := snap.Link(index)
		names = append(names, l.Name)
	}
	return names
}

// bonded reports whether they are the members of a bond, which come and go.
func bonded(snap *host.Snapshot, p *host.Path) bool {
	l, _ := snap.Link(p.Attach[0])
	master, ok := snap.Link(l.Master)
	return ok && master.Kind == host.KindBond
}

// sameBond reports whether a part's frames come by these members.
func (f *offloading) sameBond(snap *host.Snapshot, h nic.Interface, members []string) bool {
	l, ok := snap.LinkByName(h.On)
	if !ok {
		return false
	}
	p := snap.Path(l.Index)
	return slices.Equal(devices(snap, &p), members)
}

// share is how many buffers each queue of an interface may keep ready for its card. All cards together get three quarters of the pool at most;
// an interface gets its part of four fifths of what is left, so that one that comes later finds some, and a bond's members share it. The
// settings may say less (VMA_RX_WRE). What lies ready is what a pause of the goroutine may last: with 4,096 small buffers and one interface
// of one queue 2,457, which is 102 ms of 24,000 frames a second.
func (f *offloading) share(i *nic.Interface, below []string, interfaces int) (each, queues int, why ring.Reason) {
	const most, least = 16384, 8 // as package xdp has it by default; and the least it takes
	for _, name := range below {
		n := len(i.Queues)
		if n == 0 {
			n = len(queuesOf(f.poller.engine.nics.named, name))
		}
		if n == 0 {
			var err error
			if n, err = xdp.NumQueues(name); err != nil {
				return 0, 0, refusal(err)
			}
		}
		queues += n
	}
	n := f.fill * 4 / 5 / (queues * interfaces)
	if asked := f.poller.engine.settings.Offload.Fill; asked > 0 && n > asked {
		n = asked
	}
	if n < least {
		return 0, 0, ring.Reason{Code: "offload.no_buffers", Text: fmt.Sprintf(
			"%d queues of %s need more small buffers than the poller has left of %d", queues, i.Name, f.poller.pool.Layout().SmallCount)}
	}
	return min(most, n), queues, ring.Reason{}
}

// choose is the checksum policy of an interface.
func (f *offloading) choose(p *host.Path) choice {
	switch f.checksum {
	case conf.ChecksumStrict:
		return choice{udp.Strict, "it was asked for"}
	case conf.ChecksumAcceptPartial:
		return choice{udp.AcceptPartial, "it was asked for"}
	case conf.ChecksumOff:
		return choice{udp.Off, "it was asked for"}
	}
	if p.LocalPeer {
		return choice{udp.AcceptPartial, p.Text + ", which leaves checksums unfinished"}
	}
	return choice{udp.Strict, p.Text}
}

// reasons are what a socket's path says of the policy.
func (c choice) reasons(name string) []link.Reason {
	switch c.policy {
	case udp.AcceptPartial:
		return []link.Reason{{Code: "checksum.accept_partial",
			Text: fmt.Sprintf("on %s a checksum that is only the pseudo header's is accepted: %s", name, c.because)}}
	case udp.Off:
		return []link.Reason{{Code: "checksum.off", Text: fmt.Sprintf("on %s no checksum is verified: %s", name, c.because)}}
	}
	return nil
}

// use gives an interface to the ring, which is made with the first.
func (f *offloading) use(i nic.Interface) error {
	if f.set.Load() != nil {
		return offload.AddInterface(f.driver, i)
	}
	p := f.poller
	made := offload.New(offload.Config{Exchange: f.exchange, Interfaces: []nic.Interface{i}, Fragment: true,
		ShadowEvery: p.engine.settings.ShadowRatio, ThreeTuple: p.engine.settings.Offload.ThreeTuple,
		MTU: p.engine.settings.MTU, Sender: p.engine.askSender, Gather: p.engine.settings.Offload.Gather})
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: p.pool, Kind: string(conf.RingOffload), Reasons: f.notes, Logic: f.logic,
		OneRing: offload.OneRing, Place: p.place, Siblings: p.Rings, Changed: p.engine.rings.change,
		Driver: func(c ring.DriverConfig) (d ring.Driver, err error) {
			d, err = made(c)
			f.driver = d
			return d, err
		}})
	if err == nil {
		_, err = set.NewRing()
	}
	p.pool.SetReturnCallback(p.wakeOwner)
	if err == nil {
		f.set.Store(set)
	}
	return err
}

// drop forgets a ring that was closed, and its interfaces with it.
func (f *offloading) drop() {
	f.set.Store(nil)
	f.attachments, f.driver, f.fill = nil, nil, f.poller.pool.Layout().SmallCount*3/4
}

// mayClose reports whether the ring can be closed now.
func (f *offloading) mayClose() error {
	if set := f.set.Load(); set != nil {
		return set.MayClose()
	}
	return nil
}

// close ends the ring and the poller's use of what all share. The poller's goroutine.
func (f *offloading) close() (err error) {
	if set := f.set.Load(); set != nil {
		err = set.Close()
	}
	f.drop()
	if f.mirror != nil {
		f.mirror = nil
		err = errors.Join(err, f.poller.engine.nics.leave())
	}
	return err
}

// required is the error of a socket that had to be offloaded and is not.
func required(why []ring.Reason) error {
	e := &ring.FeatureError{Feature: "offload required", Code: "offload.unknown"}
	for i, r := range why {
		if i == 0 {
			e.Code = r.Code
		}
		e.Feature += " · " + r.String()
	}
	return e
}

// carried reports why a socket that had to be offloaded is not, if so.
func carried(s *Socket) error {
	p := s.Path()
	lost := slices.ContainsFunc(p.Reasons, func(r ring.Reason) bool { return r.Code == "xdp.not_claimed" })
	if p.Tier == ring.TierBypass && !lost {
		return nil
	}
	return required(p.Reasons)
}
