package tcp

import "github.com/socketxtreme/socketxtreme/internal/clock"

// Configure changes the settings of a connection. What the handshake agreed on stays: MaxSegment, WindowScale, SACK, Timestamps, ECN.
func (t *Table) Configure(now clock.Time, id ID, s Settings) error {
	if err := s.check(); err != nil {
		return err
	}
	c := t.get(id)
	if c == nil {
		return ErrNoConn
	}
	if c.has(flagMoving) {
		return ErrMoving
	}
	t.now = now
	was := t.settingsOf(c)
	if c.state != SynSent { // before the peer's SYN nothing was agreed on
		s.MaxSegment, s.WindowScale, s.SACK, s.Timestamps, s.ECN = was.MaxSegment, was.WindowScale, was.SACK, was.Timestamps, was.ECN
	}
	uncorked, congestion := was.Cork && !s.Cork || !was.NoDelay && s.NoDelay, was.Congestion
	former := c.settings
	c.settings = t.intern(s)
	t.unintern(former)
	if uncorked && c.unsent() > 0 {
		c.flags |= flagPush
	}
	if s.Congestion != congestion && s.Congestion == NoCongestionControl {
		c.cc.Window = maxWindow
	} else if congestion == NoCongestionControl && s.Congestion != congestion {
		c.cc.Init(c.payloadLimit())
	}
	t.armLife(c)
	t.wake(id, c)
	return nil
}

// Settings are those of a connection.
func (t *Table) Settings(id ID) Settings {
	if c := t.get(id); c != nil {
		return *t.settingsOf(c)
	}
	return Settings{}
}

// State is the state of a connection: Closed for an ID that is not good.
func (t *Table) State(id ID) State {
	if c := t.get(id); c != nil {
		return c.state
	}
	return Closed
}

// Endpoints are the two ends of a connection; zero for an ID that is not good.
func (t *Table) Endpoints(id ID) (local, remote Endpoint) {
	if c := t.get(id); c != nil {
		return c.local, c.remote
	}
	return Endpoint{}, Endpoint{}
}

// SegmentSize is the most payload of a segment that is sent with the usual options: pieces of that length leave as they are. 0 for an ID that is
// not good.
func (t *Table) SegmentSize(id ID) int {
	if c := t.get(id); c != nil {
		return c.payloadLimit()
	}
	return 0
}

// Info is what a connection knows of itself.
type Info struct {
	State         State
	Local, Remote Endpoint
	Listener      ListenerID // of a child that was not taken

	RTT, RTTVar, MinRTT, RTO clock.Duration
	CongestionWindow         int // bytes
	SlowStartThreshold       int // bytes
	Unacked, Unsent          int // bytes that were sent and not acknowledged; that wait to be sent
	InNetwork                int // of Unacked, what is believed to be on its way
	SendWindow               int // bytes that the peer takes beyond what it has acknowledged
	ReceiveWindow            int // bytes that the peer was offered and did not use yet
	Held                     int // bytes that were received and are not credited
	OutOfOrder               int // bytes that were received beyond a gap
	MSS                      int // the most payload of a segment that is sent
	PeerMSS                  int
	PathMTU                  int
	TimeOuts                 int // in a row
	SACK, Timestamps, ECN    bool
	SendScale, ReceiveScale  int // shifts; -1: none was agreed
	Recovering               bool
	Next, Acked, Received    Seq // SND.NXT, SND.UNA, RCV.NXT
}

// Info tells about a connection; ok is false for an ID that is not good.
func (t *Table) Info(id ID) (i Info, ok bool) {
	c := t.get(id)
	if c == nil {
		return Info{}, false
	}
	micro := func(n uint32) clock.Duration { return clock.Duration(n) * clock.Microsecond }
	i = Info{State: c.state, Local: c.local, Remote: c.remote, Listener: c.listener,
		RTT: micro(c.srtt), RTTVar: micro(c.rttvar), MinRTT: micro(c.minRTT), RTO: t.backedOff(c),
		CongestionWindow: int(c.cc.Window), SlowStartThreshold: int(c.cc.Threshold),
		Unacked: c.flight(), Unsent: c.unsent(), InNetwork: c.flight(), SendWindow: int(c.wnd),
		ReceiveWindow: max(c.rcvAdv.Minus(c.rcvNxt), 0), Held: int(c.held),
		MSS: c.payloadLimit(), PeerMSS: int(c.peerMSS), PathMTU: int(c.pathMTU), TimeOuts: int(c.tries),
		SACK: c.has(flagSACK), Timestamps: c.has(flagTS), ECN: c.has(flagECN), SendScale: -1, ReceiveScale: -1,
		Recovering: c.phase != phaseOpen, Next: c.nxt, Acked: c.una, Received: c.rcvNxt}
	if c.has(flagScaled) {
		i.SendScale, i.ReceiveScale = int(c.sndScale), int(c.rcvScale)
	}
	if c.sender != 0 {
		i.InNetwork = t.senders[c.sender-1].pipe(c)
	}
	if c.reassembly != 0 {
		i.OutOfOrder = t.reassemblies[c.reassembly-1].bytes
	}
	return i, true
}
