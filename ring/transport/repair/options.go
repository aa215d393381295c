package repair

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// congestionNames are the kernel's, in the order of package tcp.
var congestionNames = map[tcp.Congestion]string{tcp.CUBIC: "cubic", tcp.NewReno: "reno"}

// number is an option that tcp.Settings has a field for.
type number struct {
	level, name int
	what        string
	get         func(s *tcp.Settings) int
	set         func(s *tcp.Settings, v int)
}

// truth is a flag as socket options have it: 1 or 0.
func truth(v bool) int {
	if v {
		return 1
	}
	return 0
}

var numbers = []number{
	{unix.IPPROTO_TCP, unix.TCP_NODELAY, "TCP_NODELAY",
		func(s *tcp.Settings) int { return truth(s.NoDelay) }, func(s *tcp.Settings, v int) { s.NoDelay = v != 0 }},
	{unix.IPPROTO_TCP, unix.TCP_CORK, "TCP_CORK",
		func(s *tcp.Settings) int { return truth(s.Cork) }, func(s *tcp.Settings, v int) { s.Cork = v != 0 }},
	{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, "TCP_KEEPIDLE",
		func(s *tcp.Settings) int { return seconds(s.KeepIdle) }, func(s *tcp.Settings, v int) { s.KeepIdle = clock.Duration(v) * clock.Second }},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, "TCP_KEEPINTVL",
		func(s *tcp.Settings) int { return seconds(s.KeepInterval) },
		func(s *tcp.Settings, v int) { s.KeepInterval = clock.Duration(v) * clock.Second }},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, "TCP_KEEPCNT",
		func(s *tcp.Settings) int { return int(s.KeepCount) }, func(s *tcp.Settings, v int) { s.KeepCount = uint8(v) }},
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE, "SO_KEEPALIVE",
		func(s *tcp.Settings) int { return truth(s.KeepAlive) }, func(s *tcp.Settings, v int) { s.KeepAlive = v != 0 }},
	{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT",
		func(s *tcp.Settings) int { return int(s.UserTimeout / clock.Millisecond) },
		func(s *tcp.Settings, v int) { s.UserTimeout = clock.Duration(v) * clock.Millisecond }},
	{unix.IPPROTO_IP, unix.IP_TOS, "IP_TOS",
		func(s *tcp.Settings) int { return int(s.TOS) }, func(s *tcp.Settings, v int) { s.TOS = uint8(v) }},
	{unix.IPPROTO_IP, unix.IP_TTL, "IP_TTL",
		func(s *tcp.Settings) int { return int(s.TTL) }, func(s *tcp.Settings, v int) { s.TTL = uint8(v) }},
}

// seconds rounds up: 0 would be refused.
func seconds(d clock.Duration) int { return int((d + clock.Second - 1) / clock.Second) }

const maxBuffer = 1 << 30 // RFC 7323 section 2.2: windows are not larger

// readOptions fills State.Settings and State.Options from the socket's options. An option of State.Options that the kernel does not know is
// left out.
func (f *Frozen) readOptions() error {
	s := &f.State
	s.Settings = tcp.DefaultSettings()
	for _, n := range numbers {
		v, err := unix.GetsockoptInt(f.fd, n.level, n.name)
		if err != nil {
			return stepError(err, n.what)
		}
		n.set(&s.Settings, v)
	}
	var sizes [2]int
	for i, name := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		v, err := unix.GetsockoptInt(f.fd, unix.SOL_SOCKET, name)
		if err != nil {
			return stepError(err, "the sizes of its buffers")
		}
		sizes[i] = v / 2 // the kernel tells twice what a program sets: half is for its own records
	}
	s.Settings.ReceiveBuffer = min(max(sizes[0], int(s.ReceiveWindow), 1), maxBuffer)
	s.Settings.SendBuffer = min(max(sizes[1], len(s.Sent)+len(s.Unsent), 1), maxBuffer)
	s.BufferLock, _ = unix.GetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK) // Linux 5.14; 0 below: the kernel tunes them
	s.Settings.SACK, s.Settings.Timestamps, s.Settings.ECN = s.SACK, s.Timestamps, s.ECN
	if s.Settings.WindowScale = -1; s.Scaled {
		s.Settings.WindowScale = int8(s.ReceiveScale)
	}
	name := make([]byte, 16)
	if _, err := getsockopt(f.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		return stepError(err, "TCP_CONGESTION")
	}
	s.Congestion = unix.ByteSliceToString(name)
	for c, known := range congestionNames {
		if known == s.Congestion {
			s.Settings.Congestion = c
		}
	}
	for _, o := range options {
		if v, err := unix.GetsockoptInt(f.fd, o.Level, o.Name); err == nil { // an older kernel has fewer
			s.Options = append(s.Options, Option{o.Level, o.Name, v})
		}
	}
	return nil
}

// setOptions gives a socket what the state says, and notes what it could not be given.
func (c *Created) setOptions(s *State) {
	set := func(level, name, v int, what string) {
		if was, err := unix.GetsockoptInt(c.fd, level, name); err == nil && was == v {
			return
		}
		if err := unix.SetsockoptInt(c.fd, level, name, v); err != nil {
			c.missing = append(c.missing, fmt.Sprintf("%s %d: %v", what, v, err))
		}
	}
	for _, n := range numbers {
		set(n.level, n.name, n.get(&s.Settings), n.what)
	}
	for _, o := range s.Options {
		set(o.Level, o.Name, o.Value, fmt.Sprintf("option %d of level %d", o.Name, o.Level))
	}
	name := s.Congestion
	if name == "" {
		name = congestionNames[s.Settings.Congestion]
	}
	if name == "" {
		c.missing = append(c.missing, "no congestion control: the kernel has none of that kind")
	} else if err := unix.SetsockoptString(c.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		c.missing = append(c.missing, fmt.Sprintf("congestion control %s: %v", name, err))
	}
	if s.ECN {
		c.missing = append(c.missing, "ECN: the kernel does not restore it")
	}
}
