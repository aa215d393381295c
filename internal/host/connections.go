package host

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Connection is a TCP connection over IPv4 that the kernel has: both ends.
type Connection struct{ Local, Remote netip.AddrPort }

// States of linux/tcp_states.h in which the kernel has a connection whose segments must reach it. Those in SYN-SENT are clients, those in
// TIME-WAIT have ended.
const liveStates = 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<11

// connectionQuestion is an inet_diag_req_v2 for the TCP connections of a family with a local port, 0 for all.
type connectionQuestion struct {
	family byte
	port   uint16
}

func (connectionQuestion) Len() int { return diagRequest }

// Serialize is the request's bytes.
func (q connectionQuestion) Serialize() []byte {
	b := make([]byte, diagRequest)
	b[0], b[1] = q.family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(b[4:], liveStates)
	binary.BigEndian.PutUint16(b[8:], q.port)
	return b
}

// Connections lists the TCP connections over IPv4 that the kernel has in the calling thread's network namespace, by sock_diag(7): those with a
// local port, or all for port 0. Handshakes that a listener has begun are among them, connections in TIME-WAIT are not. It waits for no lock of
// the kernel's configuration. Any goroutine.
func Connections(port uint16) (list []Connection, err error) {
	s, err := nl.Subscribe(unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("host: connections: sock_diag: %w", err)
	}
	h := &nl.SocketHandle{Socket: s}
	defer h.Close()
	wait := unix.NsecToTimeval(int64(diagPatience))
	if err := s.SetReceiveTimeout(&wait); err != nil {
		return nil, fmt.Errorf("host: connections: sock_diag: %w", err)
	}
	for _, family := range [...]byte{unix.AF_INET, unix.AF_INET6} { // sockets of IPv6 may carry IPv4
		q := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		q.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_SOCK_DIAG: h}
		q.AddData(connectionQuestion{family, port})
		messages, err := q.Execute(unix.NETLINK_SOCK_DIAG, nl.SOCK_DIAG_BY_FAMILY)
		if err != nil {
			return nil, fmt.Errorf("host: connections: sock_diag: %w", err)
		}
		for _, m := range messages {
			c, ok, err := readConnection(m)
			if err != nil {
				return nil, err
			}
			if ok {
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// readConnection reads an inet_diag_msg; ok: both ends are addresses of IPv4.
func readConnection(m []byte) (c Connection, ok bool, err error) {
	if len(m) < diagMessage {
		return c, false, fmt.Errorf("host: connections: sock_diag: a message of %d bytes: %w", len(m), unix.EBADMSG)
	}
	end := func(address, port int) netip.AddrPort {
		a := netip.AddrFrom4([4]byte(m[address : address+4]))
		if m[0] == unix.AF_INET6 {
			a = netip.AddrFrom16([16]byte(m[address : address+16])).Unmap()
		}
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(m[port:]))
	}
	c = Connection{Local: end(8, 4), Remote: end(24, 6)}
	return c, c.Local.Addr().Is4() && c.Remote.Addr().Is4(), nil
}
