package xdp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// A program whose stamps were asked for tells the time of arrival; a clock that does not exist is a reason, not a zero.
func TestArrivalTime(t *testing.T) {
	for _, test := range []struct {
		time   Time
		mode   Mode
		clock  link.Clock
		reason string
	}{
		{TimeOff, ModeAuto, link.ClockNone, ""},
		{TimePoll, ModeAuto, link.ClockNone, ""},
		{TimeXDP, ModeAuto, link.ClockKernel, ""},
		{TimeXDP, ModeNative, link.ClockKernel, ""},
		{TimeHardware, ModeAuto, link.ClockKernel, ReasonNoHardwareTime},
		{TimeHardware, ModeNative, link.ClockKernel, ReasonNoHardwareTime},
	} {
		t.Run(test.time.String()+" "+test.mode.String(), func(t *testing.T) {
			w := newWorld(t, 1, 1500)
			d := w.device(Config{Time: test.time, Mode: test.mode})
			q := w.open(d, 0)
			w.NoError(d.Claim(udp4000))
			peer := w.peer("10.0.0.2:5000")
			w.Equal(test.clock, q.Path().Clock)
			w.Equal(test.reason != "", q.Path().Has(ReasonNoHardwareTime), "%v", q.Path())
			for range 3 * 512 { // every buffer several times
				before := tai(t)
				w.sendTo(peer, "10.0.0.1:4000", "when?")
				for q.Receive(w.dst[:1]) == 0 {
				}
				f := w.dst[0]
				s, _ := datagram(&f)
				w.Equal("when?", s)
				w.Equal(test.clock, f.Source)
				if test.clock == link.ClockNone {
					w.Zero(f.Nanos)
				} else {
					w.GreaterOrEqual(f.Nanos, before)
					w.LessOrEqual(f.Nanos, tai(t))
				}
				w.NoError(f.Packet.Release())
			}
		})
	}
}

// Where the driver can be asked for the card's time and has none, the frame has no stamp: a veth answers 0.
func TestHardwareTimeOfZero(t *testing.T) {
	if has, _ := sys.ReleaseAtLeast(sys.KernelRelease(), 6, 3); !has {
		testnet.Missing(t, "bpf_xdp_metadata_rx_timestamp", "Linux 6.3, this is "+sys.KernelRelease())
	}
	w := newWorld(t, 1, 1500)
	l, err := netlink.LinkByName("v0")
	w.NoError(err)
	p := needProgram(t, programOptions{stamp: stampHardware, bound: l.Attrs().Index, queues: maxQueues})
	w.NoError(p.attach(l.Attrs().Index, true))
	d := &Device{program: p, native: true, queues: []int{0}, open: map[int]*Queue{}}
	d.config.defaults()
	d.info.Index, d.info.MTU, d.path.Clock = l.Attrs().Index, 1500, link.ClockHardware
	q := w.open(d, 0)
	w.NoError(d.Claim(udp4000))
	w.sendTo(w.peer("10.0.0.2:5000"), "10.0.0.1:4000", "when?")
	for end := time.Now().Add(patience); q.Receive(w.dst[:1]) == 0; {
		w.True(time.Now().Before(end))
	}
	w.Equal(link.ClockNone, w.dst[0].Source)
	w.Zero(w.dst[0].Nanos)
	s, _ := datagram(&w.dst[0])
	w.Equal("when?", s)
	w.NoError(w.dst[0].Packet.Release())
}

func tai(t *testing.T) int64 {
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_TAI, &now))
	return now.Nano()
}
