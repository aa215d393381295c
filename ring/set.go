package ring

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// Set is the rings of one owner: it makes sockets, and a ring for each when one is due. Rings of one set share a buffer pool and
// are polled by one goroutine; rings of different sets share nothing.
type Set struct {
	config    SetConfig
	rings     []*Ring
	kind      string
	reasons   []Reason
	credits   credits
	closed    atomic.Bool
	realClock bool                 // SetConfig.Clock was not given
	bare      map[*Socket]struct{} // sockets that have no ring yet; Close ends them
	published atomic.Pointer[[]*Ring]
}

// SetConfig is what a set is made from.
type SetConfig struct {
	Pool   *buffers.Pool
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
	// only.
	Transport Transport
	// Place, for an owner with two sets on one pool, is asked when a socket is about to get its ring: its kind, addresses, device and
	// groups are known then. It answers with the set that carries it, and with the reasons why not a better one, which the
	// socket's path shows. It is asked again before a socket that a StackTransport carries joins a group, which alone is in its
	// Settings.Groups then; only the reasons count then. The sets of one owner have the same. An error fails the call.
	Place func(*Socket) (*Set, []Reason, error)
	// OneRing, when its Code is not empty, makes every socket of the set share one ring, whatever its allocation logic; those whose
	// logic would have given them another show it as a reason.
	OneRing Reason
	// Siblings lists the rings of all sets of the owner, where it has several: what one of them knows of its goroutine all do. Any goroutine.
	Siblings func() []*Ring
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
		bare: map[*Socket]struct{}{}}
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
func (set *Set) Pool() *buffers.Pool { return set.config.Pool }

// NewSocket makes a socket: kind Stream or Datagram, for IPv4 or IPv6 addresses. It has no ring yet. The rest of the
// owner's calls apply: Bind, Listen, Connect.
func (set *Set) NewSocket(kind SocketKind, ipv6 bool, c Config) (*Socket, error) {
	if err := set.BeginCall(); err != nil {
		return nil, &OpError{Op: "socket", Err: err}
	}
	if kind != KindStream && kind != KindDatagram {
		return nil, badArgument("socket", "kind", kind)
	}
	family := IPv4
	if ipv6 {
		family = IPv6
	}
	return set.openSocket(kind, family, c)
}

// openSocket has the transport make a socket.
func (set *Set) openSocket(kind SocketKind, family Family, c Config) (*Socket, error) {
	if err := c.complete(set.config.Pool); err != nil {
		return nil, err
	}
	conn, err := set.config.Transport.Open(kind, family, &c)
	if err != nil {
		return nil, &OpError{Op: "socket", Err: err}
	}
	return set.newSocket(Handle{Conn: conn, Kind: kind, Copies: family == UnixDomain}, family, c), nil
}

// newSocket is a socket without a ring.
func (set *Set) newSocket(h Handle, family Family, c Config) *Socket {
	s := &Socket{set: set, maker: set, handle: h, family: family, id: int(h.Conn), userData: uint64(h.Conn), linger: -1, config: c, stops: stopEnded,
		options: defaultSocketOptions}
	s.setTransport(set.config.Transport, h.Conn)
	s.handle.Class = c.streamClass()
	if h.Kind == KindDatagram {
		s.handle.Class = c.datagramClass(set.config.Pool)
	}
	if family == UnixDomain {
		s.unix = &unixEnd{}
	}
	s.publish()
	set.bare[s] = struct{}{}
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
		set.remove(r)
	}
	set.closed.Store(true)
	for s := range set.bare {
		err = errors.Join(err, s.closeBare())
	}
	return err
}

func (set *Set) remove(r *Ring) {
	if i := slices.Index(set.rings, r); i >= 0 {
		set.rings = slices.Delete(set.rings, i, i+1)
		set.publish()
		if f := set.config.Changed; f != nil {
			f(r, false)
		}
	}
}

// WakeIfSleeping wakes the owner if it sleeps: a lent buffer came back. An owner with two sets on one pool makes it part of the pool's return callback.
// Any goroutine.
func (set *Set) WakeIfSleeping() {
	for _, r := range set.Rings() {
		r.inbox.wakeIfSleeping()
	}
}

func (set *Set) newRing(key Key) (*Ring, error) {
	drv, err := set.config.Driver(DriverConfig{Pool: set.config.Pool, Entries: set.config.Entries})
	if err != nil {
		return nil, fmt.Errorf("ring: make %s ring: %w", set.kind, err)
	}
	r := &Ring{drv: drv, pool: set.config.Pool, clock: set.config.Clock, set: set, key: key, turn: 1, watch: set.realClock}
	r.protocol, _ = drv.(ProtocolDriver)
	r.timers = wheel.New(r.clock(), 0)
	r.onTimer = r.timer
	r.sink.ring = r
	r.inbox.wakeDriver = drv.Wake
	set.rings = append(set.rings, r)
	set.publish()
	if f := set.config.Changed; f != nil {
		f(r, true)
	}
	return r, nil
}

// publish gives Nudge, which runs on other goroutines, its own copy of the list.
func (set *Set) publish() {
	rings := slices.Clone(set.rings)
	set.published.Store(&rings)
}

// join gives the socket its ring, by the allocation logic, if it has none.
func (s *Socket) join() error {
	if s.ring != nil {
		return nil
	}
	from, why := s.set, s.why
	if err := s.place(); err != nil {
		return err
	}
	key := s.key()
	r, err := s.set.ringFor(key)
	if err == nil {
		err = r.check()
	}
	if err == nil {
		s.needsOwnRing = s.set.config.OneRing.Code != "" && r.needsOwnRing(key)
		err = r.admit(s)
	}
	if err != nil {
		s.set, s.why = from, why
		return err
	}
	delete(from.bare, s)
	return nil
}

// leave undoes join for a socket that nothing is armed of.
func (s *Socket) leave() {
	r := s.ring
	r.pool.CloseAccount(s.handle.Account)
	r.forgetCredit(s)
	s.closeShaper()
	s.removeFromRing()
	s.setRing(nil)
	s.set.bare[s] = struct{}{}
}

// place lets the owner choose the set. Sets on one pool differ in nothing that the socket has taken from the first.
func (s *Socket) place() error {
	if s.set.config.Place == nil {
		return nil
	}
	set, why, err := s.set.config.Place(s)
	if err != nil {
		return err
	}
	if s.ring == nil {
		s.set, s.why = set, why
		return nil
	}
	for _, r := range why {
		if !slices.Contains(s.why, r) {
			s.why = append(slices.Clone(s.why), r)
		}
	}
	return nil
}

// localInterface is the index of the interface that has the socket's address; 0 for wildcards, groups and addresses nobody has.
func (s *Socket) localInterface() int {
	ip := s.local.Addr()
	if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() {
		return 0
	}
	return s.transport.InterfaceOf(ip)
}
