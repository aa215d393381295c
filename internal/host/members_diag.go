package host

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// diag asks the kernel for UDP sockets by sock_diag(7), which says more of them than procfs: to which interface each is tied, and whether one
// of IPv6 receives IPv4. A kernel without udp_diag refuses it at the first question.
type diag struct{ socket *nl.SocketHandle }

// openDiag opens a sock_diag socket in the calling thread's network namespace, and asks it once: an error if the kernel refuses.
func openDiag() (*diag, error) {
	s, err := nl.Subscribe(unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("host: members: sock_diag: %w", err)
	}
	d := &diag{&nl.SocketHandle{Socket: s}}
	wait := unix.NsecToTimeval(int64(diagPatience))
	err = s.SetReceiveTimeout(&wait)
	if err == nil {
		_, err = d.bound(nil, unix.AF_INET)
	}
	if err != nil {
		d.socket.Close()
		return nil, err
	}
	return d, nil
}

// diagPatience bounds an answer, which the kernel has ready when the question returns.
const diagPatience = time.Second

// Of linux/inet_diag.h.
const (
	diagRequest  = 56 // bytes of inet_diag_req_v2
	diagMessage  = 72 // and of inet_diag_msg, before its attributes
	diagSKV6Only = 11 // INET_DIAG_SKV6ONLY
)

// diagQuestion is an inet_diag_req_v2 for all UDP sockets of a family.
type diagQuestion struct{ family byte }

func (diagQuestion) Len() int { return diagRequest }

// Serialize is the request's bytes.
func (q diagQuestion) Serialize() []byte {
	b := make([]byte, diagRequest)
	b[0], b[1] = q.family, unix.IPPROTO_UDP
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0)) // in every state
	return b
}

// bound appends the sockets of a family that receive datagrams of IPv4.
func (d *diag) bound(list []Bound, family byte) ([]Bound, error) {
	q := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	q.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_SOCK_DIAG: d.socket}
	q.AddData(diagQuestion{family})
	messages, err := q.Execute(unix.NETLINK_SOCK_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return nil, fmt.Errorf("host: members: sock_diag: %w", err)
	}
	for _, m := range messages {
		b, ok, err := readDiag(m)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, b)
		}
	}
	return list, nil
}

// readDiag reads an inet_diag_msg; ok: it is of a socket that receives datagrams of IPv4.
func readDiag(m []byte) (b Bound, ok bool, err error) {
	if len(m) < diagMessage {
		return b, false, fmt.Errorf("host: members: sock_diag: a message of %d bytes: %w", len(m), unix.EBADMSG)
	}
	b.Port = binary.BigEndian.Uint16(m[4:])
	b.Interface = binary.NativeEndian.Uint32(m[40:])
	b.Inode = uint64(binary.NativeEndian.Uint32(m[68:]))
	local := netip.AddrFrom16([16]byte(m[8:24]))
	if m[0] == unix.AF_INET {
		local = netip.AddrFrom4([4]byte(m[8:12]))
	}
	if b.Local, ok = ipv4Bound(local); !ok || m[0] == unix.AF_INET {
		return b, ok, nil
	}
	attributes, err := nl.ParseRouteAttr(m[diagMessage:])
	if err != nil {
		return b, false, fmt.Errorf("host: members: sock_diag: %w", err)
	}
	for _, a := range attributes {
		if a.Attr.Type == diagSKV6Only && len(a.Value) > 0 && a.Value[0] != 0 {
			return b, false, nil
		}
	}
	return b, true, nil
}
