package xdp

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// What is tried for which driver, memory and wish.
func TestWaysOfBinding(t *testing.T) {
	copying := []attempt{{false, true}, {false, false}}
	zero := []attempt{{true, true}, {true, false}}
	card := kind{name: "device", native: true, zeroCopy: true}
	for _, test := range []struct {
		device     *Device
		contiguous bool
		want       []attempt
		reason     bool
	}{
		{&Device{kind: card, native: true}, true, append(zero[:2:2], copying...), false},
		{&Device{kind: card, native: true}, false, copying, true},
		{&Device{kind: card}, true, copying, true},
		{&Device{kind: kind{name: "veth"}, native: true}, true, copying, true},
		{&Device{kind: card, native: true, config: Config{Copy: CopyAlways}}, true, copying, false},
		{&Device{kind: card, config: Config{Copy: CopyNever}}, false, zero, false},
	} {
		got, reasons := test.device.attempts(test.contiguous)
		require.Equal(t, test.want, got)
		require.Equal(t, test.reason, len(reasons) == 1, "%v", reasons)
		if test.reason {
			require.Equal(t, ReasonNoZeroCopy, reasons[0].Code)
		}
	}
}

// A driver without XDP: the program runs behind it, with the reason; or not at all if it was to be native.
func TestNoNative(t *testing.T) {
	w := newWorld(t, 1, 1500)
	lo, err := netlink.LinkByName("lo")
	w.NoError(err)
	d := &Device{config: Config{Interface: "lo", Time: TimeHardware}, kind: kind{name: "device", native: true, clock: true}}
	d.config.defaults()
	d.info = link.Info{Index: lo.Attrs().Index, MTU: 1500}
	w.NoError(d.attach())
	w.True(d.path.Has(ReasonNoNative), "%v", d.path)
	w.True(d.path.Has(ReasonNoHardwareTime), "%v", d.path)
	w.Equal("generic", d.path.Mode)
	w.Equal(link.ClockKernel, d.path.Clock)
	w.NoError(d.program.Close())

	_, err = Open(Config{Interface: "lo", Mode: ModeNative})
	w.ErrorIs(refused(t, err, ReasonNoNative), unix.EOPNOTSUPP)
}

// AF_XDP works on a TAP device too: what is written into it is received.
func TestTap(t *testing.T) {
	w := newWorld(t, 1, 1500)
	tap := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI,
		NonPersist: true, Queues: 1}
	tap.Name = "t0"
	if err := netlink.LinkAdd(tap); errors.Is(err, os.ErrNotExist) {
		testnet.Missing(t, "tap", err)
	} else {
		w.NoError(err)
	}
	defer func() { w.NoError(tap.Fds[0].Close()) }()
	w.up("t0", "10.1.0.1", 1500)
	d := w.device(Config{Interface: "t0"})
	q := w.open(d, 0)
	w.Equal("generic", d.Path().Mode)
	w.NoError(d.Claim(Flow{Protocol: link.UDP, Local: ap("10.1.0.1:4000")}))
	frame := packet{dstMAC: q.Info().Addr, src: ap("10.1.0.2:5000"), dst: ap("10.1.0.1:4000"), payload: []byte("through the TAP")}.bytes()
	_, err := tap.Fds[0].Write(frame)
	w.NoError(err)
	w.Equal("through the TAP", w.next(q))
}
