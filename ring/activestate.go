package ring

import (
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// activeState is what a socket has beyond its record while something is going on with it, or while it is not as a connection is by default. An
// accepted connection that waits idle has none: it shares one with all others, which stays zero (see Socket.active).
type activeState struct {
	set *Set // where a socket is placed that has no ring yet
	own bool // it stays until the socket is closed: the socket is no accepted connection

	// What is pending; see pending.go.
	flags     Event // raised, not yet delivered
	latched   uint64
	nextReady *Socket
	cause     error // of the flags that tell of an end
	late      error // of EventOut: a write deadline
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
	discarded bool          // no event reports it, not even that it was closed
	reset     bool          // it ends with a reset
	writeShut bool          // CloseWrite was called, and is done
	lingering bool          // Close waits for the peer's FIN or the close timer
	broken    syscall.Errno // a send was notified that the connection is no more
	fatal     error         // what ended the connection

	timers       [numTimers]wheel.Timer
	counts       socketCounts  // what the record has no room for
	linger       lingerTime    //
	options      SocketOptions //
	backoff      time.Duration // of a listener
	acceptErrs   uint64
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

// isDefault reports that the socket is what an idle connection is: nothing of a would be missed. Counts are kept elsewhere.
func (a *activeState) isDefault() bool {
	return !a.own && a.flags == 0 && a.nextReady == nil && a.cause == nil && a.late == nil && a.received.n == 0 && a.unseen.n == 0 &&
		a.waiting == 0 && a.done.n == 0 && a.callback == nil && !a.sending.busy() && !a.sending.detaching && a.shaper == nil && a.files == nil &&
		a.pacing == (Pacing{}) && !a.discarded && !a.reset && !a.writeShut && !a.lingering && a.broken == 0 && a.fatal == nil &&
		a.timers == [numTimers]wheel.Timer{} && a.linger == (lingerTime{}) && a.options.isDefault() && a.backoff == 0 && a.acceptErrs == 0 &&
		a.withheld == nil && a.device == 0 && !a.needsOwnRing && a.unix == nil
}

// settings are what sockets are made with and how they were placed. Accepted connections share those of their listener.
type settings struct {
	config Config
	why    []Reason // of SetConfig.Place
	users  int      // sockets
}

// carrier is a transport that sockets of a set have.
type carrier struct {
	transport Transport
	stack     StackTransport // transport, if it is one; else nil
}

// home is the set that made the socket: it has what the record has numbers for.
func (s *Socket) home() *Set { return sets.at(s.maker) }

// active is the socket's active state, to read. An idle socket's is one that all idle ones share, and that is zero.
func (s *Socket) active() *activeState { return s.home().actives[s.activeIndex] }

// isActive reports whether the socket has an active state of its own.
func (s *Socket) isActive() bool { return s.activeIndex != 0 }

// activate is the socket's active state, to write.
func (s *Socket) activate() *activeState {
	if s.activeIndex == 0 {
		s.takeActive()
	}
	return s.active()
}

// spareActives is how many active states that nobody has a set keeps: what one Poll may need, and more than a busy ring needs at a time.
const spareActives = 1024

func (s *Socket) takeActive() {
	set := s.home()
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

// deactivate gives the active state back. What counts beyond the record has counted is kept.
func (s *Socket) deactivate() {
	set := s.home()
	a := set.actives[s.activeIndex]
	if a.counts != (socketCounts{}) {
		if set.sockets.counts == nil {
			set.sockets.counts = map[uint32]socketCounts{}
		}
		set.sockets.counts[s.at] = a.counts
		s.marks |= markCounts
	}
	*a = activeState{}
	if len(set.freeActives) >= spareActives {
		set.actives[s.activeIndex] = nil
	}
	set.freeActives = append(set.freeActives, s.activeIndex)
	s.activeIndex = 0
}

// deactivateIfIdle makes a socket compact again with which nothing is going on any more.
func (s *Socket) deactivateIfIdle() {
	if s.activeIndex != 0 && !s.ready && !s.announced && s.stops&^stopEnded == 0 && s.active().isDefault() {
		s.deactivate()
	}
}

// forget ends the socket's record. What the application may still read of it stays.
func (s *Socket) forget() {
	set := s.home()
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
func (s *Socket) transport() Transport  { return s.home().transports[s.via].transport }
func (s *Socket) stack() StackTransport { return s.home().transports[s.via].stack }

// addTransport is the number of a transport for records.
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
	set.transports = append(set.transports, carrier{t, stack})
	return uint8(len(set.transports) - 1)
}

// addSettings is the number of settings for records. Other goroutines read the table: ConfigOf.
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

// made are the socket's settings. Owner only.
func (s *Socket) made() *settings { return s.home().settings[s.settings.Load()] }

// config is what the socket was made with. Owner only.
func (s *Socket) config() *Config { return &s.made().config }

// ConfigOf is what the socket was made with; the zero Config when it is closed. Read only. Any goroutine.
func ConfigOf(s *Socket) *Config {
	set := s.home()
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
