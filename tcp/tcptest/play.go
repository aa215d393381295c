package tcptest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
// in setOption.
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
	next     int
	out      [][]byte

	local, remote tcp.Endpoint // of the connection that the player is the peer of
}

// socket is a descriptor of a script.
type socket struct {
	settings tcp.Settings
	listener tcp.ListenerID
	conn     *Conn
	linger   bool // SO_LINGER with 0: close resets
	told     bool // the failure was returned once
}

func at(now time.Duration) clock.Time { return playBegin.Add(now) }

func (s *subject) Deadline() time.Duration {
	d := s.host.Table.Deadline()
	if d == clock.Never {
		return packetdrill.Never
	}
	return d.Sub(playBegin)
}

func (s *subject) Expire(now time.Duration) { s.turn(now) }

func (s *subject) turn(now time.Duration) {
	s.host.Turn(at(now), func(b []byte) bool {
		s.out = append(s.out, b)
		return true
	})
}

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

func (s *subject) Call(now time.Duration, c packetdrill.Invocation) packetdrill.Result {
	if c.Name == "socket" {
		s.next++
		s.sockets[s.next] = &socket{settings: s.settings}
		return packetdrill.Result{Value: int64(s.next)}
	}
	if c.Name == "poll" {
		return s.poll(c)
	}
	x := s.sockets[c.FD]
	if x == nil {
		return failure("EBADF")
	}
	f, ok := calls[c.Name]
	if !ok {
		s.host.fail("script: the call %s is not known", c.Name)
		return failure("ENOSYS")
	}
	return f(s, at(now), x, c)
}

func failure(errno string) packetdrill.Result { return packetdrill.Result{Value: -1, Errno: errno} }

var done = packetdrill.Result{}

type systemCall func(s *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result

var calls = map[string]systemCall{
	"bind": func(*subject, clock.Time, *socket, packetdrill.Invocation) packetdrill.Result { return done }, "fcntl": nothing, "ioctl": nothing,
	"listen": listen, "accept": accept, "accept4": accept, "connect": connect,
	"read": read, "recv": read, "recvfrom": read, "write": write, "send": write, "sendto": write,
	"shutdown": shutdown, "close": closeCall, "setsockopt": setsockopt, "getsockopt": getsockopt,
}

func nothing(*subject, clock.Time, *socket, packetdrill.Invocation) packetdrill.Result { return done }

func listen(s *subject, _ clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	backlog := 1
	if len(c.Args) > 1 {
		backlog = int(c.Args[1].Int)
	}
	l, err := s.host.Listen(tcp.ListenConfig{Local: playLocal, Backlog: backlog, Settings: x.settings})
	if err != nil {
		return failure("EADDRINUSE")
	}
	x.listener = l
	return done
}

func accept(s *subject, _ clock.Time, x *socket, _ packetdrill.Invocation) packetdrill.Result {
	conn := s.host.Accept(x.listener, uint64(s.next))
	if conn == nil {
		return failure("EAGAIN")
	}
	s.next++
	s.sockets[s.next] = &socket{settings: x.settings, conn: conn}
	return packetdrill.Result{Value: int64(s.next)}
}

func connect(s *subject, now clock.Time, x *socket, _ packetdrill.Invocation) packetdrill.Result {
	switch {
	case x.conn == nil:
		conn, err := s.host.Connect(now, tcp.Dial{Local: tcp.Endpoint{Addr: playLocal.Addr}, Remote: playRemote, User: uint64(s.next), Settings: x.settings})
		if err != nil {
			s.host.fail("script: connect: %w", err)
			return failure("EINVAL")
		}
		x.conn = conn
		return failure("EINPROGRESS")
	case x.conn.Reason != 0:
		return x.failed()
	case x.conn.Connected:
		return done
	}
	return failure("EALREADY")
}

// errnos are what applications see of a failure.
var errnos = map[tcp.Reason]string{tcp.ReasonReset: "ECONNRESET", tcp.ReasonRefused: "ECONNREFUSED", tcp.ReasonTimeout: "ETIMEDOUT",
	tcp.ReasonKeepAlive: "ETIMEDOUT", tcp.ReasonUnreachable: "EHOSTUNREACH", tcp.ReasonProtocol: "ECONNREFUSED", tcp.ReasonLinger: "ETIMEDOUT"}

// failed returns a connection's failure once.
func (x *socket) failed() packetdrill.Result {
	if x.told {
		return failure("EPIPE")
	}
	x.told = true
	return failure(errnos[x.conn.Reason])
}

func read(_ *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	switch conn := x.conn; {
	case conn == nil:
		return failure("ENOTCONN")
	case conn.Unread() > 0:
		b := conn.Read(now, c.Size)
		return packetdrill.Result{Value: int64(len(b)), Data: b}
	case conn.Reason != 0 && !x.told:
		return x.failed()
	case conn.Ended || conn.Reason != 0:
		return done
	}
	return failure("EAGAIN")
}

func write(_ *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	conn := x.conn
	switch {
	case conn == nil:
		return failure("ENOTCONN")
	case conn.Reason != 0:
		return x.failed()
	case conn.WriteClosed:
		return failure("EPIPE")
	}
	more := len(c.Args) > 3 && c.Args[3].Has("MSG_MORE")
	if n := conn.Write(now, c.Data, more); n > 0 || len(c.Data) == 0 {
		return packetdrill.Result{Value: int64(n)}
	}
	return failure("EAGAIN")
}

func shutdown(_ *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	if x.conn == nil || x.conn.Reason != 0 {
		return failure("ENOTCONN")
	}
	if len(c.Args) > 1 && (c.Args[1].Has("SHUT_WR") || c.Args[1].Has("SHUT_RDWR")) {
		x.conn.CloseWrite(now)
	}
	return done
}

func closeCall(s *subject, now clock.Time, x *socket, _ packetdrill.Invocation) packetdrill.Result {
	switch {
	case x.listener != 0:
		s.host.Table.CloseListener(now, x.listener)
		x.listener = 0
	case x.conn != nil && x.linger:
		x.conn.Abort(now)
	case x.conn != nil:
		x.conn.Close(now)
	}
	return done
}

func (s *subject) poll(c packetdrill.Invocation) packetdrill.Result {
	var r packetdrill.Result
	for _, a := range c.Args[0].List {
		fd, _ := a.Field("fd")
		want, _ := a.Field("events")
		text := ""
		for _, bit := range s.sockets[int(fd.Int)].ready(s.host) {
			if want.Has(bit) || bit == "POLLERR" || bit == "POLLHUP" {
				if text != "" {
					text += "|"
				}
				text += bit
			}
		}
		if text != "" {
			r.Value++
		}
		r.Out = append(r.Out, text)
	}
	return r
}

// ready lists poll's bits in the order of the alphabet.
func (x *socket) ready(h *Host) (list []string) {
	c := x.conn
	if c == nil {
		if slices.ContainsFunc(h.ready, func(c *Conn) bool { return c.Listener == x.listener }) {
			list = append(list, "POLLIN")
		}
		return list
	}
	add := func(on bool, bit string) {
		if on {
			list = append(list, bit)
		}
	}
	failed := c.Reason != 0
	add(failed, "POLLERR")
	add(failed || c.Ended && c.WriteClosed, "POLLHUP")
	add(failed || c.Ended || c.Unread() > 0, "POLLIN")
	add(failed || c.Connected && c.Room() > 0, "POLLOUT")
	add(failed || c.Ended, "POLLRDHUP")
	return list
}

// setsockopt knows Linux's options, and some that are sysctls or do not exist there: TCP_RTO_MIN_MS, TCP_WSCALE (-1: none), TCP_SACK,
// TCP_TIMESTAMP, TCP_ECN, TCP_PMTU, TCP_ACK_EVERY, TCP_DELACK_MS, TCP_RETRIES, TCP_RESET_UNREAD.
func setsockopt(s *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	if len(c.Args) < 4 || len(c.Args[3].List) != 1 {
		s.host.fail("script: setsockopt needs a value in brackets")
		return failure("EINVAL")
	}
	name, v := c.Args[2].Text, c.Args[3].List[0]
	if name == "SO_LINGER" {
		on, _ := v.Field("onoff")
		d, _ := v.Field("linger")
		x.linger = on.Int != 0 && d.Int == 0
		if on.Int != 0 {
			x.settings.Linger = time.Duration(d.Int) * time.Second
		}
		return done
	}
	if !setOption(&x.settings, name, v) {
		s.host.fail("script: the option %s is not known", name)
		return failure("ENOPROTOOPT")
	}
	if x.conn != nil {
		if err := s.host.Table.Configure(now, x.conn.ID, x.settings); err != nil {
			return failure("EINVAL")
		}
	}
	return done
}

func setOption(s *tcp.Settings, name string, v packetdrill.Arg) bool {
	n, on := v.Int, v.Int != 0
	switch name {
	case "SO_REUSEADDR":
	case "SO_RCVBUF":
		s.ReceiveBuffer = int(n)
	case "SO_SNDBUF":
		s.SendBuffer = int(n)
	case "SO_KEEPALIVE":
		s.KeepAlive = on
	case "TCP_NODELAY":
		s.NoDelay = on
	case "TCP_CORK":
		s.Cork = on
	case "TCP_QUICKACK":
		s.QuickAck = on
	case "TCP_MAXSEG":
		s.MaxSegment = uint16(n)
	case "TCP_KEEPIDLE":
		s.KeepIdle = time.Duration(n) * time.Second
	case "TCP_KEEPINTVL":
		s.KeepInterval = time.Duration(n) * time.Second
	case "TCP_KEEPCNT":
		s.KeepCount = uint8(n)
	case "TCP_SYNCNT":
		s.SynRetries = uint8(n)
	case "TCP_USER_TIMEOUT":
		s.UserTimeout = time.Duration(n) * time.Millisecond
	case "TCP_CONGESTION":
		c, ok := map[string]tcp.Congestion{"cubic": tcp.CUBIC, "reno": tcp.NewReno, "none": tcp.NoCongestionControl}[v.Text]
		s.Congestion = c
		return ok
	case "IP_TTL":
		s.TTL = uint8(n)
	case "IP_TOS":
		s.TOS = uint8(n)
	case "TCP_RTO_MIN_MS":
		s.RTOMin = time.Duration(n) * time.Millisecond
	case "TCP_WSCALE":
		s.WindowScale = int8(n)
	case "TCP_SACK":
		s.SACK = on
	case "TCP_TIMESTAMP":
		s.Timestamps = on
	case "TCP_ECN":
		s.ECN = on
	case "TCP_PMTU":
		s.PathMTU = on
	case "TCP_ACK_EVERY":
		s.AckEvery = uint8(n)
	case "TCP_DELACK_MS":
		s.DelayedAck = time.Duration(n) * time.Millisecond
	case "TCP_RETRIES":
		s.Retries = uint8(n)
	case "TCP_RESET_UNREAD":
		s.ResetUnread = on
	default:
		return false
	}
	return true
}

func getsockopt(s *subject, _ clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	if len(c.Args) < 3 {
		return failure("EINVAL")
	}
	switch c.Args[2].Text {
	case "SO_ERROR":
		if x.conn == nil || x.conn.Reason == 0 || x.told {
			return packetdrill.Result{Out: []string{"0"}}
		}
		x.told = true
		return packetdrill.Result{Out: []string{errnos[x.conn.Reason]}}
	case "TCP_MAXSEG":
		if x.conn == nil {
			return packetdrill.Result{Out: []string{fmt.Sprint(x.settings.MaxSegment)}}
		}
		return packetdrill.Result{Out: []string{fmt.Sprint(x.conn.Info().MSS)}}
	}
	s.host.fail("script: the option %s is not known", c.Args[2].Text)
	return failure("ENOPROTOOPT")
}
