package host

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// printed is an address as procfs has it.
func printed(a string) string {
	b := netip.MustParseAddr(a).AsSlice()
	s := ""
	for i := 0; i < len(b); i += 4 {
		s += fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[i:]))
	}
	return s
}

func TestReadingMembers(t *testing.T) {
	users, err := readUsers(strings.NewReader("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n" +
		"1\tlo        :     1      V3\n\t\t\t\t" + printed("224.0.0.1") + "     1 0:00000000\t\t0\n" +
		"17\tlong-name-of-15:    2      V2\n\t\t\t\t" + printed("239.1.2.3") + "    12 0:00000000\t\t1\n\t\t\t\t" + printed("224.0.0.1") + "     1 0:00000000\t\t0\n"))
	require.NoError(t, err)
	require.Equal(t, map[GroupOn]int{{[4]byte{224, 0, 0, 1}, 1}: 1, {[4]byte{239, 1, 2, 3}, 17}: 12, {[4]byte{224, 0, 0, 1}, 17}: 1}, users)
	_, err = readUsers(strings.NewReader("head\n1 lo : 1 V3\n\t\tzz 1 0\n"))
	require.ErrorContains(t, err, "line 3")

	line := "  5: %s:1F90 " + printed("0.0.0.0") + ":0000 07 00000000:00000000 00:00000000 00000000     0        0 77 2 0000000000000000 0\n"
	for address, want := range map[string][]Bound{
		"10.0.0.1": {{[4]byte{10, 0, 0, 1}, 8080, 0, 77}}, "0.0.0.0": {{[4]byte{}, 8080, 0, 77}}, "239.1.2.3": {{[4]byte{239, 1, 2, 3}, 8080, 0, 77}},
		"::": {{[4]byte{}, 8080, 0, 77}}, "::ffff:239.1.2.3": {{[4]byte{239, 1, 2, 3}, 8080, 0, 77}}, "fd00::1": nil, "::1": nil,
	} {
		list, err := readBound(nil, strings.NewReader("head\n"+fmt.Sprintf(line, printed(address))))
		require.NoError(t, err)
		require.Equal(t, want, list, address)
	}
	_, err = readBound(nil, strings.NewReader("head\n"+fmt.Sprintf(line, "0100")))
	require.ErrorContains(t, err, "line 2")
}

// What the kernel says of a socket that has joined a group.
func TestMembersOfThisHost(t *testing.T) {
	m, err := OpenMembers()
	require.NoError(t, err)
	defer m.Close()
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	g := GroupOn{[4]byte{233, 252, 0, 177}, uint32(lo.Index)}
	count := func() int {
		users, err := m.Users()
		require.NoError(t, err)
		return users[g]
	}
	before := count()
	for i := range 2 {
		c, err := net.ListenMulticastUDP("udp4", lo, &net.UDPAddr{IP: g.Group[:], Port: 0})
		require.NoError(t, err)
		require.Equal(t, before+1, count(), "round %d: it is read anew each time", i)
		var inode uint64
		raw, err := c.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			var s syscall.Stat_t
			require.NoError(t, syscall.Fstat(int(fd), &s))
			inode = s.Ino
		}))
		list, err := m.Bound()
		require.NoError(t, err)
		a := c.LocalAddr().(*net.UDPAddr).AddrPort()
		require.Contains(t, list, Bound{Local: a.Addr().Unmap().As4(), Port: a.Port(), Inode: inode})
		require.NoError(t, c.Close())
		require.Equal(t, before, count())
	}
	require.NoError(t, m.Close())
	_, err = m.Users()
	require.Error(t, err)
}

// Which sockets receive IPv4, and by which interface: from sock_diag exactly; procfs has those of IPv6 alone too, and no interfaces.
func TestWhoHearsIPv4(t *testing.T) {
	m, err := OpenMembers()
	require.NoError(t, err)
	defer m.Close()
	if err := m.Limit(); err != nil {
		testnet.Missing(t, "sock_diag", err)
	}
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	listen := func(network, address string, set func(fd int) error) Bound {
		var inode uint64
		c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			_ = raw.Control(func(fd uintptr) {
				var s syscall.Stat_t
				if err = set(int(fd)); err == nil {
					err = syscall.Fstat(int(fd), &s)
				}
				inode = s.Ino
			})
			return err
		}}
		p, err := c.ListenPacket(t.Context(), network, address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		a := p.LocalAddr().(*net.UDPAddr).AddrPort()
		b := Bound{Port: a.Port(), Inode: inode}
		if a := a.Addr().Unmap(); a.Is4() {
			b.Local = a.As4()
		}
		return b
	}
	only := func(on int) func(int) error {
		return func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, on) }
	}
	four := listen("udp4", "127.0.0.1:0", func(int) error { return nil })
	tied := listen("udp4", "0.0.0.0:0", func(fd int) error { return unix.BindToDevice(fd, "lo") })
	tied.Interface = uint32(lo.Index)
	hear, deaf := []Bound{four, tied}, []Bound{}
	if p, err := net.ListenPacket("udp6", "[::1]:0"); err == nil {
		require.NoError(t, p.Close())
		hear = append(hear, listen("udp", "[::]:0", only(0)))
		deaf = append(deaf, listen("udp6", "[::]:0", only(1)), listen("udp6", "[::1]:0", only(1)))
	}
	list, err := m.Bound()
	require.NoError(t, err)
	for _, b := range hear {
		require.Contains(t, list, b)
	}
	for _, b := range deaf {
		require.NotContains(t, list, b)
	}

	// Without sock_diag.
	m.diag.socket.Close()
	m.diag = nil
	files, err := m.Bound()
	require.NoError(t, err)
	for _, b := range hear {
		b.Interface = 0
		require.Contains(t, files, b)
	}
	if len(deaf) > 0 {
		require.Contains(t, files, deaf[0], "cannot be told")
		require.NotContains(t, files, deaf[1])
	}
}

func TestReadingDiag(t *testing.T) {
	_, _, err := readDiag(make([]byte, diagMessage-1))
	require.ErrorIs(t, err, unix.EBADMSG)
	m := make([]byte, diagMessage)
	m[0] = unix.AF_INET6
	_, ok, err := readDiag(m)
	require.NoError(t, err)
	require.True(t, ok, "any address, without the attribute")
	attribute := func(length uint16) []byte {
		head := binary.NativeEndian.AppendUint16(append([]byte(nil), m...), length)
		return append(binary.NativeEndian.AppendUint16(head, diagSKV6Only), 1, 0, 0, 0)
	}
	_, ok, err = readDiag(attribute(5))
	require.NoError(t, err)
	require.False(t, ok, "of IPv6 alone")
	_, _, err = readDiag(attribute(200))
	require.Error(t, err)
}
