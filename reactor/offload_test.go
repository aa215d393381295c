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
