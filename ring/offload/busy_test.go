package offload_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// squatted is a ring whose interface another program has taken, and a clock that the test moves.
type squatted struct {
	*shared
	u     *ring.Socket
	clock *clock.Manual
	opens int // tries to open the device again; of a job that the test waits for
	dst   []ring.Completion
}

// newSquatted opens v0 for a ring, takes its program off, and puts another one on by take.
func newSquatted(t *testing.T, take func(p *ebpf.Program)) *squatted {
	s := &squatted{shared: newShared(t, 1), clock: &clock.Manual{}, dst: make([]ring.Completion, 8)}
	s.clock.Advance(time.Hour)
	open := nic.XDP(xdp.Config{})
	var first nic.Device
	var err error
	s.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: s.mirror, Open: func(name string, p nic.Patience) (nic.Device, error) {
		if p == nic.Impatient {
			s.opens++
		}
		d, err := open(name, p)
		if first == nil {
			first = d
		}
		return d, err
	}})
	require.NoError(t, err)
	sc := ring.SetConfig{Transport: kernel.New(), Kind: "offload", OneRing: offload.OneRing,
		Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 1024, Headroom: 192}),
		Driver: offload.New(offload.Config{Exchange: s.exchange, Clock: s.clock.Now,
			Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}}})}
	set, err := ring.NewSet(sc)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	s.u = s.open(set, "10.0.0.1:7000")
	s.poll()
	require.Equal(t, "bypass", s.u.Path().Tier)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	require.NoError(t, first.Close())
	take(p)
	s.until("busy", func() bool { s.second(); return strings.Contains(s.u.Path().Explain(), "xdp.busy") })
	return s
}

func (s *squatted) poll() {
	_, err := s.u.Ring().Poll(s.dst)
	require.NoError(s.t, err)
}

func (s *squatted) until(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !done(); s.poll() {
		require.True(s.t, time.Now().Before(end), "%s: %v", what, s.u.Path())
	}
}

// second lets a second pass, and waits for what the ring began in it.
func (s *squatted) second() {
	failures := counter(s.u.Ring(), "offload.retry_failures")
	s.clock.Advance(time.Second)
	s.until("a try", func() bool {
		return counter(s.u.Ring(), "offload.retry_failures") > failures || s.u.Path().Tier == "bypass"
	})
}

// byLink attaches as we do: by a link that goes with its process, of which the kernel tells nobody.
func byLink(t *testing.T, l *bpflink.Link) func(p *ebpf.Program) {
	return func(p *ebpf.Program) {
		var err error
		*l, err = bpflink.AttachXDP(bpflink.XDPOptions{Program: p, Interface: linkOf(t, "v0").Attrs().Index, Flags: bpflink.XDPGenericMode})
		require.NoError(t, err)
	}
}

// An interface that somebody else's program is on is opened again less and less often, down to twice a minute.
func TestBusyInterfaceIsLeftAlone(t *testing.T) {
	var l bpflink.Link
	s := newSquatted(t, byLink(t, &l))
	before := s.opens
	for range 300 { // seconds
		s.second()
	}
	require.True(t, strings.Contains(s.u.Path().Explain(), "xdp.busy"), "%v", s.u.Path())
	require.GreaterOrEqual(t, s.opens-before, 8)
	require.LessOrEqual(t, s.opens-before, 20, "tries in 300 seconds")
	require.NoError(t, l.Close())
	s.until("back in half a minute", func() bool { s.second(); return s.u.Path().Tier == "bypass" })
}

// When the program that is in the way ends with its process, the interface is had back at the next second, however long it was busy.
func TestBusyInterfaceIsHadBackWhenItsProgramEnds(t *testing.T) {
	var l bpflink.Link
	var p *ebpf.Program
	s := newSquatted(t, func(x *ebpf.Program) { p = x; byLink(t, &l)(x) })
	for range 100 {
		s.second()
	}
	info, err := p.Info()
	require.NoError(t, err)
	id, _ := info.ID()
	require.NoError(t, l.Close())
	require.NoError(t, p.Close())
	s.until("the kernel frees a program some time after its last user", func() bool {
		x, err := ebpf.NewProgramFromID(id)
		if err == nil {
			require.NoError(t, x.Close())
		}
		return errors.Is(err, os.ErrNotExist)
	})
	opens := s.opens
	s.second()
	require.Equal(t, "bypass", s.u.Path().Tier, "%v", s.u.Path())
	require.Equal(t, opens+1, s.opens)
}

// When a program is taken off by netlink, the kernel tells, and the interface is had back at once.
func TestBusyInterfaceIsHadBackWhenTheKernelTells(t *testing.T) {
	s := newSquatted(t, func(p *ebpf.Program) {
		require.NoError(t, netlink.LinkSetXdpFdWithFlags(linkOf(t, "v0"), p.FD(), unix.XDP_FLAGS_SKB_MODE))
	})
	for range 100 {
		s.second()
	}
	opens := s.opens
	require.NoError(t, netlink.LinkSetXdpFdWithFlags(linkOf(t, "v0"), -1, unix.XDP_FLAGS_SKB_MODE))
	s.until("back without time passing", func() bool { return s.u.Path().Tier == "bypass" })
	require.Equal(t, opens+1, s.opens)
}
