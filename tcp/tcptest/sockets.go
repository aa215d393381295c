package tcptest

import (
	"fmt"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/packetdrill"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// System calls of scripts: those of non-blocking sockets.

// Call runs a system call of the script by its name, on the socket of its descriptor.
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

// listen opens the table's listener at the script's local endpoint.
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

// accept takes a child that is ready and gives it a new descriptor.
func accept(s *subject, _ clock.Time, x *socket, _ packetdrill.Invocation) packetdrill.Result {
	fd := s.next + 1
	conn := s.host.Accept(x.listener, uint64(fd))
	if conn == nil {
		return failure("EAGAIN")
	}
	s.next = fd
	s.sockets[s.next] = &socket{settings: x.settings, conn: conn}
	return packetdrill.Result{Value: int64(s.next)}
}

// connect begins the connection at the first call; further calls report how far it is, as a non-blocking socket does.
func connect(s *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	switch {
	case x.conn == nil:
		conn, err := s.host.Connect(now, tcp.Dial{Local: tcp.Endpoint{Addr: playLocal.Addr}, Remote: playRemote, User: uint64(c.FD), Settings: x.settings})
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
	if x.reported {
		return failure("EPIPE")
	}
	x.reported = true
	return failure(errnos[x.conn.Reason])
}

// read returns data first, then the failure once, then the end of the stream.
func read(_ *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	switch conn := x.conn; {
	case conn == nil:
		return failure("ENOTCONN")
	case conn.Unread() > 0:
		b := conn.Read(now, c.Size)
		return packetdrill.Result{Value: int64(len(b)), Data: b}
	case conn.Reason != 0 && !x.reported:
		return x.failed()
	case conn.Ended || conn.Reason != 0:
		return done
	}
	return failure("EAGAIN")
}

// write queues data, as much as there is room for; MSG_MORE says that more follows.
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

// shutdown sends FIN for SHUT_WR and SHUT_RDWR; SHUT_RD does nothing.
func shutdown(_ *subject, now clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	if x.conn == nil || x.conn.Reason != 0 {
		return failure("ENOTCONN")
	}
	if len(c.Args) > 1 && (c.Args[1].Has("SHUT_WR") || c.Args[1].Has("SHUT_RDWR")) {
		x.conn.CloseWrite(now)
	}
	return done
}

// closeCall closes the listener or the connection; with SO_LINGER and a time of 0 it resets the connection.
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

// poll returns for each descriptor the bits that are ready and asked for, POLLERR and POLLHUP in any case.
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

// setOption changes the settings as a socket option says; false: the option, or its value, is not known.
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

// getsockopt knows SO_ERROR, which returns a connection's failure once, and TCP_MAXSEG.
func getsockopt(s *subject, _ clock.Time, x *socket, c packetdrill.Invocation) packetdrill.Result {
	if len(c.Args) < 3 {
		return failure("EINVAL")
	}
	switch c.Args[2].Text {
	case "SO_ERROR":
		if x.conn == nil || x.conn.Reason == 0 || x.reported {
			return packetdrill.Result{Out: []string{"0"}}
		}
		x.reported = true
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
