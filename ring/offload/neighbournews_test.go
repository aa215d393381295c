package offload_test

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// News of a neighbour that come after a ring has looked at the tables for the last time before it sleeps, and before it says that it sleeps: the
// mirror finds nobody to wake, so the ring must look once more. The driver's clock is read between the two, which is where the test lets the
// news come. A failure that repeats itself is news too: a waiting sender has asked since the last one. News of other neighbours are none.
func TestNeighbourNewsBeforeARest(t *testing.T) {
	for _, c := range []struct {
		name    string
		pending bool
		count   string
	}{
		{name: "fails again", pending: true, count: "neighbour.failed"},
		{name: "answers", pending: true, count: "v0.tx_frames"},
		{name: "another one answers"},
		{name: "another one fails"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShared(t, 1)
			var news func()
			sc := ring.SetConfig{Transport: kernel.New(), Kind: "offload", OneRing: offload.OneRing,
				Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 1024, Headroom: 192}),
				Driver: offload.New(offload.Config{Exchange: s.exchange, Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}},
					Clock: func() clock.Time {
						if f := news; f != nil {
							news = nil
							f()
						}
						return clock.Now()
					}})}
			set, err := ring.NewSet(sc)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, set.Close()) })
			u := s.open(set, "10.0.0.1:7000")
			r, dst := u.Ring(), make([]ring.Completion, 8)
			far, other := netip.MustParseAddr("10.0.0.200"), netip.MustParseAddr("10.0.0.201")
			// One question, and a while until it counts as not answered.
			for name, value := range map[string]string{"mcast_solicit": "1", "retrans_time_ms": "1500"} {
				require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/neigh/v0/"+name, []byte(value), 0o644))
			}
			index := linkOf(t, "v0").Attrs().Index
			entry := func(a netip.Addr) host.Neighbour {
				n, _ := s.mirror.Snapshot().Neighbour(host.Target{Interface: index, Addr: a})
				return n
			}
			until := func(what string, done func() bool) {
				for end := time.Now().Add(patience); !done(); {
					require.True(t, time.Now().Before(end), what)
				}
			}
			say := func(a netip.Addr, state int) { // and wait until the mirror has it
				require.NoError(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: index, IP: a.AsSlice(), State: state,
					HardwareAddr: net.HardwareAddr{2, 0, 0, 9, 9, 9}}))
				until("the mirror was not told", func() bool { return int(entry(a).State) == state })
			}
			for _, a := range []netip.Addr{far, other} { // the kernel reports a failure only where there was an address
				say(a, netlink.NUD_REACHABLE)
				say(a, netlink.NUD_FAILED)
			}
			say(other, netlink.NUD_REACHABLE)
			failed := entry(far).Serial
			_, err = r.Poll(dst)
			require.NoError(t, err)
			_, err = u.SendTo([]byte("x"), netip.AddrPortFrom(far, 9))
			require.NoError(t, err)
			_, err = r.Poll(dst)
			require.NoError(t, err)
			require.EqualValues(t, 1, counter(r, "stack.waited_for_neighbour"))

			failsAgain := func() { until("no failure", func() bool { n := entry(far); return n.Serial > failed && n.Failed() }) }
			news = map[string]func(){
				"fails again":         failsAgain,
				"answers":             func() { say(far, netlink.NUD_PERMANENT) },
				"another one answers": func() { say(other, netlink.NUD_PERMANENT) },
				"another one fails":   func() { say(other, netlink.NUD_FAILED) },
			}[c.name]
			require.Zero(t, counter(r, "neighbour.failed"), "too slow: it has failed already")
			pending, err := r.Arm()
			require.NoError(t, err)
			require.Nil(t, news, "the driver's clock was read")
			require.Equal(t, c.pending, pending)
			_, err = r.Poll(dst)
			require.NoError(t, err)
			if c.count != "" {
				require.EqualValues(t, 1, counter(r, c.count))
				return
			}
			// And then, while it sleeps.
			pending, err = r.Arm()
			require.NoError(t, err)
			require.False(t, pending)
			failsAgain()
			list := []unix.PollFd{{Fd: int32(r.FD()), Events: unix.POLLIN}}
			n, err := unix.Poll(list, int(patience/time.Millisecond))
			require.NoError(t, err)
			require.Equal(t, 1, n, "not woken by a failure")
			_, err = r.Poll(dst)
			require.NoError(t, err)
			require.EqualValues(t, 1, counter(r, "neighbour.failed"))
		})
	}
}
