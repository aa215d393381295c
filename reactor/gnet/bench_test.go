package gnet_test

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// BenchmarkEcho is one connection's exchange of a message, client included: for profiles, not for comparisons (package
// bench has those).
func BenchmarkEcho(b *testing.B) {
	for _, k := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for _, network := range []string{"tcp", "udp"} {
			b.Run(string(k)+"/"+network, func(b *testing.B) {
				ready := make(chan gnet.Engine, 1)
				h := &handler{traffic: echo, boot: func(e gnet.Engine) gnet.Action { ready <- e; return gnet.None }}
				result := make(chan error, 1)
				go func() { result <- gnet.Run(h, network+"://127.0.0.1:0", gnet.WithRing(k)) }()
				engine := <-ready
				c, err := net.Dial(network, engine.Addrs()[0].String())
				require.NoError(b, err)
				message, answer := make([]byte, 64), make([]byte, 64)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Write(message); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(c, answer); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, c.Close())
				require.NoError(b, engine.Stop(b.Context()))
				require.NoError(b, <-result)
			})
		}
	}
}
