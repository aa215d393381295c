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
}

// Listen begins to answer SYNs for the endpoint. One with an address goes before one with none.
func (t *Table) Listen(c ListenConfig) (ListenerID, error) {
	if err := c.Settings.check(); err != nil {
		return 0, err
	}
	return 0, ErrNotOpen
}

// CloseListener stops it. Children that were not taken are reset.
func (t *Table) CloseListener(now clock.Time, l ListenerID) {}

// Take makes a child that EventAccepted has reported the application's. user is in each of its events from then on.
func (t *Table) Take(id ID, user uint64) error { return ErrNoConn }

// Dial says whom Connect calls.
type Dial struct {
	Local, Remote Endpoint // local port 0: chosen by RFC 6056 section 3.3.3; the address is the caller's choice
	User          uint64   // in each event
	MTU           int      // of the path; 0: Config.MTU
	Settings      Settings
}

// Connect begins a connection. EventConnected follows, or EventFailed.
func (t *Table) Connect(now clock.Time, d Dial) (ID, error) {
	if err := d.Settings.check(); err != nil {
		return NoID, err
	}
	return NoID, ErrNotOpen
}

// Send queues a piece of a buffer behind what was queued before. Before the connection is established it waits. The piece may be longer than a
// segment, or than Room: Room is what the caller is to keep to. more says that more follows soon: a segment that is not full then waits, as
// with Settings.Cork, until the next Send without it or Push.
func (t *Table) Send(now clock.Time, id ID, p Payload, more bool) error { return ErrNoConn }

// Room is how many bytes may be queued until Settings.SendBuffer is reached.
func (t *Table) Room(id ID) int { return 0 }

// Tail is the last piece that was queued, if no byte of it was sent yet: the transport may write more behind it and then call Extend.
func (t *Table) Tail(id ID) (p Payload, ok bool) { return Payload{}, false }

// Extend makes the piece that Tail returned n bytes longer.
func (t *Table) Extend(now clock.Time, id ID, n int) error { return ErrNoConn }

// Push lets a segment go that is not full and waits for more.
func (t *Table) Push(now clock.Time, id ID) {}

// Credit says that n bytes of data that EventData had reported are released: the window opens by as much.
func (t *Table) Credit(now clock.Time, id ID, n int) {}

// CloseWrite sends FIN behind what is queued. Receiving goes on.
func (t *Table) CloseWrite(now clock.Time, id ID) error { return ErrNoConn }

// Close ends the application's part: FIN goes behind what is queued, or a reset where received data was not credited (Settings.ResetUnread).
// Buffers that are still the connection's come back by events, of which EventGone is the last.
func (t *Table) Close(now clock.Time, id ID) {}

// Abort ends the connection with a reset (RFC 9293 section 3.10.5). EventGone follows.
func (t *Table) Abort(now clock.Time, id ID) {}

// Configure changes the settings of a connection. What the handshake agreed on stays: MaxSegment, WindowScale, SACK, Timestamps, ECN.
func (t *Table) Configure(now clock.Time, id ID, s Settings) error { return ErrNoConn }

// Settings are those of a connection.
func (t *Table) Settings(id ID) Settings { return Settings{} }

// State is the state of a connection: Closed for an ID that is not good.
func (t *Table) State(id ID) State { return Closed }

// NetworkError is an ICMP error that quotes a segment of this host.
type NetworkError struct {
	Local, Remote Endpoint // of the quoted segment, which this host sent
	Seq           Seq      // of it
	Type, Code    uint8
	MTU           int // of the next hop, where the packet was too long for it
}

// Error takes an ICMP error. Accept: it is about a segment that is in flight (RFC 5927 section 4.1).
func (t *Table) Error(now clock.Time, e NetworkError) wire.Drop { return wire.ICMPNoSocket }

// SetPathMTU says that the path of a connection has another MTU, as the host's tables know it.
func (t *Table) SetPathMTU(now clock.Time, id ID, mtu int) {}

// Info is what a connection knows of itself.
type Info struct {
	State         State
	Local, Remote Endpoint
	Listener      ListenerID // of a child that was not taken

	RTT, RTTVar, MinRTT, RTO clock.Duration
	CongestionWindow         int // bytes
	SlowStartThreshold       int // bytes
	Unacked, Unsent          int // bytes that were sent and not acknowledged; that wait to be sent
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
}

// Info tells about a connection; ok is false for an ID that is not good.
func (t *Table) Info(id ID) (i Info, ok bool) { return Info{}, false }
