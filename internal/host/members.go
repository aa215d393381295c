package host

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Members reads who is a member of groups of IPv4 in a network namespace, from procfs, because netlink has neither the number of a group's
// members nor changes of it; and who is bound to UDP ports, by sock_diag(7) or, in a kernel without it, from procfs too. One goroutine at a
// time.
type Members struct {
	igmp, udp, udp6 *os.File
	diag            *diag
	why             error // why there is no diag
}

// GroupOn is a group on an interface.
type GroupOn struct {
	Group     [4]byte
	Interface uint32
}

// Bound is a UDP socket of the namespace.
type Bound struct {
	Local     [4]byte // zero: any address, of IPv6 too
	Port      uint16
	Interface uint32 // that it is tied to (SO_BINDTODEVICE); 0: none, or not known, see Members.Limit
	Inode     uint64 // as fstat(2) has it
}

// OpenMembers opens the files of the calling thread's network namespace; they stay those of it.
func OpenMembers() (*Members, error) {
	m := &Members{}
	for name, f := range map[string]**os.File{"igmp": &m.igmp, "udp": &m.udp, "udp6": &m.udp6} {
		var err error
		if *f, err = os.Open("/proc/thread-self/net/" + name); err != nil && !(name == "udp6" && errors.Is(err, os.ErrNotExist)) {
			return nil, errors.Join(fmt.Errorf("host: members: %w", err), m.Close())
		}
	}
	m.diag, m.why = openDiag()
	return m, nil
}

// Limit is why Bound knows less than it could; nil: it does not. It lists sockets as receiving what they do not receive, never the other way:
// those of IPv6 alone, and those tied to another interface.
func (m *Members) Limit() error { return m.why }

// Close closes the files.
func (m *Members) Close() (err error) {
	for _, f := range []*os.File{m.igmp, m.udp, m.udp6} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if m.diag != nil {
		m.diag.socket.Close()
		m.diag = nil
	}
	return err
}

// Users counts the sockets that are members of each group, once for each that has joined it on the interface, from whatever sources.
func (m *Members) Users() (map[GroupOn]int, error) { return readUsers(rewound(m.igmp)) }

// Bound lists the UDP sockets that receive datagrams of IPv4.
func (m *Members) Bound() ([]Bound, error) {
	if m.diag != nil {
		list, err := m.diag.bound(nil, unix.AF_INET)
		if err == nil {
			list, err = m.diag.bound(list, unix.AF_INET6)
		}
		return list, err
	}
	list, err := readBound(nil, rewound(m.udp))
	if err == nil && m.udp6 != nil {
		list, err = readBound(list, rewound(m.udp6))
	}
	return list, err
}

// rewound reads a file of procfs again from its beginning.
func rewound(f *os.File) io.Reader { return io.NewSectionReader(f, 0, 1<<40) }

// readUsers reads what the kernel's igmp_mc_seq_show writes: a line for each interface, one for each group below it.
//
//	2	v0        :     2      V3
//					010101EF     1 0:00000000		0
func readUsers(r io.Reader) (map[GroupOn]int, error) {
	users, at := map[GroupOn]int{}, uint64(0)
	lines := bufio.NewScanner(r)
	for n := 0; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if n == 0 || len(fields) < 2 {
			continue
		}
		if strings.Contains(lines.Text(), " : ") || strings.HasSuffix(fields[1], ":") {
			var err error
			if at, err = strconv.ParseUint(fields[0], 10, 32); err != nil {
				return nil, fmt.Errorf("host: /proc/net/igmp: line %d: %w", n+1, err)
			}
			continue
		}
		g := GroupOn{Interface: uint32(at)}
		address, e1 := strconv.ParseUint(fields[0], 16, 32)
		count, e2 := strconv.Atoi(fields[1])
		if err := errors.Join(e1, e2); err != nil {
			return nil, fmt.Errorf("host: /proc/net/igmp: line %d: %w", n+1, err)
		}
		binary.NativeEndian.PutUint32(g.Group[:], uint32(address)) // printed as a number of the machine
		users[g] += count
	}
	return users, lines.Err()
}

// readBound reads /proc/net/udp and udp6, whose columns are the same but for the length of addresses.
func readBound(list []Bound, r io.Reader) ([]Bound, error) {
	lines := bufio.NewScanner(r)
	for n := 0; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if n == 0 || len(fields) < 10 {
			continue
		}
		address, port, _ := strings.Cut(fields[1], ":")
		raw, e1 := hex.DecodeString(address)
		p, e2 := strconv.ParseUint(port, 16, 16)
		inode, e3 := strconv.ParseUint(fields[9], 10, 64)
		if err := errors.Join(e1, e2, e3); err != nil || len(raw) != 4 && len(raw) != 16 {
			return nil, fmt.Errorf("host: /proc/net/udp: line %d: %w", n+1, errors.Join(err, io.ErrUnexpectedEOF))
		}
		b := Bound{Port: uint16(p), Inode: inode}
		if local, ok := ipv4Bound(printedAddress(raw)); ok {
			b.Local = local
			list = append(list, b)
		}
	}
	return list, lines.Err()
}

// printedAddress is an address of procfs: each four bytes are printed as a number of the machine.
func printedAddress(raw []byte) netip.Addr {
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	local, _ := netip.AddrFromSlice(raw)
	return local
}

// ipv4Bound is the IPv4 address that a socket is bound to: its own, one mapped into IPv6, or zero for any. False: it receives no IPv4.
func ipv4Bound(local netip.Addr) (a [4]byte, ok bool) {
	switch local = local.Unmap(); {
	case local.IsUnspecified():
		return a, true
	case local.Is4():
		return local.As4(), true
	}
	return a, false
}
