package offload_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/udp"
)

const crashedChild = "OFFLOAD_TEST_CRASHED"

// recordedServer is an echo server on v0, by an exchange, whose connections are written down.
func recordedServer(t *testing.T, dir string) *echoServer {
	mirror, err := host.Open(host.Config{})
	require.NoError(t, err)
	x, err := offload.NewExchange(offload.ExchangeConfig{Host: mirror, Open: nic.XDP(xdp.Config{TCP: true, Retry: letGo})})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, x.Close())
		require.NoError(t, mirror.Close())
	})
	set, err := ring.NewSet(ring.SetConfig{Transport: offload.NewKernelPorts(mirror), Kind: "offload", OneRing: offload.OneRing,
		Pool: newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 16384, LargeSize: 65536, LargeCount: 32, Headroom: 192}),
		Driver: offload.New(offload.Config{Exchange: x, TCP: quickTCP(false), FlowRecord: &flowrecord.Config{Dir: dir},
			Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.AcceptPartial}}})})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return newEchoServer(t, listenTCP(t, set, "10.0.0.1:7000"))
}

// Where connections cannot be written down the path says so, and they work.
func TestWithoutACrashRecord(t *testing.T) {
	c, file := newCable(t, 1), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	e := recordedServer(t, filepath.Join(file, "flows"))
	require.Contains(t, e.listener.Path().Explain(), "tcp.no_record")
	require.Equal(t, "bypass", e.listener.Path().Tier)
	var clients echoClients
	c.InPeer(func() { clients.begin(t, connecting(t, netip.MustParseAddrPort("10.0.0.1:7000"))) })
	e.until("it serves", func() bool { return clients.bytes.Load() > 0 })
	clients.stop.Store(true)
	e.until("ended", func() bool { return clients.live.Load() == 0 && len(e.open) == 0 })
	require.Empty(t, clients.errs)
}

// A process with a thousand connections of a kernel, which are idle now, is killed: the helper, or the next start of the program, resets each
// within two seconds. Afterwards the port serves again.
func TestPeersOfKilledProcess(t *testing.T) {
	if dir := os.Getenv(crashedChild); dir != "" {
		e := recordedServer(t, dir)
		fmt.Println("ready")
		for end := time.Now().Add(testnet.Slow(2 * time.Minute)); time.Now().Before(end); e.poll() {
		}
		t.Fatal("nobody killed this process")
	}
	for _, how := range []string{"helper", "next start"} {
		t.Run(how, func(t *testing.T) { peersOfKilledProcess(t, how == "helper") })
	}
}

func peersOfKilledProcess(t *testing.T, helper bool) {
	const connections = 1000
	c, dir := newCable(t, 1), t.TempDir()
	victim := startChild(t, "TestPeersOfKilledProcess", crashedChild+"="+dir)
	at := netip.MustParseAddrPort("10.0.0.1:7000")
	var peers []net.Conn
	c.InPeer(func() {
		// One segment a frame: below Linux 6.6 longer ones are dropped (xdp.no_jumbo), and each message would cost its sender a time-out.
		require.NoError(t, netlink.LinkSetGSOMaxSegs(linkOf(t, "p0"), 1))
		for range connections {
			peers = append(peers, fileConn(t, connecting(t, at)))
		}
	})
	for i, p := range peers { // each number that the peer expects next is another one
		require.NoError(t, p.SetDeadline(time.Now().Add(3*patience)))
		message := make([]byte, 1+5*i)
		_, err := p.Write(message)
		require.NoError(t, err)
		_, err = io.ReadFull(p, message)
		require.NoError(t, err)
	}
	require.NoError(t, victim.cmd.Process.Kill())
	require.Error(t, victim.cmd.Wait())

	start := time.Now()
	if helper {
		results, err := flowrecord.ResetDead(context.Background(), flowrecord.Config{Dir: dir})
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.Equal(t, []int{connections, connections, 0}, []int{results[0].Flows, results[0].Reset, results[0].Unanswered})
	}
	e := recordedServer(t, dir)
	require.NotContains(t, e.listener.Path().Explain(), "tcp.no_record")
	t.Logf("%d peers reset in %v", connections, time.Since(start))
	for _, p := range peers {
		require.NoError(t, p.SetDeadline(time.Now().Add(patience)))
		_, err := p.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNRESET)
		require.NoError(t, p.Close())
	}
	var clients echoClients
	c.InPeer(func() { clients.begin(t, connecting(t, at)) })
	e.until("the port serves again", func() bool { return clients.bytes.Load() > 0 })
	clients.stop.Store(true)
	e.until("ended", func() bool { return clients.live.Load() == 0 && len(e.open) == 0 })
	require.Empty(t, clients.errs)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "the record of the new process alone")
}
