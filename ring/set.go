package ring

import (
	"errors"
	"fmt"
	"slices"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// SetConfig is what a set is made from.
type SetConfig struct {
	Pool   *buffers.DriverPool
	Driver func(DriverConfig) (Driver, error) // makes the rings' drivers
	Kind   string                             // the kind of ring Driver makes, for paths of sockets that have no ring yet
	// Reasons are the better paths that were not taken for the whole set.
	Reasons []Reason
	Logic   Logic // ring allocation logic of sockets that do not ask for one
	Limit   int   // rings per interface; 0: no limit (VMA_RING_LIMIT_PER_INTERFACE)
	Entries int   // see DriverConfig
	Clock   clock.Source
	// Card opens the clock of an interface's network card, or says why it has none that stamps; nil asks the kernel,
	// which also says how far TAI is ahead (HardwareTimestampsPTP); with Card only Config.TAIOffset does.
	Card func(index int) (CardClock, error)
	// Transport is where the sockets are made: the kernel (kernel.New), a simulated world, or memory between processes. It serves this set
	// only, and with PlaceStreams streams that another set of the owner has made.
	Transport Transport
	// Place, for an owner with two sets on one pool, is asked when a socket is about to get its ring: its kind, addresses, device and
	// groups are known then. It answers with the set that carries it, and with the reasons why not a better one, which the
	// socket's path shows. It is asked again before a socket that a StackTransport carries joins a group, which alone is in its
	// SocketOptions.Groups then; only the reasons count then. The sets of one owner have the same. An error fails the call.
	Place func(*Socket) (*Set, []Reason, error)
	// PlaceStreams has Place be asked about a stream before its transport connects it: the Transport of the set that carries it begins the
	// connection then. Its local address is not known if it was not bound.
	PlaceStreams bool
	// OneRing, when its Code is not empty, makes every socket of the set share one ring, whatever its allocation logic; those whose
	// logic would have given them another show it as a reason.
	OneRing Reason
	// Siblings lists the rings of all sets of the owner, where it has several: what one of them knows of its goroutine all do. Any goroutine.
	Siblings func() []*Ring
	// Monitor is where other processes see the counters, and Epoch numbers the intervals of its peaks; nil: nowhere. Loop is shared by the
	// sets of one owner; nil: gaps between polls are not looked for.
	Monitor Monitor
	Epoch   *uint64
	Loop    *Loop
	// Trace is told of calls and packets of sockets, for a log; nil: none.
	Trace *Trace
	// Changed is notified of each ring that was made and of each that was closed, on the goroutine that did it.
	Changed func(r *Ring, open bool)
}

// NewSet makes an empty set.
func NewSet(c SetConfig) (*Set, error) {
	switch {
	case c.Pool == nil:
		return nil, badArgument("new set", "pool", nil)
	case c.Driver == nil:
		return nil, badArgument("new set", "driver", nil)
	case c.Transport == nil:
		return nil, badArgument("new set", "transport", nil)
	case c.Limit < 0:
		return nil, badArgument("new set", "ring limit per interface", c.Limit)
	case c.Entries < 0:
		return nil, badArgument("new set", "entries", c.Entries)
	}
	if err := c.Logic.Validate(); err != nil {
		return nil, err
	}
	real := c.Clock == nil
	if real {
		c.Clock = clock.Now
	}
	set := &Set{config: c, realClock: real, kind: c.Kind, reasons: slices.Clone(c.Reasons),
		withoutRing: map[*Socket]struct{}{}, sockets: socketTable{current: -1}, actives: []*activeState{{}}, settings: []*settings{{}}}
	set.number = sets.add(set)
	set.publish()
	c.Pool.SetReturnCallback(set.WakeIfSleeping)
	return set, nil
}

// Rings lists the rings as of now; the slice must not be changed. Any goroutine.
func (set *Set) Rings() []*Ring { return *set.published.Load() }

// NewRing makes a ring that no socket has asked for yet; the first that needs one takes it over. For owners that want nothing
// left to be made on the path.
func (set *Set) NewRing() (*Ring, error) {
	if err := set.BeginCall(); err != nil {
		return nil, &OpError{Op: "new ring", Err: err}
	}
	k := Key{Logic: set.config.Logic}
	switch k.Logic {
	case PerCore, PerCoreAttach:
		k.Value = uint64(sys.CPU())
	}
	if set.config.OneRing.Code != "" {
		k = oneRing(k)
	}
	return set.newRing(k)
}

// Pool is the buffer pool of the set's rings. Any goroutine.
func (set *Set) Pool() *buffers.DriverPool { return set.config.Pool }

// NewSocket makes a socket of kind Stream or Datagram and of family IPv4 or IPv6. It has no ring yet. The rest of the
// owner's calls apply: Bind, Listen, Connect.
func (set *Set) NewSocket(kind SocketKind, family Family, c Config) (*Socket, error) {
	if err := set.BeginCall(); err != nil {
		return nil, &OpError{Op: "socket", Err: err}
	}
	if kind != KindStream && kind != KindDatagram {
		return nil, badArgument("socket", "kind", kind)
	}
	if family != IPv4 && family != IPv6 { // NewUnix makes those of UnixDomain
		return nil, badArgument("socket", "family", family)
	}
	return set.openSocket(kind, family, c)
}

// openSocket has the transport make a socket.
func (set *Set) openSocket(kind SocketKind, family Family, c Config) (*Socket, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	conn, err := set.config.Transport.Open(kind, family, &c)
	if err != nil {
		return nil, &OpError{Op: "socket", Err: err}
	}
	hasNoZeroCopy := family == UnixDomain // the kernel has it for TCP and UDP
	return set.newSocket(Handle{Conn: conn, Kind: kind, Copies: hasNoZeroCopy}, family, c), nil
}

// newSocket makes a socket without a ring. It does not read before it has one (stopEnded), and keeps the active state that it starts with.
func (set *Set) newSocket(h Handle, family Family, c Config) *Socket {
	s := set.sockets.add()
	s.maker, s.handle, s.family, s.id, s.userData, s.stops = set.number, h, family, int32(h.Conn), uint64(h.Conn), stopEnded
	s.settings.Store(set.addSettings(&settings{config: c}))
	a := s.activate()
	a.own, a.set, a.options = true, set, defaultSocketOptions
	s.setTransport(set.config.Transport, h.Conn)
	s.handle.Class = c.streamClass()
	if h.Kind == KindDatagram {
		s.handle.Class = c.datagramClass(set.config.Pool)
	}
	if family == UnixDomain {
		a.unix = &unixEnd{}
	}
	set.withoutRing[s] = struct{}{}
	return s
}

// MayClose reports whether Close would be refused as a whole: ErrOwner for rings of another goroutine, EDEADLK inside a callback of one of them.
// An owner of several sets asks all of them before it closes the first.
func (set *Set) MayClose() error {
	for _, r := range set.rings {
		if err := r.mayClose(); err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return nil
}

// Close closes every ring and the sockets that have none, or nothing: see MayClose. What protocols remember beyond their sockets ends with the
// rings: see Ring.Close. Owner, or anyone before the first Poll.
func (set *Set) Close() error {
	if err := set.MayClose(); err != nil {
		return err
	}
	var err error
	for len(set.rings) > 0 {
		r := set.rings[0]
		err = errors.Join(err, r.Close())
		set.remove(r) // a Close that failed early has not
	}
	set.closed.Store(true)
	for s := range set.withoutRing {
		err = errors.Join(err, s.closeWithoutRing())
	}
	set.unregister()
	return err
}

// unregister takes a closed set out of the registry when its last socket is gone: sockets that it made may be on rings of another set of the
// owner, which is closed later.
func (set *Set) unregister() {
	if set.closed.Load() && set.sockets.open == 0 {
		sets.close(set.number, closedSet)
	}
}

// remove takes a ring that was closed off the set's list.
func (set *Set) remove(r *Ring) {
	if i := slices.Index(set.rings, r); i >= 0 {
		set.rings = slices.Delete(set.rings, i, i+1)
		set.publish()
		if f := set.config.Changed; f != nil {
			const open = false
			f(r, open)
		}
	}
}

// WakeIfSleeping wakes the owner if it sleeps: a lent buffer came back. An owner with two sets on one pool makes it part of the pool's
// return callback. Any goroutine.
func (set *Set) WakeIfSleeping() {
	for _, r := range set.Rings() {
		r.inbox.wakeIfSleeping()
	}
}

// newRing makes a ring, with a driver of its own, for a key.
func (set *Set) newRing(key Key) (*Ring, error) {
	drv, err := set.config.Driver(DriverConfig{Pool: set.config.Pool, Entries: set.config.Entries})
	if err != nil {
		return nil, fmt.Errorf("ring: make %s ring: %w", set.kind, err)
	}
	r := &Ring{drv: drv, pool: set.config.Pool, clock: set.config.Clock, set: set, key: key, loop: set.config.Loop}
	if r.trace = set.config.Trace; r.trace == nil {
		r.trace = noTrace
	}
	r.readTraceLevel()
	r.number = rings.add(r)
	r.openPages()
	r.protocol, _ = drv.(ProtocolDriver)
	r.deadlines = deadlines{wheel: wheel.New(r.clock(), 0), expired: r.timerExpired, isReal: set.realClock}
	r.sink.ring = r
	r.inbox.wakeDriver = drv.Wake
	set.rings = append(set.rings, r)
	set.publish()
	if f := set.config.Changed; f != nil {
		const open = true
		f(r, open)
	}
	return r, nil
}

// publish stores a copy of the list of rings for other goroutines (Rings, WakeIfSleeping).
func (set *Set) publish() {
	rings := slices.Clone(set.rings)
	set.published.Store(&rings)
}

// placement is which set carries a socket that has no ring yet, and why not a better one.
type placement struct {
	set *Set
	why []Reason
}

// placement is the socket's, which has no ring. restore makes it what it was.
func (s *Socket) placement() placement {
	return placement{s.activate().set, s.settingsRecord().placeReasons}
}

func (s *Socket) restore(p placement) {
	s.activate().set, s.settingsRecord().placeReasons = p.set, p.why
}

// joinRing gives the socket its ring, by the allocation logic, if it has none. On an error the socket is as before.
func (s *Socket) joinRing() error {
	if s.ring() != nil {
		return nil
	}
	from := s.placement()
	if err := s.chooseSet(); err != nil {
		return err
	}
	return s.joinChosenRing(from)
}

// joinChosenRing is joinRing after chooseSet; from is where the socket was before.
func (s *Socket) joinChosenRing(from placement) error {
	a := s.activate()
	key := s.key()
	r, err := s.set().ringFor(key)
	if err == nil {
		err = r.check()
	}
	if err == nil {
		a.needsOwnRing = a.set.config.OneRing.Code != "" && r.needsOwnRing(key)
		err = r.admit(s)
	}
	if err != nil {
		s.restore(from)
		return err
	}
	delete(from.set.withoutRing, s)
	a.set = nil
	return nil
}

// leaveRing undoes joinRing for a socket of which the driver has nothing armed.
func (s *Socket) leaveRing() {
	r := s.ring()
	s.closeAccount()
	s.handle.Account = 0
	s.closeShaper()
	r.removeSocket(s)
	s.setRing(nil)
	s.activate().set = r.set
	r.set.withoutRing[s] = struct{}{}
}

// chooseSet asks SetConfig.Place which set carries the socket, and keeps the reasons for its path. A socket that has its ring already stays
// there: only reasons are added. The sets share a pool, so that a socket may change from one to the other before it has a ring.
func (s *Socket) chooseSet() error {
	if s.set().config.Place == nil {
		return nil
	}
	set, why, err := s.set().config.Place(s)
	if err != nil {
		return err
	}
	if s.ring() == nil {
		s.activate().set, s.settingsRecord().placeReasons = set, why
		return nil
	}
	made := s.settingsRecord()
	for _, r := range why {
		if !slices.Contains(made.placeReasons, r) {
			made.placeReasons = append(slices.Clone(made.placeReasons), r)
		}
	}
	return nil
}

// ForgetPlaceReasons removes reasons that SetConfig.Place has given for a socket and that hold no more. The caller, who owns the socket's ring,
// has its driver raise EventPath. Owner only.
func ForgetPlaceReasons(s *Socket, list []Reason) {
	made := s.settingsRecord()
	if slices.ContainsFunc(made.placeReasons, func(r Reason) bool { return slices.Contains(list, r) }) {
		made.placeReasons = slices.DeleteFunc(slices.Clone(made.placeReasons), func(r Reason) bool { return slices.Contains(list, r) })
	}
}

// EachSocket calls f for every socket of the ring, in the order of their slots; those being closed are among them. f
// may close and abort sockets. It takes time proportional to the most sockets there ever were: for shutting down and
// for reports. Owner only.
func (r *Ring) EachSocket(f func(*Socket)) error {
	if err := r.check(); err != nil {
		return &OpError{Op: "each socket", Err: err}
	}
	for s := range r.slots.all {
		f(s)
	}
	return nil
}
