package offload_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/udp"
)

// sharedTCP is v0 with a ring that carries TCP on an exchange, and a listener on it.
func sharedTCP(t *testing.T, c *cable, l buffers.Layout, listen string) (s *shared, listener *ring.Socket, detach func()) {
	s, detach = detachableOn(t, c, xdp.Config{TCP: true, Retry: letGo})
	sc := ring.SetConfig{Transport: offload.NewKernelPorts(s.mirror), Pool: newPool(t, l), Kind: "offload", OneRing: offload.OneRing,
		Driver: offload.New(offload.Config{Exchange: s.exchange, TCP: quickTCP(false),
			Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}}})}
	set, err := ring.NewSet(sc)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return s, listenTCP(t, set, listen), detach
}

// The steering program is off the interface for two seconds, in whose place is another one, under many busy connections of a kernel: the guard
// keeps their segments from our kernel, so that none is reset; no byte is lost, and all go on by the links afterwards. The kernel accepts the
// connections that are opened meanwhile. They go on as the kernel's beside ours, and those that are opened later are ours again.
func TestProgramOffUnderBusyConnections(t *testing.T) {
	connections := 1000
	if raceEnabled || testing.Short() {
		connections = 200
	}
	s, l, detach := sharedTCP(t, newCable(t, 1), buffers.Layout{SmallSize: 2048, SmallCount: 16384, LargeSize: 65536, LargeCount: 32, Headroom: 192},
		"10.0.0.1:7000")
	e := newEchoServer(t, l)
	require.NotContains(t, l.Path().Explain(), "guard.")
	var clients echoClients
	for i := range connections {
		s.InPeer(func() { clients.begin(t, connecting(t, l.LocalAddr())) })
		if i%16 == 0 {
			e.poll()
		}
	}
	e.until("all connected", func() bool { return e.own == connections })
	moved := func(what string, n int64) {
		from := clients.bytes.Load()
		e.until(what, func() bool { return clients.bytes.Load() > from+n })
	}
	moved("busy", 1<<22)

	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	require.NoError(t, err)
	detach()
	other, err := bpflink.AttachXDP(bpflink.XDPOptions{Program: pass, Interface: linkOf(t, "v0").Attrs().Index, Flags: bpflink.XDPGenericMode})
	require.NoError(t, err)
	off := time.Now()
	e.until("lost", func() bool { return l.Path().Lost != "" })
	const meanwhile = 50
	for i := range meanwhile { // the SYNs of some are dropped at first, and sent again
		s.InPeer(func() { clients.begin(t, connecting(t, l.LocalAddr())) })
		end := time.Now().Add(time.Duration(i%2) * 40 * time.Millisecond)
		e.until("some time", func() bool { return time.Now().After(end) })
	}
	e.until("two seconds", func() bool { return time.Since(off) > 2*time.Second && e.kernels == meanwhile })
	require.NotEmpty(t, l.Path().Lost, "%v", l.Path().Explain())
	require.Equal(t, connections, e.own)
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); { // accepted by the kernel alone when the program is back
		s.InPeer(func() { clients.begin(t, connecting(t, l.LocalAddr())) })
		time.Sleep(10 * time.Millisecond)
	}
	require.NoError(t, other.Close())
	require.NoError(t, pass.Close())

	e.until("back", func() bool { return l.Path().Lost == "" })
	frames := counter(l.Ring(), "v0.rx_frames")
	moved("busy again", 1<<22) // those of the kernel first: the others wait for their peers to send again
	e.until("by the link", func() bool { return counter(l.Ring(), "v0.rx_frames") > frames+1000 })
	e.until("accepted", func() bool { return int64(e.own+e.kernels) == clients.live.Load() })
	require.Greater(t, e.kernels, meanwhile)
	require.Equal(t, map[string]bool{"tcp.while_away": true}, e.why)
	require.Equal(t, connections, e.own)
	passed := counter(l.Ring(), "v0.steer.kernel")
	moved("busy, those of the kernel too", 1<<22)
	require.Greater(t, counter(l.Ring(), "v0.steer.kernel"), passed)
	s.InPeer(func() { clients.begin(t, connecting(t, l.LocalAddr())) })
	e.until("ours", func() bool { return e.own == connections+1 })

	clients.stop.Store(true)
	e.until("all ended", func() bool { return clients.live.Load() == 0 && len(e.open) == 0 })
	require.Empty(t, clients.errs)
	require.Empty(t, e.failed)
	require.Zero(t, counter(l.Ring(), "tcp.resets_received"))
	require.Zero(t, counter(l.Ring(), "tcp.resets_sent"))
	require.Zero(t, counter(l.Ring(), "tcp.unpassed"))
	require.NotZero(t, counter(l.Ring(), "v0.guard.segment"))
}

// Somebody takes the guard off by force: another one is put on, and keeps the ports from the kernel as the first one did.
func TestGuardTakenOffByForce(t *testing.T) {
	_, l, _ := sharedTCP(t, newCable(t, 1), buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192},
		"10.0.0.1:7000")
	e := newEchoServer(t, l)
	at := fmt.Sprintf("\nifindex:\t%d", linkOf(t, "v0").Attrs().Index)
	guards := func(f func(bpflink.Link)) (n int) { // of this process: others may have interfaces of the same number
		files, err := filepath.Glob("/proc/self/fdinfo/*")
		require.NoError(t, err)
		for _, name := range files {
			b, _ := os.ReadFile(name) // those that are closed meanwhile are none
			_, rest, isLink := strings.Cut(string(b), "link_id:\t")
			if !isLink || !strings.Contains(string(b), "tcx") || !strings.Contains(string(b), at) {
				continue
			}
			n++
			id, _, _ := strings.Cut(rest, "\n")
			number, err := strconv.Atoi(id)
			require.NoError(t, err)
			if f != nil {
				l, err := bpflink.NewFromID(bpflink.ID(number))
				require.NoError(t, err)
				f(l)
				require.NoError(t, l.Close())
			}
		}
		return n
	}
	require.Equal(t, 1, guards(nil))
	paths := 0
	e.path = func() { paths++ }
	guards(func(l bpflink.Link) { require.NoError(t, l.Detach()) })
	require.Zero(t, guards(nil))
	e.until("another guard", func() bool { return guards(nil) == 1 && paths > 0 })
	e.until("its entries", func() bool { return !strings.Contains(l.Path().Explain(), "guard.") })
	require.Empty(t, l.Path().Lost)
}
