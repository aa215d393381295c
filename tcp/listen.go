package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// ListenConfig says how a listener answers.
type ListenConfig struct {
	Local Endpoint // address zero: any of this host's
	// Backlog bounds the children that are established and not taken. At the bound the last segment of a handshake is ignored, and the peer
	// sends it again.
	Backlog  int
	Settings Settings // of the children
	User     uint64   // of the segments that answer before there is a child, and of children until Take
}

type listener struct {
	local    Endpoint
	backlog  int
	waiting  int // children that are established and not taken
	halfOpen int // records of its handshakes
	settings uint32
	open     bool
	user     uint64

	second   int64 // in which synsLeft SYNs may still be answered, with Config.SynRate
	synsLeft int
}

// mayAnswer counts a SYN at the listener and reports whether it is within the rate.
func (l *listener) mayAnswer(now clock.Time, rate int) bool {
	if second := int64(now) / int64(clock.Second); second != l.second {
		l.second, l.synsLeft = second, rate
	}
	l.synsLeft--
	return l.synsLeft >= 0
}

// Listen begins to answer SYNs for the endpoint. One with an address goes before one with none (RFC 9293 MUST-41, MUST-42).
func (t *Table) Listen(c ListenConfig) (ListenerID, error) {
	if err := c.Settings.check(); err != nil {
		return 0, err
	}
	if c.Local.Port == 0 || !c.Local.Addr.IsZero() && !isHost(c.Local.Addr) {
		return 0, ErrAddress
	}
	if t.listenersAt[c.Local] != 0 {
		return 0, ErrInUse
	}
	l := listener{local: c.Local, backlog: max(c.Backlog, 1), settings: t.intern(c.Settings), open: true, user: c.User}
	var id ListenerID
	if n := len(t.freeListeners); n > 0 {
		id, t.freeListeners = t.freeListeners[n-1], t.freeListeners[:n-1]
		t.listeners[id-1] = l
	} else {
		t.listeners = append(t.listeners, l)
		id = ListenerID(len(t.listeners))
	}
	t.listenersAt[c.Local] = id
	if d := t.config.Directory; d != nil {
		d.Listen(c.Local, t.config.Number)
	}
	return id, nil
}

// ConfigureListener changes the settings of the children that are accepted from now on. WindowScale stays: handshakes may have offered it.
func (t *Table) ConfigureListener(id ListenerID, s Settings) error {
	if err := s.check(); err != nil {
		return err
	}
	if id == 0 || int(id) > len(t.listeners) || !t.listeners[id-1].open {
		return ErrListening
	}
	l := &t.listeners[id-1]
	former := l.settings
	s.WindowScale = t.settings[former].s.WindowScale
	l.settings = t.intern(s)
	t.unintern(former)
	return nil
}

// CloseListener stops it. Children that were not taken are reset.
func (t *Table) CloseListener(now clock.Time, id ListenerID) {
	if id == 0 || int(id) > len(t.listeners) || !t.listeners[id-1].open {
		return
	}
	t.now = now
	l := &t.listeners[id-1]
	delete(t.listenersAt, l.local)
	if d := t.config.Directory; d != nil {
		d.CloseListener(l.local, t.config.Number)
	}
	for n := range len(t.conns) * connChunk {
		if l.waiting == 0 {
			break
		}
		if c := t.conn(ID(n)); c.has(flagLive) && c.listener == id {
			t.Abort(now, ID(n))
		}
	}
	t.halfOpen.dropListener(t, id)
	t.unintern(l.settings)
	*l = listener{}
	t.freeListeners = append(t.freeListeners, id)
}

// listening is the listener for the endpoint, or 0.
func (t *Table) listening(local Endpoint) ListenerID {
	if id := t.listenersAt[local]; id != 0 {
		return id
	}
	return t.listenersAt[Endpoint{Port: local.Port}]
}

// Take makes a child that EventAccepted has reported the application's. user is in each of its events from then on.
func (t *Table) Take(id ID, user uint64) error {
	c := t.get(id)
	if c == nil {
		return ErrNoConn
	}
	if c.listener != 0 {
		t.listeners[c.listener-1].waiting--
		c.listener = 0
	}
	c.user = user
	return nil
}

// arrivesListen is a segment of no connection: RFC 9293 sections 3.10.7.1 and 3.10.7.2.
func (t *Table) arrivesListen(s *Segment) (kept bool, d wire.Drop) {
	id := t.listening(s.Local)
	switch {
	case id == 0:
		return false, t.unknown(s)
	case s.Flags&wire.TCPRst != 0:
		return false, wire.TCPNoConnection
	case s.Flags&wire.TCPAck != 0:
		return t.arrivesCookie(id, s)
	case s.Flags&wire.TCPSyn == 0: // section 3.10.7.2, fourth step
		return false, wire.TCPFlagsBad
	case !isHost(s.Remote.Addr) || s.Local == s.Remote: // RFC 9293 MUST-57, MUST-63
		return false, wire.TCPGroup
	}
	return false, t.answerSyn(id, s)
}
