package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// needProgram loads a program, or skips saying what is missing.
func needProgram(t testing.TB, o programOptions) *Program {
	t.Helper()
	if o.flows == 0 {
		o.flows = 64
	}
	if o.queues == 0 {
		o.queues = 4
	}
	if o.protocols == nil {
		o.protocols = []uint8{link.UDP, link.TCP}
	}
	if o.mtu == 0 {
		o.mtu = 1500
	}
	p, err := loadProgram(o)
	needPrivileges(t, err)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			require.ErrorIs(t, err, link.ErrClosed)
		}
	})
	return p
}

// needPrivileges skips the test when the error is that the process may not, or that the kernel has no such thing. As root on a kernel
// with AF_XDP both are failures of the test.
func needPrivileges(t testing.TB, err error) {
	t.Helper()
	var r *link.Refusal
	if errors.As(err, &r) && unix.Geteuid() != 0 && r.Reason.Code == ReasonNoCapability {
		testnet.Missing(t, "xdp", err)
	}
}

// socketIn puts an AF_XDP socket into the map for queue 0, which is where test runs arrive.
func socketIn(t testing.TB, p *Program) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	require.NoError(t, p.setSocket(0, fd))
}

func counters(p *Program) map[string]uint64 {
	m := map[string]uint64{}
	for _, c := range p.Counters(nil) {
		m[c.Name] = c.Value
	}
	return m
}

// run gives a frame to the program and tells the verdict and the counter that moved.
func run(t *testing.T, p *Program, frame []byte) (verdict uint32, counted string) {
	t.Helper()
	before := counters(p)
	verdict, out, err := p.program.Test(frame)
	require.NoError(t, err)
	if p.options.stamp == stampKernel && verdict == xdpRedirect { // a test run returns the metadata too
		require.Len(t, out, len(frame)+metadataBytes)
		var now unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_TAI, &now))
		stamp := int64(binary.NativeEndian.Uint64(out))
		require.InDelta(t, now.Nano(), stamp, 1e9)
		require.LessOrEqual(t, stamp, now.Nano())
		out = out[metadataBytes:]
	}
	require.Equal(t, frame, out, "the program changed the frame")
	for name, n := range counters(p) {
		switch n - before[name] {
		case 0:
		case 1:
			require.Empty(t, counted, "%s too", name)
			counted = name
		default:
			t.Fatalf("%s moved by %d", name, n-before[name])
		}
	}
	return verdict, counted
}

// Which frames the program takes, and what it says of the others.
func TestSteering(t *testing.T) {
	me, peer, other := ap("10.0.0.1:53"), ap("10.0.0.2:9000"), ap("10.0.0.9:53")
	group, wild := ap("239.1.1.1:7000"), ap("0.0.0.0:800")
	claims := []Flow{
		{Protocol: link.UDP, Local: me},
		{Protocol: link.UDP, Local: ap("10.0.0.1:54"), Remote: peer},
		{Protocol: link.UDP, Local: wild},
		{Protocol: link.UDP, Local: group},
		{Protocol: link.UDP, Local: ap("239.1.1.2:7000"), Remote: ap("10.0.0.2:0")},
		{Protocol: link.UDP, Local: ap("239.1.1.3:7000"), Remote: peer},
		{Protocol: link.UDP, VLAN: 100, Local: me},
		{Protocol: link.UDP, VLAN: 100, Local: wild},
		{Protocol: link.TCP, Local: ap("10.0.0.1:80")},
	}
	many := make([]byte, 60)
	for _, stamp := range []stamping{stampNothing, stampKernel} {
		p := needProgram(t, programOptions{stamp: stamp})
		for _, f := range claims {
			require.NoError(t, p.Claim(f))
		}
		require.NoError(t, p.AddAddr(me.Addr(), 0))
		require.NoError(t, p.AddAddr(ap("10.0.1.1:0").Addr(), 100))
		verdict, counted := run(t, p, packet{src: peer, dst: me}.bytes())
		require.EqualValues(t, xdpPass, verdict, "no socket yet")
		require.Equal(t, "steer.no_queue", counted)
		socketIn(t, p)
		for _, test := range []struct {
			name  string
			frame []byte
			want  string
		}{
			{"claimed", packet{src: peer, dst: me, payload: many}.bytes(), "steer.hit"},
			{"empty datagram", packet{src: peer, dst: me}.bytes(), "steer.hit"},
			{"with padding", append(packet{src: peer, dst: me}.bytes(), make([]byte, 18)...), "steer.hit"},
			{"another port", packet{src: peer, dst: ap("10.0.0.1:55")}.bytes(), "steer.miss"},
			{"another address", packet{src: peer, dst: other}.bytes(), "steer.miss"},
			{"reversed", packet{src: me, dst: peer}.bytes(), "steer.miss"},
			{"TCP to a UDP claim", packet{src: peer, dst: me, protocol: link.TCP}.bytes(), "steer.miss"},
			{"TCP", packet{src: peer, dst: ap("10.0.0.1:80"), protocol: link.TCP}.bytes(), "steer.hit"},
			{"UDP to a TCP claim", packet{src: peer, dst: ap("10.0.0.1:80")}.bytes(), "steer.miss"},
			{"connected", packet{src: peer, dst: ap("10.0.0.1:54")}.bytes(), "steer.hit"},
			{"connected, another port", packet{src: ap("10.0.0.2:9001"), dst: ap("10.0.0.1:54")}.bytes(), "steer.miss"},
			{"connected, another peer", packet{src: ap("10.0.0.3:9000"), dst: ap("10.0.0.1:54")}.bytes(), "steer.miss"},
			{"wildcard, our address", packet{src: peer, dst: ap("10.0.0.1:800")}.bytes(), "steer.hit"},
			{"wildcard, forwarded", packet{src: peer, dst: ap("10.0.0.9:800")}.bytes(), "steer.miss"},
			{"wildcard, group", packet{src: peer, dst: ap("239.1.1.1:800")}.bytes(), "steer.miss"},
			{"wildcard, broadcast", packet{src: peer, dst: ap("255.255.255.255:800")}.bytes(), "steer.miss"},
			{"wildcard, address of a VLAN", packet{src: peer, dst: ap("10.0.1.1:800")}.bytes(), "steer.miss"},
			{"wildcard, VLAN", packet{tags: []uint32{0x81000064}, src: peer, dst: ap("10.0.1.1:800")}.bytes(), "steer.hit"},
			{"group", packet{src: peer, dst: group}.bytes(), "steer.hit"},
			{"group, another port", packet{src: peer, dst: ap("239.1.1.1:7001")}.bytes(), "steer.miss"},
			{"another group of the same Ethernet address", packet{src: peer, dst: ap("238.129.1.1:7000")}.bytes(), "steer.miss"},
			{"group of a source", packet{src: peer, dst: ap("239.1.1.2:7000")}.bytes(), "steer.hit"},
			{"group of a source, another port of it", packet{src: ap("10.0.0.2:1"), dst: ap("239.1.1.2:7000")}.bytes(), "steer.hit"},
			{"group of a source, another source", packet{src: ap("10.0.0.3:9000"), dst: ap("239.1.1.2:7000")}.bytes(), "steer.miss"},
			{"group, connected", packet{src: peer, dst: ap("239.1.1.3:7000")}.bytes(), "steer.hit"},
			{"group, connected to another", packet{src: ap("10.0.0.2:1"), dst: ap("239.1.1.3:7000")}.bytes(), "steer.miss"},
			{"VLAN", packet{tags: []uint32{0x81000064}, src: peer, dst: me}.bytes(), "steer.hit"},
			{"VLAN with priority", packet{tags: []uint32{0x8100f064}, src: peer, dst: me}.bytes(), "steer.hit"},
			{"another VLAN", packet{tags: []uint32{0x81000065}, src: peer, dst: me}.bytes(), "steer.miss"},
			{"priority tag", packet{tags: []uint32{0x8100e000}, src: peer, dst: me}.bytes(), "steer.hit"},
			{"QinQ", packet{tags: []uint32{0x88a80001, 0x81000064}, src: peer, dst: me}.bytes(), "steer.not_ipv4"},
			{"two tags", packet{tags: []uint32{0x81000064, 0x81000064}, src: peer, dst: me}.bytes(), "steer.not_ipv4"},
			{"ARP", packet{ethertype: 0x0806, src: peer, dst: me}.bytes(), "steer.not_ipv4"},
			{"IPv6", packet{ethertype: 0x86dd, version: 6, src: peer, dst: me}.bytes(), "steer.not_ipv4"},
			{"IEEE 802.3 length", packet{ethertype: 60, src: peer, dst: me}.bytes(), "steer.not_ipv4"},
			{"IGMP", packet{protocol: 2, src: peer, dst: group}.bytes(), "steer.other_protocol"},
			{"ICMP", packet{protocol: 1, src: peer, dst: me}.bytes(), "steer.other_protocol"},
			{"protocol 255", packet{protocol: 255, src: peer, dst: me}.bytes(), "steer.other_protocol"},
			{"don't fragment", packet{fragment: 0x4000, src: peer, dst: me}.bytes(), "steer.hit"},
			{"reserved flag", packet{fragment: 0x8000, src: peer, dst: me}.bytes(), "steer.hit"},
			{"first fragment", packet{fragment: 0x2000, src: peer, dst: me}.bytes(), "steer.fragment"},
			{"middle fragment", packet{fragment: 0x2010, src: peer, dst: me}.bytes(), "steer.fragment"},
			{"last fragment", packet{fragment: 0x0001, src: peer, dst: me}.bytes(), "steer.fragment"},
			{"farthest fragment", packet{fragment: 0x1fff, src: peer, dst: me}.bytes(), "steer.fragment"},
			{"as long as the MTU", packet{src: peer, dst: me, payload: make([]byte, 1472)}.bytes(), "steer.hit"},
			{"TCP longer than the MTU", packet{src: peer, dst: ap("10.0.0.1:80"), protocol: link.TCP, payload: make([]byte, 1473)}.bytes(), "steer.hit"},
			{"longer than the MTU", packet{src: peer, dst: me, payload: make([]byte, 1473)}.bytes(), "steer.oversize"},
			{"claims to be longer", packet{src: peer, dst: me, total: 65535}.bytes(), "steer.oversize"},
			{"version 0", packet{src: peer, dst: me, version: 0x10}.bytes(), "steer.malformed"},
			{"version 5", packet{src: peer, dst: me, version: 5}.bytes(), "steer.malformed"},
			{"version 6 in IPv4", packet{src: peer, dst: me, version: 6}.bytes(), "steer.malformed"},
			{"header of 4 words", packet{src: peer, dst: me, ihl: 4}.bytes(), "steer.malformed"},
			{"header of 1 word", packet{src: peer, dst: me, ihl: 1}.bytes(), "steer.malformed"},
			{"Ethernet header only", packet{src: peer, dst: me, cut: 28}.bytes(), "steer.truncated"},
			{"19 bytes of IPv4", packet{src: peer, dst: me, cut: 9}.bytes(), "steer.truncated"},
			{"IPv4 only", packet{src: peer, dst: me, cut: 8}.bytes(), "steer.truncated"},
			{"7 bytes of UDP", packet{src: peer, dst: me, cut: 1}.bytes(), "steer.truncated"},
			{"15 words of header, cut", packet{src: peer, dst: me, ihl: 15, cut: 1}.bytes(), "steer.truncated"},
			{"tag cut", packet{tags: []uint32{0x81000064}, src: peer, dst: me, cut: 29}.bytes(), "steer.truncated"},
			{"tagged, cut", packet{tags: []uint32{0x81000064}, src: peer, dst: me, cut: 1}.bytes(), "steer.truncated"},
		} {
			verdict, counted := run(t, p, test.frame)
			require.Equal(t, test.want, counted, test.name)
			want := xdpPass
			if test.want == "steer.hit" {
				want = xdpRedirect
			}
			require.EqualValues(t, want, verdict, test.name)
		}
		for ihl := uint8(5); ihl <= 15; ihl++ {
			_, counted := run(t, p, packet{src: peer, dst: me, ihl: ihl}.bytes())
			require.Equal(t, "steer.hit", counted, "header of %d words", ihl)
			_, counted = run(t, p, packet{tags: []uint32{0x81000064}, src: peer, dst: me, ihl: ihl}.bytes())
			require.Equal(t, "steer.hit", counted, "tagged, header of %d words", ihl)
		}
		for _, f := range claims {
			require.NoError(t, p.Release(f))
		}
		_, counted = run(t, p, packet{src: peer, dst: me}.bytes())
		require.Equal(t, "steer.miss", counted, "released")
	}
}

// A program that takes UDP only leaves TCP alone without looking it up.
func TestProtocols(t *testing.T) {
	p := needProgram(t, programOptions{protocols: []uint8{link.UDP}})
	require.ErrorContains(t, p.Claim(Flow{Protocol: link.TCP, Local: ap("10.0.0.1:80")}), "Protocol 6: this program takes [17]")
	_, counted := run(t, p, packet{src: ap("10.0.0.2:1"), dst: ap("10.0.0.1:80"), protocol: link.TCP}.bytes())
	require.Equal(t, "steer.other_protocol", counted)
}

func TestClaims(t *testing.T) {
	p := needProgram(t, programOptions{flows: 3})
	flow := func(port uint16) Flow {
		return Flow{Protocol: link.UDP, Local: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port)}
	}
	require.NoError(t, p.Claim(flow(1)))
	require.NoError(t, p.Claim(flow(1)))
	require.NoError(t, p.Claim(flow(2)))
	require.NoError(t, p.AddAddr(netip.MustParseAddr("10.0.0.1"), 0))
	err := p.Claim(flow(3))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "udp 10.0.0.1:3")
	require.ErrorIs(t, p.AddAddr(netip.MustParseAddr("10.0.0.2"), 0), ErrFull)
	require.NoError(t, p.Claim(flow(2)), "an entry that is there needs no room")

	require.NoError(t, p.Release(flow(1)))
	_, counted := run(t, p, packet{src: ap("10.0.0.2:1"), dst: ap("10.0.0.1:1")}.bytes())
	require.Equal(t, "steer.no_queue", counted, "still claimed once")
	require.NoError(t, p.Release(flow(1)))
	_, counted = run(t, p, packet{src: ap("10.0.0.2:1"), dst: ap("10.0.0.1:1")}.bytes())
	require.Equal(t, "steer.miss", counted)
	require.ErrorIs(t, p.Release(flow(1)), ErrNoClaim)
	require.ErrorIs(t, p.RemoveAddr(netip.MustParseAddr("10.0.0.7"), 0), ErrNoClaim)
	require.NoError(t, p.Claim(flow(3)))
	require.NoError(t, p.RemoveAddr(netip.MustParseAddr("10.0.0.1"), 0))

	require.ErrorIs(t, p.Check(), link.ErrDetached, "never attached")
	require.NoError(t, p.Close())
	for _, err := range []error{p.Close(), p.Check(), p.Claim(flow(4)), p.Release(flow(3)), p.AddAddr(netip.MustParseAddr("10.0.0.1"), 0)} {
		require.ErrorIs(t, err, link.ErrClosed)
	}
	require.Empty(t, p.Counters(nil))
}

// What cannot be claimed is refused with the argument's name and value.
func TestFlowArguments(t *testing.T) {
	for want, f := range map[string]Flow{
		"Local [::1]:5: not an IPv4":                {Local: ap("[::1]:5")},
		"Local invalid AddrPort: not an IPv4":       {},
		"Local 10.0.0.1:0: port 0":                  {Local: ap("10.0.0.1:0")},
		"VLAN 4095: must be 0 to 4094":              {Local: ap("10.0.0.1:5"), VLAN: 4095},
		"Remote [::1]:5: not an IPv4":               {Local: ap("10.0.0.1:5"), Remote: ap("[::1]:5")},
		"Remote 0.0.0.0:5: not a sender's":          {Local: ap("10.0.0.1:5"), Remote: ap("0.0.0.0:5")},
		"Remote 224.0.0.1:5: not a sender's":        {Local: ap("10.0.0.1:5"), Remote: ap("224.0.0.1:5")},
		"Remote 10.0.0.2:0: port 0, which":          {Local: ap("10.0.0.1:5"), Remote: ap("10.0.0.2:0")},
		"Local 0.0.0.0:5 with Remote 10.0.0.2:6: a": {Local: ap("0.0.0.0:5"), Remote: ap("10.0.0.2:6")},
	} {
		_, err := keyOf(f)
		require.ErrorContains(t, err, want)
	}
	mapped := Flow{Protocol: link.UDP, Local: ap("[::ffff:10.0.0.1]:5")}
	k, err := keyOf(mapped)
	require.NoError(t, err)
	require.Equal(t, key{10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 17, 0, 0, 0}, k)
	for _, bad := range []string{"0.0.0.0", "224.0.0.1", "::1"} {
		_, err := addressKey(netip.MustParseAddr(bad), 0)
		require.ErrorContains(t, err, bad)
	}
	_, err = addressKey(netip.MustParseAddr("10.0.0.1"), 5000)
	require.ErrorContains(t, err, "VLAN 5000")
	require.Equal(t, "udp 10.0.0.1:5 from 10.0.0.2:6 vlan 7",
		fmt.Sprint(Flow{Protocol: link.UDP, Local: ap("10.0.0.1:5"), Remote: ap("10.0.0.2:6"), VLAN: 7}))
}
