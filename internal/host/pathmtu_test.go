package host

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What the kernel has learned of a path is in the snapshot, and out of it again when the kernel has forgotten; a forged message changes nothing.
func TestPathMTUs(t *testing.T) {
	a, router := newSpace(t), newSpace(t)
	a.pair("v0", router, "p0")
	a.address("v0", "10.0.0.1/24")
	router.address("p0", "10.0.0.2/24")
	router.sysctl("ipv4/ip_forward", "1")
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "narrow", 1000
	router.add(&netlink.Dummy{LinkAttrs: attrs})
	router.up("narrow")
	router.address("narrow", "10.9.0.1/24")
	require.NoError(t, a.RouteAdd(&netlink.Route{Dst: ipnet("10.9.0.0/24"), Gw: stdIP("10.0.0.2")}))
	h := a.host(Config{})
	to := netip.MustParseAddr("10.9.0.2")
	mtu := func(s *Snapshot) int {
		w, err := s.Route(Query{Target: to})
		require.NoError(t, err)
		return w.MTU
	}
	require.Equal(t, 1500, mtu(h.Snapshot()))

	var fd int
	a.in(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	defer func() { require.NoError(t, unix.Close(fd)) }()
	send := func() error {
		return unix.Sendto(fd, make([]byte, 1400), 0, &unix.SockaddrInet4{Port: 9, Addr: to.As4()})
	}
	// The router says that the packet is too long; the kernel has learned it, and then the mirror.
	moves(t, h, "the path is narrow", func() { require.NoError(t, send()) }, func(s *Snapshot) bool { return mtu(s) == 1000 })
	again, err := Open(Config{NamespaceFD: a.fd})
	require.NoError(t, err)
	require.NoError(t, send()) // the kernel lists an exception that it has used
	require.NoError(t, again.Close())
	again, err = Open(Config{NamespaceFD: a.fd})
	require.NoError(t, err)
	require.Equal(t, 1000, mtu(again.Snapshot()), "learned before")
	require.NoError(t, again.Close())

	// A message that quotes what nobody sent.
	other := netip.MustParseAddr("10.9.0.3")
	router.in(func() error {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(raw) }()
		m := make([]byte, 8+20+8)
		m[0], m[1], m[6], m[7] = 3, 4, 600>>8, 600&0xff
		copy(m[8:], []byte{0x45, 0, 0x05, 0xdc, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP})
		src, dst := [4]byte{10, 0, 0, 1}, other.As4()
		copy(m[20:], src[:])
		copy(m[24:], dst[:])
		m[28], m[30] = 0x30, 0x39
		sum := uint32(0)
		for i := 0; i < len(m); i += 2 {
			sum += uint32(m[i])<<8 | uint32(m[i+1])
		}
		for sum>>16 != 0 {
			sum = sum&0xffff + sum>>16
		}
		m[2], m[3] = byte(^sum>>8), byte(^sum)
		return unix.Sendto(raw, m, 0, &unix.SockaddrInet4{Addr: src})
	})
	time.Sleep(5 * icmpPause)
	w, err := h.Snapshot().Route(Query{Target: other})
	require.NoError(t, err)
	require.Equal(t, 1500, w.MTU)

	// Routes that change make the kernel forget.
	a.in(func() error { return os.WriteFile("/proc/sys/net/ipv4/route/flush", []byte("1"), 0) })
	moves(t, h, "it is forgotten", func() {
		require.NoError(t, a.RouteAdd(&netlink.Route{Dst: ipnet("10.10.0.0/24"), Gw: stdIP("10.0.0.2")}))
	}, func(s *Snapshot) bool { return mtu(s) == 1500 })
}

// Messages that are cut or quote nothing name no destination.
func TestQuotedTarget(t *testing.T) {
	good := make([]byte, 20+8+20)
	good[0], good[28] = 0x45, 0x45
	copy(good[44:], []byte{10, 9, 0, 2})
	to, ok := quotedTarget(good)
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("10.9.0.2"), to)
	for n := range good {
		_, ok := quotedTarget(good[:n])
		require.False(t, ok)
	}
	good[0] = 0x4f
	_, ok = quotedTarget(good)
	require.False(t, ok, "options leave no room")
	good[0], good[28] = 0x45, 0x60
	_, ok = quotedTarget(good)
	require.False(t, ok)
}
