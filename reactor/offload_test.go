package reactor

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A loop of a poller with an offloaded ring and a kernel ring serves both, also when it sleeps after every turn, and ends in good order.
func TestLoopOverOffloadedAndKernelRings(t *testing.T) {
	for name, rest := range map[string]Rest{"spin": Spin, "adaptive": Adaptive, "wait": Wait} {
		t.Run(name, func(t *testing.T) {
			n := testnet.New(t, testnet.Pair{})
			var udp, tcp *xtreme.Socket
			ticks := make(chan struct{}, 1)
			echo := HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
				if !c.Events.Has(xtreme.EventPacket) {
					return
				}
				if c.Socket == udp {
					_, _ = c.Socket.SendTo(c.Packet.Bytes(), c.Source)
				} else {
					_, _ = c.Socket.Send(c.Packet.Bytes())
				}
				_ = c.Packet.Release()
			})
			l := launch(t, conf.RingOffload, echo, Config{Rest: rest}, func(l *Loop) {
				var err error
				udp, err = l.Poller().OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
				require.NoError(t, err)
				tcp, err = l.Poller().ListenTCP(netip.AddrPortFrom(n.Local(0), 0), xtreme.ListenConfig{})
				require.NoError(t, err)
			})
			packets := n.Dial(udp.LocalAddr())
			var stream net.Conn
			n.InPeer(func() {
				var err error
				stream, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(tcp.LocalAddr()))
				require.NoError(t, err)
			})
			defer stream.Close()
			require.NoError(t, stream.SetDeadline(time.Now().Add(patience)))
			b := make([]byte, 64)
			for i := range 100 {
				for _, c := range []net.Conn{packets, stream} {
					_, err := c.Write([]byte{byte(i), 'x'})
					require.NoError(t, err)
					k, err := c.Read(b)
					require.NoError(t, err)
					require.Equal(t, []byte{byte(i), 'x'}, b[:k])
				}
			}
			require.NoError(t, l.Post(func() { ticks <- struct{}{} })) // posted work wakes it whatever it rests on
			wait(t, ticks)
			require.NoError(t, l.stop(t))
		})
	}
}

// A loop of a poller with an open interface uses no processor either while nothing comes, and answers what comes then.
func TestAnIdleLoopOverAnInterfaceUsesNoProcessor(t *testing.T) {
	for name, c := range map[string]Config{"adaptive": {Rest: Adaptive, SelectPoll: time.Millisecond}, "wait": {Rest: Wait}} {
		t.Run(name, func(t *testing.T) {
			n := testnet.New(t, testnet.Pair{})
			var udp *xtreme.Socket
			echo := HandlerFunc(func(_ *Loop, c *xtreme.Completion) {
				if c.Events.Has(xtreme.EventPacket) {
					_, _ = c.Socket.SendTo(c.Packet.Bytes(), c.Source)
					_ = c.Packet.Release()
				}
			})
			c.Pin = []int{0} // a thread of its own, whose time is the loop's
			l := launch(t, conf.RingOffload, echo, c, func(l *Loop) {
				var err error
				udp, err = l.Poller().OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
				require.NoError(t, err)
			})
			peer := n.Dial(udp.LocalAddr())
			b := make([]byte, 64)
			pingPong := func() {
				_, err := peer.Write([]byte("now be quiet"))
				require.NoError(t, err)
				k, err := peer.Read(b)
				require.NoError(t, err)
				require.Equal(t, "now be quiet", string(b[:k]))
			}
			for range 20 {
				pingPong()
			}
			time.Sleep(50 * time.Millisecond)
			var before, after time.Duration
			l.do(t, func() { before = threadTime(t) })
			time.Sleep(time.Second)
			l.do(t, func() { after = threadTime(t) })
			require.Less(t, after-before, 40*time.Millisecond)
			require.NotZero(t, l.snapshot(t).Slept)
			pingPong()
		})
	}
}
