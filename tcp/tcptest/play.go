package tcptest

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/packetdrill"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// PlayConfig says how a script is played.
type PlayConfig struct {
	Table     tcp.Config   // InitialSequence and Random are set by LocalISN where they are nil
	Settings  tcp.Settings // of sockets, before the script's setsockopt; zero: tcp.DefaultSettings
	LocalISN  uint32       // the first number of the table's connections
	RemoteISN uint32       // what is added to the script's
	Tolerance time.Duration
	Piece     int // of Host; 0: its default
}

// Play plays a script in the packetdrill language against a table. System calls are those of a non-blocking socket; what they set is listed
// at setsockopt.
func Play(script *packetdrill.Script, c PlayConfig) error {
	if c.Settings == (tcp.Settings{}) {
		c.Settings = tcp.DefaultSettings()
	}
	if c.Table.InitialSequence == nil {
		next := tcp.Seq(c.LocalISN)
		c.Table.InitialSequence = func(_, _ tcp.Endpoint) tcp.Seq {
			next += 1 << 20 // a later connection begins further on
			return next - 1<<20
		}
	}
	if c.Table.Random == nil {
		c.Table.Random = rand.New(rand.NewPCG(1, uint64(c.LocalISN))).Uint64
	}
	h, err := NewHost(playLocal.Addr, c.Table, playBegin)
	if err != nil {
		return err
	}
	if c.Piece > 0 {
		h.Piece = c.Piece
	}
	s := &subject{host: h, settings: c.Settings, sockets: map[int]*socket{}, next: 3, local: playLocal, remote: playRemote}
	err = packetdrill.Run(script, s, packetdrill.Config{RemoteISN: c.RemoteISN, Tolerance: c.Tolerance})
	return errors.Join(err, h.Err())
}

// The two ends of a played connection. The time at which a script begins is not zero, which means none.
var (
	playLocal  = tcp.Endpoint{Addr: wire.Addr{192, 168, 0, 1}, Port: 8080}
	playRemote = tcp.Endpoint{Addr: wire.Addr{192, 0, 2, 1}, Port: 40000}
)

const playBegin = clock.Time(1_000_000_000_000)

// subject is a host as the player sees it.
type subject struct {
	host     *Host
	settings tcp.Settings
	sockets  map[int]*socket
	next     int // the descriptor that was given last
	out      [][]byte

	local, remote tcp.Endpoint // of the connection that the player is the peer of
}

// socket is a descriptor of a script.
type socket struct {
	settings tcp.Settings
	listener tcp.ListenerID
	conn     *Conn
	linger   bool // SO_LINGER with 0: close resets
	reported bool // the failure was returned once
}

func at(now time.Duration) clock.Time { return playBegin.Add(now) }

// Deadline is the table's, in the script's time.
func (s *subject) Deadline() time.Duration {
	d := s.host.Table.Deadline()
	if d == clock.Never {
		return packetdrill.Never
	}
	return d.Sub(playBegin)
}

func (s *subject) Expire(now time.Duration) { s.turn(now) }

// turn runs the host's Turn and keeps the packets that leave for Output.
func (s *subject) turn(now time.Duration) {
	s.host.Turn(at(now), func(b []byte) bool {
		s.out = append(s.out, b)
		return true
	})
}

// Output is the next packet that the host sends, parsed for the player; false: there is none.
func (s *subject) Output(now time.Duration) (p packetdrill.Packet, ok bool) {
	if len(s.out) == 0 {
		s.turn(now)
	}
	if len(s.out) == 0 {
		return p, false
	}
	b := s.out[0]
	s.out = s.out[1:]
	ip, _, payload, d := wire.ParseIPv4(b)
	if d != wire.Accept || wire.CheckTCP(ip, payload) != wire.SumGood {
		s.host.fail("packet: a packet that left is bad: %v", d)
		return p, false
	}
	t, options, data, d := wire.ParseTCP(payload)
	if d != wire.Accept {
		s.host.fail("packet: a segment that left is bad: %v", d)
		return p, false
	}
	s.local, s.remote = tcp.Endpoint{Addr: ip.Source(), Port: t.SourcePort()}, tcp.Endpoint{Addr: ip.Target(), Port: t.TargetPort()}
	p = packetdrill.Packet{Seq: t.Seq(), Ack: t.Ack(), Flags: packetdrill.Flags(t.Flags()), Window: t.Window(), Urgent: t.Urgent(),
		ECN: ip.TOS() & 3, Payload: data}
	if p.Options, ok = packetdrill.ParseOptions(options); !ok {
		s.host.fail("packet: the options % x that left are bad", options)
	}
	return p, true
}

// Input builds the packet that the script injects and gives it to the host.
func (s *subject) Input(now time.Duration, p packetdrill.Packet) {
	options := packetdrill.AppendOptions(nil, p.Options)
	f := wire.TCPFields{SourcePort: s.remote.Port, TargetPort: s.local.Port, Seq: p.Seq, Ack: p.Ack, Window: p.Window, Urgent: p.Urgent,
		Flags: wire.TCPFlags(p.Flags), RawOptions: options}
	tos := p.ECN
	ip := wire.IPv4Fields{TOS: tos, TTL: 64, Protocol: wire.ProtocolTCP, Source: s.remote.Addr, Target: s.local.Addr}
	b, err := ip.Append(nil, f.HeaderLen()+len(p.Payload))
	if err == nil {
		b, err = f.Append(b, s.remote.Addr, s.local.Addr, p.Payload)
	}
	if err != nil {
		s.host.fail("script: %w", err)
		return
	}
	s.host.Receive(at(now), b)
}

func (s *subject) InputError(now time.Duration, e packetdrill.Error) {
	s.host.Error(at(now), tcp.NetworkError{Local: s.local, Remote: s.remote, Seq: tcp.Seq(e.Seq), Type: e.Type, Code: e.Code, MTU: int(e.MTU)})
}

// linuxStates are the numbers that tcp_info has, by which scripts know them.
var linuxStates = map[string]int64{"TCP_ESTABLISHED": 1, "TCP_SYN_SENT": 2, "TCP_SYN_RECV": 3, "TCP_FIN_WAIT1": 4, "TCP_FIN_WAIT2": 5,
	"TCP_TIME_WAIT": 6, "TCP_CLOSE": 7, "TCP_CLOSE_WAIT": 8, "TCP_LAST_ACK": 9, "TCP_LISTEN": 10, "TCP_CLOSING": 11}

var stateNumbers = map[tcp.State]int64{tcp.Established: 1, tcp.SynSent: 2, tcp.SynReceived: 3, tcp.FinWait1: 4, tcp.FinWait2: 5, tcp.TimeWait: 6,
	tcp.Closed: 7, tcp.CloseWait: 8, tcp.LastAck: 9, tcp.Closing: 11}

// Value knows the fields of tcp_info, by their names in Linux where they have one. Congestion windows are in segments there.
func (s *subject) Value(_ time.Duration, fd int, name string) (int64, bool) {
	if n, ok := linuxStates[name]; ok {
		return n, true
	}
	x := s.sockets[fd]
	if x == nil {
		return 0, false
	}
	if x.conn == nil {
		switch {
		case name != "tcpi_state":
			return 0, false
		case x.listener != 0:
			return linuxStates["TCP_LISTEN"], true
		}
		return linuxStates["TCP_CLOSE"], true
	}
	i := x.conn.Info()
	mss := max(i.MSS, 1)
	switch name {
	case "tcpi_state":
		return stateNumbers[x.conn.State()], true
	case "tcpi_snd_cwnd":
		return int64(i.CongestionWindow / mss), true
	case "tcpi_snd_ssthresh":
		return int64(i.SlowStartThreshold / mss), true
	case "cwnd_bytes":
		return int64(i.CongestionWindow), true
	case "ssthresh_bytes":
		return int64(i.SlowStartThreshold), true
	case "tcpi_rto":
		return i.RTO.Microseconds(), true
	case "tcpi_rtt":
		return i.RTT.Microseconds(), true
	case "tcpi_rttvar":
		return i.RTTVar.Microseconds(), true
	case "tcpi_min_rtt":
		return i.MinRTT.Microseconds(), true
	case "tcpi_snd_mss":
		return int64(i.MSS), true
	case "tcpi_pmtu":
		return int64(i.PathMTU), true
	case "tcpi_backoff":
		return int64(i.TimeOuts), true
	case "unacked_bytes":
		return int64(i.Unacked), true
	case "unsent_bytes":
		return int64(i.Unsent), true
	case "out_of_order_bytes":
		return int64(i.OutOfOrder), true
	case "send_window":
		return int64(i.SendWindow), true
	case "warnings":
		return int64(x.conn.Warnings), true
	case "gone":
		if x.conn.Gone {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
