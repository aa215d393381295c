package sys

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func control(level, typ int32, data []byte) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(unix.SizeofCmsghdr+len(data)))
	b = binary.NativeEndian.AppendUint32(b, uint32(level))
	b = append(binary.NativeEndian.AppendUint32(b, uint32(typ)), data...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func timespecs(nanos ...int64) (b []byte) {
	for _, n := range nanos {
		b = binary.NativeEndian.AppendUint64(b, uint64(n/1e9))
		b = binary.NativeEndian.AppendUint64(b, uint64(n%1e9))
	}
	return b
}

// extended is a struct sock_extended_err.
func extended(origin byte, info, data uint32) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.ENOMSG))
	b = append(b, origin, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, info)
	b = binary.NativeEndian.AppendUint32(b, data)
	return append(b, make([]byte, 16)...) // an address
}

func TestParseTransmitStamp(t *testing.T) {
	const at = int64(1_700_000_000_000_000_007)
	stamp := control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, timespecs(at, 0, 0))
	card := control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, timespecs(0, 0, 42_000_000_001))
	none := control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, timespecs(0, 0, 0))
	id4 := control(unix.IPPROTO_IP, unix.IP_RECVERR, extended(4, 0, 77))
	icmp := control(unix.IPPROTO_IP, unix.IP_RECVERR, extended(2, 0, 0))
	queued := control(unix.IPPROTO_IP, unix.IP_RECVERR, extended(4, 1, 5))
	id6 := control(unix.IPPROTO_IPV6, unix.IPV6_RECVERR, extended(4, 0, 78))
	for name, test := range map[string]struct {
		b    []byte
		want TransmitStamp
		ok   bool
	}{
		"software":                {append(stamp, id4...), TransmitStamp{ID: 77, Software: at}, true},
		"hardware, IPv6":          {append(card, id6...), TransmitStamp{ID: 78, Hardware: 42_000_000_001}, true},
		"the other order":         {append(id4, stamp...), TransmitStamp{ID: 77, Software: at}, true},
		"a zero is no stamp":      {append(none, id4...), TransmitStamp{ID: 77}, false},
		"an ICMP error":           {append(stamp, icmp...), TransmitStamp{Software: at}, false},
		"when it was queued":      {append(stamp, queued...), TransmitStamp{ID: 5, Software: at}, false},
		"without a number":        {stamp, TransmitStamp{Software: at}, false},
		"empty":                   {nil, TransmitStamp{}, false},
		"a length beyond the end": {append(stamp[:8:8], stamp[8:20]...), TransmitStamp{}, false},
	} {
		got, ok := ParseTransmitStamp(append([]byte(nil), test.b...))
		require.Equal(t, test.ok, ok, name)
		require.Equal(t, test.want, got, name)
	}
	whole := append(append([]byte(nil), stamp...), id4...)
	for n := range whole {
		_, ok := ParseTransmitStamp(append([]byte(nil), whole[:n]...))
		require.False(t, ok && n < len(stamp)+unix.SizeofCmsghdr+16, "cut at %d", n)
	}
}

func TestParseControlStamps(t *testing.T) {
	info := make([]byte, unix.SizeofInet4Pktinfo)
	binary.NativeEndian.PutUint32(info, 3)
	copy(info[8:], []byte{233, 252, 0, 1})
	b := append(control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, timespecs(5_000_000_001, 0, 6_000_000_002)),
		control(unix.IPPROTO_IP, unix.IP_PKTINFO, info)...)
	require.Equal(t, ControlInfo{Destination: netip.AddrFrom4([4]byte{233, 252, 0, 1}), IfIndex: 3, Stamp: 5_000_000_001,
		Hardware: 6_000_000_002}, ParseControl(b))
	require.LessOrEqual(t, len(control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, timespecs(0, 0, 0)))+
		len(control(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, make([]byte, unix.SizeofInet6Pktinfo))), ControlLen, "both have room")
	require.Equal(t, int64(9), ParseControl(control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, timespecs(9))).Stamp)
}
