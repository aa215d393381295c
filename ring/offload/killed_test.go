package offload_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

const killedChild = "OFFLOAD_TEST_KILLED"

// A process that is killed while frames come takes its program along: the next datagram is the kernel's, and the interface is free for the
// next one. While it lived, a second process was told who has the interface.
func TestKilledUnderTraffic(t *testing.T) {
	if os.Getenv(killedChild) != "" {
		killedVictim(t)
		return
	}
	n := testnet.New(t, testnet.Pair{})
	victim := startChild(t, "TestKilledUnderTraffic", killedChild+"=1")
	at := netip.MustParseAddrPort("10.0.0.1:7000")
	peer := n.Dial(at)
	for i := range 100 {
		write(t, peer, fmt.Sprint(i))
		require.Equal(t, fmt.Sprint(i, " by the link"), reads(t, peer))
	}
	_, err := xdp.Open(xdp.Config{Interface: "v0", Retry: -1})
	var busy *link.Refusal
	require.ErrorAs(t, err, &busy)
	require.Equal(t, "xdp.busy", busy.Reason.Code)
	require.Contains(t, busy.Reason.Text, fmt.Sprintf("pid=%d", victim.cmd.Process.Pid))

	// The traffic goes on while the process dies and somebody else takes the port over.
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = peer.Write([]byte("traffic")) // refused, while nobody has the port
			}
		}
	}()
	require.NoError(t, victim.cmd.Process.Kill())
	require.Error(t, victim.cmd.Wait())
	heir, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	require.NoError(t, err, "the port went with the process")
	for range 1000 {
		require.Equal(t, "traffic", reads(t, heir))
	}
	require.NoError(t, heir.Close())
	x := linkOf(t, "v0").Attrs().Xdp
	require.True(t, x == nil || !x.Attached, "%+v", x)

	f := newFaulty(t, faultConfig{device: "v0"})
	s := f.bind(at.String(), ring.Config{})
	f.until("frames again", func() bool {
		for c, ok := f.take(s); ok; c, ok = f.take(s) {
			os := c.ViaKernel
			f.NoError(c.Packet.Release())
			if !os {
				return true
			}
		}
		return false
	})
	close(stop)
	<-stopped
	f.drop(s)
	f.Empty(f.errs)
}

// killedVictim answers datagrams until somebody kills it.
func killedVictim(t *testing.T) {
	f := newFaulty(t, faultConfig{device: "v0"})
	s := f.bind("10.0.0.1:7000", ring.Config{})
	fmt.Println("ready")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); f.poll() {
		for c, ok := f.take(s); ok; c, ok = f.take(s) {
			by := " by the link"
			if c.ViaKernel {
				by = " by the kernel"
			}
			_, err := s.SendTo(append(append([]byte(nil), c.Packet.Bytes()...), by...), c.Source)
			f.NoError(err)
			f.NoError(c.Packet.Release())
		}
	}
	t.Fatal("nobody killed this process")
}
