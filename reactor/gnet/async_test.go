package gnet

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
)

// asyncHandler answers with AsyncWrite, from a goroutine for each message.
type asyncHandler struct {
	BuiltinEventEngine
	engine chan Engine
}

func (h *asyncHandler) OnBoot(e Engine) Action { h.engine <- e; return None }

func (h *asyncHandler) OnTraffic(c Conn) Action {
	b := make([]byte, c.InboundBuffered())
	_, _ = c.Read(b)
	go func() { _ = c.AsyncWrite(b, nil) }()
	return None
}

// A goroutine that a handler has started runs before the loop sleeps, so that its AsyncWrite needs no wake-up: one sleep for each
// exchange, which is for the client, and not a second one for the goroutine. With one processor nobody else can run it.
func TestAsyncWriteNeedsNoSleep(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for _, rest := range []reactor.Rest{reactor.Adaptive, reactor.Wait} {
			t.Run(string(kind)+"/"+rest.String(), func(t *testing.T) {
				h := &asyncHandler{engine: make(chan Engine, 1)}
				result := make(chan error, 1)
				go func() { result <- Run(h, "tcp://127.0.0.1:0", WithRing(kind), WithRest(rest)) }()
				engine := <-h.engine
				c, err := net.Dial("tcp", engine.Addrs()[0].String())
				require.NoError(t, err)
				require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				message := make([]byte, 64)
				exchange := func(n int) {
					for range n {
						_, err := c.Write(message)
						require.NoError(t, err)
						_, err = io.ReadFull(c, message)
						require.NoError(t, err)
					}
				}
				exchange(20)
				loop := engine.eng.loops[0].loop
				before, err := loop.Snapshot(t.Context())
				require.NoError(t, err)
				const n = 500
				exchange(n)
				after, err := loop.Snapshot(t.Context())
				require.NoError(t, err)
				sleeps := float64(after.Sleeps-before.Sleeps) / n
				t.Logf("%.2f sleeps for each exchange", sleeps)
				require.Less(t, sleeps, 1.5)
				require.NoError(t, c.Close())
				require.NoError(t, engine.Stop(t.Context()))
				require.NoError(t, <-result)
			})
		}
	}
}
