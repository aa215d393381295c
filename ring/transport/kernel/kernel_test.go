package kernel_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

func newSet(t *testing.T) *ring.Set {
	l := buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 65536, LargeCount: 4, Headroom: 192}
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	set, err := ring.NewSet(ring.SetConfig{Pool: pool, Transport: kernel.New(), Kind: "epoll", Driver: epoll.New})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return set
}

// Each option of the core arrives as the kernel's option that it names, for each family.
func TestOptions(t *testing.T) {
	type name struct{ level, option int }
	const multicastAll, multicastAll6 = 49, 29
	for _, family := range []ring.Family{ring.IPv4, ring.IPv6} {
		ipv6 := family == ring.IPv6
		set := newSet(t)
		stream, err := set.NewSocket(ring.KindStream, family, ring.Config{})
		require.NoError(t, err)
		datagram, err := set.NewSocket(ring.KindDatagram, family, ring.Config{})
		require.NoError(t, err)
		per := func(four, six name) name {
			if ipv6 {
				return six
			}
			return four
		}
		options := map[ring.Option]struct {
			s     *ring.Socket
			value int
			name  name
			want  int
		}{
			ring.OptionNoDelay:           {stream, 1, name{unix.IPPROTO_TCP, unix.TCP_NODELAY}, 1},
			ring.OptionQuickAck:          {stream, 1, name{unix.IPPROTO_TCP, unix.TCP_QUICKACK}, 1},
			ring.OptionKeepAlive:         {stream, 1, name{unix.SOL_SOCKET, unix.SO_KEEPALIVE}, 1},
			ring.OptionKeepAliveIdle:     {stream, 11, name{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, 11},
			ring.OptionKeepAliveInterval: {stream, 12, name{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, 12},
			ring.OptionKeepAliveCount:    {stream, 13, name{unix.IPPROTO_TCP, unix.TCP_KEEPCNT}, 13},
			ring.OptionUserTimeout:       {stream, 1400, name{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}, 1400},
			ring.OptionPacingRate:        {stream, 1 << 20, name{unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE}, 1 << 20},
			ring.OptionReceiveBuffer:     {datagram, 8192, name{unix.SOL_SOCKET, unix.SO_RCVBUF}, 16384}, // socket(7): doubled
			ring.OptionSendBuffer:        {datagram, 8192, name{unix.SOL_SOCKET, unix.SO_SNDBUF}, 16384},
			ring.OptionReuseAddr:         {datagram, 1, name{unix.SOL_SOCKET, unix.SO_REUSEADDR}, 1},
			ring.OptionReusePort:         {datagram, 1, name{unix.SOL_SOCKET, unix.SO_REUSEPORT}, 1},
			ring.OptionBroadcast:         {datagram, 1, name{unix.SOL_SOCKET, unix.SO_BROADCAST}, 1},
			ring.OptionIPv6Only:          {datagram, 1, name{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY}, 1},
			ring.OptionTTL:               {datagram, 15, per(name{unix.IPPROTO_IP, unix.IP_TTL}, name{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS}), 15},
			ring.OptionTOS:               {datagram, 0x10, per(name{unix.IPPROTO_IP, unix.IP_TOS}, name{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}), 0x10},
			ring.OptionMulticastLoop:     {datagram, 0, per(name{unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP}, name{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP}), 0},
			ring.OptionMulticastTTL:      {datagram, 17, per(name{unix.IPPROTO_IP, unix.IP_MULTICAST_TTL}, name{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS}), 17},
			ring.OptionMulticastAll:      {datagram, 0, per(name{unix.IPPROTO_IP, multicastAll}, name{unix.IPPROTO_IPV6, multicastAll6}), 0},
			ring.OptionMulticastInterface: {datagram, 1, per(name{unix.IPPROTO_IP, unix.IP_MULTICAST_IF},
				name{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF}), 1},
		}
		require.Len(t, options, int(ring.OptionPacingRate)+1, "all of them")
		for o, x := range options {
			if o == ring.OptionIPv6Only && !ipv6 {
				continue
			}
			require.NoError(t, ring.TransportOf(x.s).SetOption(x.s, o, x.value), "option %d", o)
			if o == ring.OptionMulticastInterface && !ipv6 {
				continue // the kernel answers with an address
			}
			got, err := unix.GetsockoptInt(kernel.FD(x.s), x.name.level, x.name.option)
			require.NoError(t, err, "option %d", o)
			require.Equal(t, x.want, got, "option %d, IPv6 %v", o, ipv6)
		}
		require.ErrorIs(t, ring.TransportOf(stream).SetOption(stream, 255, 1), unix.ENOPROTOOPT)
	}
}

// A file that somebody else has put in the place of the one that was made stays.
func TestRemoveUnixLeavesOthersFiles(t *testing.T) {
	set := newSet(t)
	path := filepath.Join(t.TempDir(), "socket")
	for _, replaced := range []bool{false, true} {
		s, err := set.NewUnix(ring.Config{})
		require.NoError(t, err)
		k := ring.TransportOf(s).(ring.UnixTransport)
		bound, file, err := k.BindUnix(s, path)
		require.NoError(t, err)
		require.Equal(t, path, bound)
		require.NotZero(t, file)
		if replaced {
			other := filepath.Join(filepath.Dir(path), "other")
			require.NoError(t, os.WriteFile(other, nil, 0o600))
			require.NoError(t, os.Rename(other, path))
		}
		require.NoError(t, k.RemoveUnix(path, file))
		_, err = os.Lstat(path)
		require.Equal(t, replaced, err == nil)
		require.NoError(t, k.RemoveUnix(path, file), "gone already, or another's")
	}
}

// The interface of an address, of loopback's others, and of one that no interface has.
func TestInterfaceOf(t *testing.T) {
	k := kernel.New()
	lo, err := k.Interface("lo")
	require.NoError(t, err)
	for _, a := range []string{"127.0.0.1", "127.0.0.77", "::ffff:127.0.0.1"} {
		require.Equal(t, lo, k.InterfaceOf(netip.MustParseAddr(a)), a)
	}
	require.Zero(t, k.InterfaceOf(netip.MustParseAddr("192.0.2.1")))
	_, err = k.Interface("no such")
	require.ErrorIs(t, err, unix.ENODEV)
}
