package ring

import (
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// activeState is what a socket has beyond its record while something is going on with it, or while it is not as a connection is by default. An
// accepted connection that waits idle has none: it shares one with all others, which stays zero. Code that only reads calls Socket.active, which
// may return the shared one. Code that writes calls Socket.activate, which gives the socket one of its own first.
type activeState struct {
	set *Set // where a socket is placed that has no ring yet
	own bool // it stays until the socket is closed: the socket is no accepted connection

	// What is pending; see pending.go.
	flags     Event // raised, not yet delivered
	latched   uint64
	nextReady *Socket
	endErr    error // Completion.Err of the flags that report an end
	passed    Event // deadlines that have passed and are not told yet: EventIn, EventOut
	listener  *Socket
	received  queue // packets not yet delivered
	unseen    queue // packets that came while the socket was suspended, for the callback; behind those in received
	waiting   int   // bytes in both
	done      queue // finished sends not yet delivered
	callback  ReceiveCallback

	// What is to be sent.
	sending sendQueue
	shaper  *shaper // of datagram sockets that are paced or numbered
	files   *outFiles
	pacing  Pacing

	// The end.
	discarded      bool          // no event reports it, not even that it was closed
	reset          bool          // it ends with a reset
	closeWriteDone bool          // the transport has sent FIN for CloseWrite
	lingering      bool          // Close waits for the peer's FIN or the close timer
	sendError      syscall.Errno // with which a send failed because the connection has ended
	fatal          error         // what ended the connection

	timers       [numTimers]wheel.Timer
	counts       socketCounts  // what the record has no room for
	linger       lingerTime    //
	options      SocketOptions //
	backoff      time.Duration // of a listener
	acceptErrs   uint64
	lastDrops    uint64     // of the transport, when Close was called: its descriptor is closed when the last counts are taken
	withheld     []withheld // connections that came in while the listener was being suspended
	device       int        // interface index of BindToDevice
	needsOwnRing bool       // its ring allocation logic wants another ring than the one of its set
	unix         *unixEnd   // of unix-domain sockets
}

// lingerTime is what SetLinger was given. Zero: the default, no lingering.
type lingerTime struct {
	set bool
	d   time.Duration // <0: the default; 0: Close aborts; >0: Close waits this long for the peer's FIN
}

// isDefault reports that a has nothing that the shared zero state lacks, so that it can be freed. Counts are kept elsewhere.
func (a *activeState) isDefault() bool {
	return !a.own && a.flags == 0 && a.nextReady == nil && a.endErr == nil && a.passed == 0 && a.received.n == 0 && a.unseen.n == 0 &&
		a.waiting == 0 && a.done.n == 0 && a.callback == nil && !a.sending.isBusy() && !a.sending.detaching && a.shaper == nil && a.files == nil &&
		a.pacing == (Pacing{}) && !a.discarded && !a.reset && !a.closeWriteDone && !a.lingering && a.sendError == 0 && a.fatal == nil &&
		a.timers == [numTimers]wheel.Timer{} && a.linger == (lingerTime{}) && a.options.isDefault() && a.backoff == 0 && a.acceptErrs == 0 && a.lastDrops == 0 &&
		a.withheld == nil && a.device == 0 && !a.needsOwnRing && a.unix == nil
}

// settings are the configuration of sockets and the reasons for which they are not on a better path. Accepted connections share those of their
// listener.
type settings struct {
	config       Config
	placeReasons []Reason // of SetConfig.Place
	users        int      // sockets
}

// transportEntry is a transport that sockets of a set have.
type transportEntry struct {
	transport Transport
	stack     StackTransport // transport, if it is one; else nil

	isStreamStack bool // transport is a StreamStack
}

// makerSet is the set that made the socket: its tables have what the record's numbers stand for.
func (s *Socket) makerSet() *Set { return sets.at(s.maker) }

// active is the socket's active state, to read. An idle socket's is one that all idle ones share, and that is zero.
func (s *Socket) active() *activeState { return s.makerSet().actives[s.activeIndex] }

// isActive reports whether the socket has an active state of its own.
func (s *Socket) isActive() bool { return s.activeIndex != 0 }

// activate is the socket's active state, to write.
func (s *Socket) activate() *activeState {
	if s.activeIndex == 0 {
		s.takeActive()
	}
	return s.active()
}

// maxFreeActives is how many unused active states a set keeps for reuse: more than one Poll of a busy ring needs.
const maxFreeActives = 1024

// takeActive gives an idle socket an active state, and copies the counts there that were kept beside its record.
func (s *Socket) takeActive() {
	set := s.makerSet()
	if n := len(set.freeActives); n > 0 {
		s.activeIndex = set.freeActives[n-1]
		set.freeActives = set.freeActives[:n-1]
		if set.actives[s.activeIndex] == nil {
			set.actives[s.activeIndex] = &activeState{}
		}
	} else {
		s.activeIndex = uint32(len(set.actives))
		set.actives = append(set.actives, &activeState{})
	}
	if s.marks&markCounts != 0 {
		set.actives[s.activeIndex].counts = set.sockets.counts[s.at]
	}
}

// deactivate frees the socket's active state. Its counts, which the record has no room for, are kept in socketTable.counts.
func (s *Socket) deactivate() {
	set := s.makerSet()
	a := set.actives[s.activeIndex]
	if a.counts != (socketCounts{}) {
		if set.sockets.counts == nil {
			set.sockets.counts = map[uint32]socketCounts{}
		}
		set.sockets.counts[s.at] = a.counts
		s.marks |= markCounts
	}
	*a = activeState{}
	if len(set.freeActives) >= maxFreeActives {
		set.actives[s.activeIndex] = nil
	}
	set.freeActives = append(set.freeActives, s.activeIndex)
	s.activeIndex = 0
}

// deactivateIfIdle frees the active state of a socket that waits for its next packet and has nothing pending. A socket that has stopped reading
// keeps it until it reads again, but for one whose peer has sent FIN: that stop is for good.
func (s *Socket) deactivateIfIdle() {
	if s.activeIndex != 0 && !s.ready && !s.announced && s.stops&^stopEnded == 0 && s.active().isDefault() {
		s.deactivate()
	}
}

// forget frees what the maker's tables hold of a closed socket. The record itself stays for as long as the application has a pointer to it.
func (s *Socket) forget() {
	set := s.makerSet()
	if s.activeIndex != 0 {
		s.deactivate()
	}
	if i := s.settings.Load(); i != 0 {
		s.settings.Store(0)
		set.releaseSettings(i)
	}
	set.sockets.remove(s)
	set.unregister()
}

// transport is what carries the socket's bytes; stack is the same if it is a StackTransport, else nil.
func (s *Socket) transport() Transport  { return s.makerSet().transports[s.via].transport }
func (s *Socket) stack() StackTransport { return s.makerSet().transports[s.via].stack }

// addTransport returns the number by which records refer to a transport, and enters the transport if it is new.
func (set *Set) addTransport(t Transport) uint8 {
	for i := range set.transports {
		if set.transports[i].transport == t {
			return uint8(i)
		}
	}
	if len(set.transports) == 1<<8 {
		panic("ring: a set with more than 256 transports")
	}
	stack, _ := t.(StackTransport)
	_, isStreamStack := t.(StreamStack)
	set.transports = append(set.transports, transportEntry{t, stack, isStreamStack})
	return uint8(len(set.transports) - 1)
}

// addSettings enters settings and returns the number by which records refer to them. The mutex is for other goroutines that read the table
// (ConfigOf).
func (set *Set) addSettings(x *settings) uint32 {
	x.users = 1
	set.settingsMu.Lock()
	defer set.settingsMu.Unlock()
	if n := len(set.freeSettings); n > 0 {
		i := set.freeSettings[n-1]
		set.freeSettings = set.freeSettings[:n-1]
		set.settings[i] = x
		return i
	}
	set.settings = append(set.settings, x)
	return uint32(len(set.settings) - 1)
}

// releaseSettings is called for each socket that is closed: with the last one of those that share the settings their number is free.
func (set *Set) releaseSettings(i uint32) {
	x := set.settings[i]
	if x.users--; x.users > 0 {
		return
	}
	set.settingsMu.Lock()
	defer set.settingsMu.Unlock()
	set.settings[i] = nil
	set.freeSettings = append(set.freeSettings, i)
}

// settingsRecord is the socket's entry in the table of settings. Owner only.
func (s *Socket) settingsRecord() *settings { return s.makerSet().settings[s.settings.Load()] }

// config is what the socket was made with. Owner only.
func (s *Socket) config() *Config { return &s.settingsRecord().config }

// ConfigOf is the configuration that the socket was made with; the zero Config when it is closed. For drivers and transports, which only read
// it. Any goroutine.
func ConfigOf(s *Socket) *Config {
	set := s.makerSet()
	if r := s.ring(); r == nil || !r.isPolledHere() {
		set.settingsMu.Lock()
		defer set.settingsMu.Unlock()
	}
	if x := set.settings[s.settings.Load()]; x != nil {
		return &x.config
	}
	return &Config{}
}

// ring is Ring; closedRing when it is closed.
func (s *Socket) ring() *Ring { return rings.at(s.ringNumber.Load()) }
