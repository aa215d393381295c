package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// name is an option as setsockopt(2) has it.
type name struct{ level, option int }

const (
	ipMulticastAll   = 49 // linux/in.h
	ipv6MulticastAll = 29 // linux/in6.h
)

// names are the options whose value is an int; of those that each family has by a name of its own, IPv4's and IPv6's.
var names = [...][2]name{
	ring.OptionNoDelay:           both(unix.IPPROTO_TCP, unix.TCP_NODELAY),
	ring.OptionQuickAck:          both(unix.IPPROTO_TCP, unix.TCP_QUICKACK),
	ring.OptionKeepAlive:         both(unix.SOL_SOCKET, unix.SO_KEEPALIVE),
	ring.OptionKeepAliveIdle:     both(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE),
	ring.OptionKeepAliveInterval: both(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL),
	ring.OptionKeepAliveCount:    both(unix.IPPROTO_TCP, unix.TCP_KEEPCNT),
	ring.OptionUserTimeout:       both(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT),
	ring.OptionReceiveBuffer:     both(unix.SOL_SOCKET, unix.SO_RCVBUF),
	ring.OptionSendBuffer:        both(unix.SOL_SOCKET, unix.SO_SNDBUF),
	ring.OptionReuseAddr:         both(unix.SOL_SOCKET, unix.SO_REUSEADDR),
	ring.OptionReusePort:         both(unix.SOL_SOCKET, unix.SO_REUSEPORT),
	ring.OptionBroadcast:         both(unix.SOL_SOCKET, unix.SO_BROADCAST),
	ring.OptionIPv6Only:          both(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY),
	ring.OptionTTL:               {{unix.IPPROTO_IP, unix.IP_TTL}, {unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS}},
	ring.OptionTOS:               {{unix.IPPROTO_IP, unix.IP_TOS}, {unix.IPPROTO_IPV6, unix.IPV6_TCLASS}},
	ring.OptionMulticastLoop:     {{unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP}, {unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP}},
	ring.OptionMulticastTTL:      {{unix.IPPROTO_IP, unix.IP_MULTICAST_TTL}, {unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS}},
	ring.OptionMulticastAll:      {{unix.IPPROTO_IP, ipMulticastAll}, {unix.IPPROTO_IPV6, ipv6MulticastAll}},
}

func both(level, option int) [2]name { return [2]name{{level, option}, {level, option}} }

// SetOption is setsockopt(2). An option that IPv4 and IPv6 each have is set for both on a socket of IPv6: what it sends to an address of IPv4
// has the value of IPv4 (net/ipv6/udp.c, udpv6_sendmsg). ENOPROTOOPT: an option that this table does not have.
func (t *Transport) SetOption(s *ring.Socket, o ring.Option, value int) error {
	fd, is6 := FD(s), s.Family() == ring.IPv6
	switch {
	case o == ring.OptionPacingRate:
		return paceStream(fd, uint64(value))
	case o == ring.OptionMulticastInterface:
		err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(value)})
		if err == nil && is6 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, value)
		}
		return err
	case int(o) >= len(names):
		return unix.ENOPROTOOPT
	}
	n4, n6 := names[o][0], names[o][1]
	if !is6 || n4 != n6 {
		if err := unix.SetsockoptInt(fd, n4.level, n4.option, value); err != nil || !is6 {
			return err
		}
	}
	return unix.SetsockoptInt(fd, n6.level, n6.option, value)
}

// paceStream hands the rate to the kernel, whose TCP keeps it by itself since Linux 4.13.
func paceStream(fd int, rate uint64) error {
	want := rate
	if want == 0 {
		want = ^uint64(0)
	}
	err := unix.SetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, want)
	if err == nil {
		// Before Linux 4.20 the option has 32 bits, and the kernel takes the lower ones silently. No limit is all ones, 32 of them there.
		var got uint64
		if got, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE); err == nil && uint32(got) != uint32(want) ||
			err == nil && got != want && want != ^uint64(0) {
			err = unix.ERANGE
		}
	}
	return err
}

// askControl sets the options by which the kernel reports what the socket's Config asks for: of each datagram destination and interface where
// the kernel alone knows them (on a wildcard or a group), timestamps, and datagrams that it drops while it sends them.
func (t *Transport) askControl(s *ring.Socket, local netip.Addr) error {
	fd, h, c := FD(s), ring.HandleOf(s), ring.ConfigOf(s)
	if err := setDropReports(s, true); err != nil {
		return err
	}
	h.HasTimestamps = c.Timestamps
	if c.Timestamps {
		h.PktInfo = true
	}
	if flags := stampFlags(c); flags != 0 {
		var err error
		if h.Adopted { // the kernel's numbering begins when it is switched on
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, 0)
		}
		if err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags)); err != nil {
			return fmt.Errorf("timestamping: %w", err)
		}
	}
	if c.Timestamps {
		// Also beside SO_TIMESTAMPING, which leaves a datagram without a stamp that was under way when stamping began.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return fmt.Errorf("timestamps: %w", err)
		}
	}
	if !c.PacketInfo && !local.IsUnspecified() && !local.IsMulticast() {
		return nil
	}
	h.PktInfo = true
	n := name{unix.IPPROTO_IP, unix.IP_PKTINFO}
	if s.Family() == ring.IPv6 {
		n = name{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO}
	}
	if err := unix.SetsockoptInt(fd, n.level, n.option, 1); err != nil {
		return fmt.Errorf("packet info: %w", err)
	}
	return nil
}

// stampFlags is the value of SO_TIMESTAMPING for the socket's Config; 0 where SO_TIMESTAMPNS, which stamps received datagrams, is enough.
// Reports of sent datagrams have a number (OPT_ID) and no copy of the datagram (OPT_TSONLY).
func stampFlags(c *ring.Config) (flags int) {
	if c.TxTimestamps {
		flags |= unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE |
			unix.SOF_TIMESTAMPING_OPT_ID | unix.SOF_TIMESTAMPING_OPT_TSONLY
	}
	if c.HardwareTimestamps != ring.HardwareTimestampsOff {
		flags |= unix.SOF_TIMESTAMPING_RAW_HARDWARE
		if c.TxTimestamps {
			flags |= unix.SOF_TIMESTAMPING_TX_HARDWARE
		}
		if c.Timestamps {
			flags |= unix.SOF_TIMESTAMPING_RX_HARDWARE
		}
	}
	if flags != 0 && c.Timestamps {
		flags |= unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	}
	return flags
}

// StopDropReports takes IP_RECVERR from a socket again. The kernel empties the error queue with that.
func (t *Transport) StopDropReports(s *ring.Socket) error { return setDropReports(s, false) }

// setDropReports starts or stops reports of datagrams that the kernel drops while it sends them (Config.ReportDrops): it keeps such a drop to
// itself, as ip(7) has it, unless the socket has IP_RECVERR; then the send fails with ENOBUFS.
func setDropReports(s *ring.Socket, on bool) error {
	if !ring.ConfigOf(s).ReportDrops || ring.HandleOf(s).Kind != ring.KindDatagram {
		return nil
	}
	value := 0
	if on {
		value = 1
	}
	var err error
	if s.Family() == ring.IPv6 {
		err = unix.SetsockoptInt(FD(s), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, value)
	}
	err = errors.Join(err, unix.SetsockoptInt(FD(s), unix.IPPROTO_IP, unix.IP_RECVERR, value)) // of IPv4 destinations of an IPv6 socket too
	if err != nil {
		return fmt.Errorf("report drops: %w", err)
	}
	return nil
}
