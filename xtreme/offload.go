package xtreme

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/cure"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/udp"
)

// offloading is what a poller of kind offload has beside its kernel rings: a set of one ring over the interfaces that its sockets name. The
// set is made when the first socket can use it. Both sets share the poller's pool: a packet received on one can be sent on the other.
type offloading struct {
	poller      *Poller
	named       []conf.Interface // the only interfaces that may be opened; none: all
	interfaces  []conf.Interface // from PollerConfig: with the queues that this poller takes; none: any that are free
	share       nic.Share        // of queues that are not named
	checksum    conf.Checksum
	time        conf.TimeSource
	logic       ring.Logic
	notes       []ring.Reason     // about the memory of the buffers, for the paths
	mirror      *host.Host        // of interfaces.join; nil until a socket could be offloaded
	exchange    *offload.Exchange // likewise
	attachments []nic.Interface   // the interfaces that the ring has
	fill        int               // small buffers that may still be lent to cards for receiving

	driver ring.Driver              // of the set's ring; nil without one
	set    atomic.Pointer[ring.Set] // nil until the first socket is offloaded
}

// checksumChoice is the checksum policy of an interface, and why it is that, for path and log.
type checksumChoice struct {
	policy  udp.Policy
	because string
}

// newOffloading prepares a poller's offloading; nothing is opened before a socket asks for it. A field of the configuration that is given comes
// before the engine's setting.
func newOffloading(p *Poller, c *PollerConfig, logic ring.Logic, notes []ring.Reason) *offloading {
	s := &p.engine.settings.Offload
	f := &offloading{poller: p, named: s.Interfaces, interfaces: c.Interfaces, checksum: s.Checksum, time: s.Time, logic: logic, notes: notes}
	f.share = nic.Share(c.QueueShare)
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
		f.time = conf.TimeHardware // stamps of a card are chosen when an interface is opened, which a socket without stamps may do first
	}
	f.forgetRing()
	return f
}

// rings lists the offloaded ring, if there is one. Any goroutine.
func (f *offloading) rings() []*ring.Ring {
	if set := f.set.Load(); set != nil {
		return set.Rings()
	}
	return nil
}

// place decides for Poller.place whether a socket that may be offloaded can be: it returns the offloaded set, or the kernel's with the reasons.
// A socket with RequireOffload gets an error instead of the kernel's set.
func (f *offloading) place(s *ring.Socket) (*ring.Set, []ring.Reason, error) {
	why := f.unsupported(s)
	var offloaded *ring.Set
	if why == nil {
		offloaded, why = f.openFor(s)
	}
	if offloaded != nil && s.Kind() != ring.KindDatagram {
		if r := f.openTCP(); r.Code != "" {
			offloaded, why = nil, []ring.Reason{r}
		}
	}
	if offloaded != nil {
		return offloaded, why, nil
	}
	if ring.ConfigOf(s).RequireOffload {
		return nil, nil, notOffloadedError(why)
	}
	return f.poller.set, why, nil
}

// openFor opens the interfaces that a socket needs and the ring does not have yet. It returns the offloaded set if the socket can be carried,
// else nil, and the reasons for interfaces that could not be opened. One interface of several is enough, unless the socket has
// RequireOffload and names them (see SocketConfig.RequireOffload).
func (f *offloading) openFor(s *ring.Socket) (*ring.Set, []ring.Reason) {
	if why := f.openMirror(); why != nil {
		return nil, why
	}
	f.forgetClosedRing()
	snap := f.mirror.Snapshot()
	n, list, why := f.need(s, snap)
	if len(list) == 0 && slices.ContainsFunc(why, mayBeBehind) {
		f.mirror.Refresh(mirrorWait)
		snap = f.mirror.Snapshot()
		n, list, why = f.need(s, snap)
	}
	if len(list) == 0 && len(why) == 0 && s.Ring() != nil {
		return f.set.Load(), nil // it joined another group than the one it is bound to: no packet of that group is for it
	}
	opened := 0
	for i, index := range list {
		reasons := f.attach(snap, index, len(list)-i, stampSource(f.time, ring.ConfigOf(s)), openNow)
		if reasons == nil && s.Kind() != ring.KindDatagram {
			if r := offload.StreamRefusal(f.driver, index); r.Code != "" {
				reasons = []ring.Reason{r}
			}
		}
		if reasons == nil {
			opened++
		}
		why = append(why, reasons...)
	}
	wildcard := n.device == 0 && n.local.IsUnspecified() && len(n.groups) == 0
	if opened == 0 || ring.ConfigOf(s).RequireOffload && !wildcard && len(why) > 0 {
		return nil, why
	}
	return f.set.Load(), why
}

// mirrorWait is how long a call that opens a socket waits at the most for the mirror to read the kernel's tables again. One reading takes about
// a millisecond, and more with many routes.
const mirrorWait = 50 * time.Millisecond

// mayBeBehind reports whether a reason would not hold if an interface or address that has just changed were in the mirror, which follows the
// kernel with a delay.
func mayBeBehind(r ring.Reason) bool { return r.Code == "link.none" || r.Code == "link.down" }

// need returns what decides on the interfaces of a socket, and their indexes, with reasons for those that cannot be had.
func (f *offloading) need(s *ring.Socket, snap *host.Snapshot) (n interfaceNeed, list []int, why []ring.Reason) {
	n = interfaceNeed{device: s.Device(), local: s.LocalAddr().Addr(), groups: ring.OptionsOf(s).Groups, named: f.named,
		refused: f.poller.engine.warnOfInterface}
	if s.Kind() != ring.KindDatagram {
		if r := f.streamNeed(s, snap, &n); r.Code != "" {
			return n, nil, []ring.Reason{r}
		}
	}
	list, why = n.interfaces(snap)
	return n, list, why
}

// openMirror makes the poller a user of the engine's mirror and exchange, if it is none yet, and returns nil or why it cannot.
func (f *offloading) openMirror() []ring.Reason {
	if f.mirror != nil {
		return nil
	}
	m, x, err := f.poller.engine.nics.join()
	if err != nil {
		return []ring.Reason{{Code: "offload.no_mirror", Text: "the kernel's tables cannot be read: " + err.Error()}}
	}
	f.mirror, f.exchange = m, x
	return nil
}

// opening says who opens an interface.
type opening bool

const (
	openNow   opening = false // the caller, which may wait
	openLater opening = true  // a job: the caller is in Poll
)

// attach adds an interface to the ring, if it is not there yet, and returns nil or why it cannot. index is the interface's; left counts the
// interfaces still to be attached for this socket, this one included, which share the buffers that are free; stamps is what is to stamp its
// frames; when says whether the interface is open when attach returns. The caller has checked that the interface can be offloaded: the path of
// any other has no device.
func (f *offloading) attach(snap *host.Snapshot, index, left int, stamps xdp.Time, when opening) []ring.Reason {
	p := snap.Path(index)
	l, _ := snap.Link(index)
	if slices.ContainsFunc(f.attachments, func(h nic.Interface) bool { return h.On == l.Name }) {
		if when == openNow {
			offload.AwaitInterface(f.driver, l.Name)
		}
		return nil
	}
	nics := f.poller.engine.nics
	below := devices(snap, &p)
	if r, ok := nics.recentlyBusy(below[0]); ok && !isBond(snap, &p) {
		return []ring.Reason{r}
	}
	sums := f.chooseChecksum(&p)
	i := nic.Interface{Name: below[0], On: l.Name, VLAN: p.VLAN, Share: f.share, Checksum: sums.policy, Later: bool(when),
		Path: append(sums.reasons(l.Name), reversePathFilter(l.Name)...)}
	if isBond(snap, &p) {
		named, _ := entryOf(f.interfaces, l.Name)
		i.Name, i.Bond, i.Queues = l.Name, true, named.Queues
	} else {
		i.Queues, _ = queuesOf(f.interfaces, snap, i.Name)
	}
	if len(i.Queues) > 0 {
		r, left := f.queuesLeftOut(snap, below, i.Queues)
		if !left {
			return []ring.Reason{r}
		}
		if r.Code != "" {
			i.Path = append(i.Path, link.Reason(r))
		}
	}
	// Another VLAN of an interface or bond that the ring has already needs no buffers: its frames come by the same queues.
	queues := 0
	if !slices.ContainsFunc(f.attachments, func(h nic.Interface) bool {
		return h.Name == i.Name || h.Bond && i.Bond && f.sameBond(snap, h, below)
	}) {
		var why ring.Reason
		if i.Fill, queues, why = f.fillShare(snap, &i, below, left, when); why.Code != "" {
			return []ring.Reason{why}
		}
	}
	for _, name := range below {
		nics.stampBy(name, stamps)
	}
	if err := f.addToRing(i); err != nil {
		why := refusalReason(err)
		f.poller.engine.warnCurable([]ring.Reason{why}, cure.Place{Interface: below[0]})
		var whole *link.Refusal // the interface is busy; without it, a queue that another ring of this process has
		if errors.As(err, &whole) && why.Code == xdp.ReasonBusy {
			nics.noteBusy(below[0], why)
		}
		return []ring.Reason{why}
	}
	f.attachments = append(f.attachments, i)
	f.forgetReasons(downReason(l.Name), missingReason(l.Name))
	f.fill -= i.Fill * queues
	f.poller.engine.warnOfLinks(l.Name, l.MTU, offload.LinkReasons(f.driver, index))
	nics.announce(l.Name, below[0], sums)
	if f.share.Of > 1 && when == openNow { // else another poller's opening is the cause, and it has told all
		f.poller.engine.openShares(f.poller, l.Name, below)
	}
	return nil
}

// forgetReasons removes reasons for an interface that the ring did not have from the paths of its sockets: the ring has it now.
func (f *offloading) forgetReasons(list ...ring.Reason) {
	for _, r := range f.rings() {
		_ = r.EachSocket(func(s *ring.Socket) { ring.ForgetPlaceReasons(s, list) }) // refused only to another goroutine than the owner's
	}
}

// queuesLeftOut returns the reason for the paths of sockets where the setting leaves out queues of devices that this poller names; zero where it
// leaves out none. left is false if it leaves out all of them on each device, and the reason then is that of a refusal.
func (f *offloading) queuesLeftOut(snap *host.Snapshot, devices []string, named []int) (r ring.Reason, left bool) {
	var some, all []string
	for _, device := range devices {
		opened := f.openedOf(snap, device, named)
		if len(opened) == len(named) {
			left = true
			continue
		}
		left = left || len(opened) > 0
		out := slices.DeleteFunc(slices.Clone(named), func(q int) bool { return slices.Contains(opened, q) })
		some = append(some, "queues "+numbers(out)+" of "+device)
		setting, _ := queuesOf(f.poller.engine.nics.named, snap, device)
		all = append(all, "of "+device+" SX_OFFLOAD_INTERFACES names queues "+numbers(setting)+", PollerConfig.Interfaces queues "+numbers(named))
	}
	switch {
	case !left:
		return ring.Reason{Code: xdp.ReasonRefused, Text: strings.Join(all, "; ") + ": none is in both lists"}, false
	case len(some) > 0:
		r = ring.Reason{Code: "offload.queues_left_out", Text: "SX_OFFLOAD_INTERFACES leaves out " + strings.Join(some, " and ") +
			", which PollerConfig.Interfaces names: what comes on them is the kernel's"}
	}
	return r, left
}

// openedOf returns those of the queues named for a device that the setting does not leave out.
func (f *offloading) openedOf(snap *host.Snapshot, device string, named []int) []int {
	setting, _ := queuesOf(f.poller.engine.nics.named, snap, device)
	if len(setting) == 0 {
		return named
	}
	return slices.DeleteFunc(slices.Clone(named), func(q int) bool { return !slices.Contains(setting, q) })
}

// numbers is a list of queues in order, as texts have it.
func numbers(list []int) string {
	var texts []string
	for _, q := range slices.Sorted(slices.Values(list)) {
		texts = append(texts, strconv.Itoa(q))
	}
	return strings.Join(texts, ", ")
}

// devices lists the names of the interfaces whose queues carry the frames of a path: one, or the members of a bond.
func devices(snap *host.Snapshot, p *host.Path) (names []string) {
	for _, index := range p.Attach {
		l, _ := snap.Link(index)
		names = append(names, l.Name)
	}
	return names
}

// isBond reports whether a path's frames are carried by the members of a bond, which may change while it is open.
func isBond(snap *host.Snapshot, p *host.Path) bool {
	l, _ := snap.Link(p.Attach[0])
	master, ok := snap.Link(l.Master)
	return ok && master.Kind == host.KindBond
}

// sameBond reports whether the interface h, which the ring has, is carried by the same members of a bond.
func (f *offloading) sameBond(snap *host.Snapshot, h nic.Interface, members []string) bool {
	l, ok := snap.LinkByName(h.On)
	if !ok {
		return false
	}
	p := snap.Path(l.Index)
	return slices.Equal(devices(snap, &p), members)
}

// fillShare returns how many small buffers each queue of a new interface may keep ready for its card to receive into, and how many queues
// there are. interfaces counts the interfaces that are about to be opened, this one included. why is not zero if too few buffers are left.
//
// All interfaces together get six sevenths of what receiving may take at the most: three quarters of the pool, unless VMA_TX_BUFS keeps
// more than an eighth of it for sending. Those opened now share four fifths of what is left of it, so that one that
// is opened later finds some; a bond's members share one interface's part. The settings may say less (VMA_RX_WRE). The number bounds how long
// the owner may pause without losing frames: 4,096 small buffers and one queue give 2,457, which is 102 ms at 24,000 frames a second.
func (f *offloading) fillShare(snap *host.Snapshot, i *nic.Interface, below []string, interfaces int, when opening) (each, queues int, why ring.Reason) {
	const most, least = 16384, 8 // package xdp's default, and the least that it accepts
	for _, name := range below {
		n := len(f.openedOf(snap, name, i.Queues))
		if len(i.Queues) == 0 {
			named, _ := queuesOf(f.poller.engine.nics.named, snap, name)
			n = len(named)
		}
		if n == 0 && when == openLater {
			n = f.poller.engine.nics.sharedQueues(name)
		} else if n == 0 {
			var err error
			if n, err = xdp.NumQueues(name); err != nil {
				return 0, 0, refusalReason(err)
			}
		}
		if len(i.Queues) == 0 {
			n = f.share.Count(n)
		}
		queues += n
	}
	n := f.fill * 4 / 5 / (max(queues, 1) * interfaces)
	if asked := f.poller.engine.settings.Offload.Fill; asked > 0 && n > asked {
		n = asked
	}
	if n < least {
		return 0, 0, ring.Reason{Code: "offload.no_buffers", Text: fmt.Sprintf(
			"%d queues of %s need more small buffers than the poller has left of %d for receiving", queues, i.Name, f.poller.pool.ReceiveShare(buffers.Small))}
	}
	return min(most, n), queues, ring.Reason{}
}

// chooseChecksum returns the checksum policy of an interface: the one that was asked for, or, by itself, strict, except where the peer is a
// kernel of this machine (loopback, veth), which leaves checksums for hardware to fill in.
func (f *offloading) chooseChecksum(p *host.Path) checksumChoice {
	switch f.checksum {
	case conf.ChecksumStrict:
		return checksumChoice{udp.Strict, "it was asked for"}
	case conf.ChecksumAcceptPartial:
		return checksumChoice{udp.AcceptPartial, "it was asked for"}
	case conf.ChecksumOff:
		return checksumChoice{udp.Off, "it was asked for"}
	}
	if p.LocalPeer {
		return checksumChoice{udp.AcceptPartial, p.Text + ", which leaves checksums unfinished"}
	}
	return checksumChoice{udp.Strict, p.Text}
}

// reasons lists what the paths of sockets say of the policy of the interface name: nothing where every checksum is verified.
func (c checksumChoice) reasons(name string) []link.Reason {
	switch c.policy {
	case udp.AcceptPartial:
		return []link.Reason{{Code: "checksum.accept_partial",
			Text: fmt.Sprintf("on %s this ring accepts a checksum that is only the pseudo header's: %s", name, c.because)}}
	case udp.Off:
		return []link.Reason{{Code: "checksum.off", Text: fmt.Sprintf("on %s this ring verifies no checksum: %s", name, c.because)}}
	}
	return nil
}

// addToRing adds an interface to the offloaded ring; the first interface makes the ring.
func (f *offloading) addToRing(i nic.Interface) error {
	if f.set.Load() != nil {
		return offload.AddInterface(f.driver, i)
	}
	p := f.poller
	made := offload.New(offload.Config{Drops: p.monitor.offloadDrops(), Exchange: f.exchange, Interfaces: []nic.Interface{i}, Fragment: true,
		ShadowEvery: p.engine.settings.ShadowRatio, ThreeTuple: p.engine.settings.Offload.ThreeTuple, Record: p.record,
		MTU: p.engine.settings.MTU, TTL: kernelTTL(), Sender: p.engine.kernelSends, LinkChanged: p.monitor.linkChanged(), Gather: p.engine.settings.Offload.Gather,
		TCP: f.streamOptions(), FlowRecord: f.flowRecord(), ConnectionThreeTuple: p.engine.settings.OwnTCP.ConnectionThreeTuple})
	sc := ring.SetConfig{Transport: f.transport(), Pool: p.pool, Kind: string(conf.RingOffload), Reasons: f.notes, Logic: f.logic,
		OneRing: offload.OneRing, Place: p.place, Siblings: p.Rings, Changed: p.engine.rings.onRingChanged, Trace: p.tracer.trace,
		Driver: func(c ring.DriverConfig) (d ring.Driver, err error) {
			d, err = made(c)
			f.driver = d
			return d, err
		}}
	p.monitor.configure(&sc, p.engine.socketReport)
	set, err := ring.NewSet(sc)
	if err == nil {
		_, err = set.NewRing()
	}
	p.pool.SetReturnCallback(p.wakeForBuffer) // NewSet has made it wake the rings of its own set alone
	if err == nil {
		f.set.Store(set)
	}
	return err
}

// forgetRing forgets a ring that was closed, with its interfaces: cards may have their part of the small buffers again.
func (f *offloading) forgetRing() {
	f.set.Store(nil)
	f.attachments, f.driver, f.fill = nil, nil, f.poller.pool.ReceiveShare(buffers.Small)*6/7
}

// forgetClosedRing is forgetRing for a ring that the application itself has closed.
func (f *offloading) forgetClosedRing() {
	if set := f.set.Load(); set != nil && len(set.Rings()) == 0 {
		f.forgetRing()
	}
}

// mayClose returns the error with which the offloaded ring cannot be closed now; nil if it can.
func (f *offloading) mayClose() error {
	if set := f.set.Load(); set != nil {
		return set.MayClose()
	}
	return nil
}

// close closes the offloaded ring and ends the poller's use of the engine's interfaces. Owner only.
func (f *offloading) close() (err error) {
	if set := f.set.Load(); set != nil {
		err = set.Close()
	}
	f.forgetRing()
	if f.mirror != nil {
		f.mirror = nil
		err = errors.Join(err, f.poller.engine.nics.leave())
	}
	return err
}

// notOffloadedError is the error of a socket with RequireOffload that cannot be offloaded, with all reasons and the code of the first one.
func notOffloadedError(why []ring.Reason) error {
	e := &ring.FeatureError{Feature: "offload required", Code: "offload.unknown"}
	for i, r := range why {
		if i == 0 {
			e.Code = r.Code
		}
		e.Feature += " · " + r.String()
	}
	return e
}

// checkOffloaded returns an error if a socket with RequireOffload, which has its ring by now, is not offloaded, or if the kernel still
// receives a part of its packets because an interface did not accept its flow (xdp.not_claimed).
func checkOffloaded(s *Socket) error {
	p := s.Path()
	unclaimed := slices.ContainsFunc(p.Reasons, func(r ring.Reason) bool { return r.Code == "xdp.not_claimed" })
	if p.Tier == ring.TierBypass && p.Lost == "" && !unclaimed {
		return nil
	}
	return notOffloadedError(p.Reasons)
}
