package gnet

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// threeConns calls then on the loop with the first three connections, when the third one is opened.
type threeConns struct {
	BuiltinEventEngine
	engine chan Engine
	conns  []*conn
	then   func(sink, a, b *conn)
}

func (h *threeConns) OnBoot(e Engine) Action { h.engine <- e; return None }

func (h *threeConns) OnOpen(c Conn) ([]byte, Action) {
	if h.conns = append(h.conns, c.(*conn)); len(h.conns) == 3 {
		h.then(h.conns[0], h.conns[1], h.conns[2])
	}
	return nil, None
}

// A producer that cannot be read from any more is closed, which takes it off the list while the list is gone through: the others are suspended
// and resumed all the same.
func TestProducerIsClosedWhileOthersAreResumed(t *testing.T) {
	type outcome struct {
		panicked    any
		first, next state
		blocked     int
	}
	for name, first := range map[string]bool{"the first": true, "the last": false} {
		t.Run(name, func(t *testing.T) {
			done := make(chan outcome, 1)
			h := &threeConns{engine: make(chan Engine, 1)}
			h.then = func(sink, a, b *conn) {
				var o outcome
				depth := sink.el.depth
				defer func() {
					sink.el.depth = depth
					o.panicked = recover()
					done <- o
				}()
				list := []Conn{a, b}
				if !first {
					list = []Conn{b, a}
				}
				if err := sink.SetProducers(list...); err != nil {
					panic(err)
				}
				sink.full = true
				_ = sink.blockProducers()
				_ = a.socket.Abort() // as a program can by ConnX.Socket
				sink.el.depth = 0    // OUT comes when no handler runs: closing is not deferred
				sink.full = false
				sink.unblockProducers()
				o.first, o.next, o.blocked = a.state, b.state, b.blocked
			}
			result := make(chan error, 1)
			go func() { result <- Run(h, "tcp://127.0.0.1:0", WithOutboundLimits(1<<16, 1<<20)) }()
			e := <-h.engine
			for range 3 {
				c, err := net.Dial("tcp", e.Addrs()[0].String())
				require.NoError(t, err)
				defer c.Close()
			}
			select {
			case o := <-done:
				require.Nil(t, o.panicked, fmt.Sprint(o.panicked))
				require.Equal(t, stateClosed, o.first)
				require.Equal(t, stateOpen, o.next)
				require.Zero(t, o.blocked)
			case <-time.After(time.Minute):
				require.Fail(t, "the connections were not opened")
			}
			require.NoError(t, e.Stop(t.Context()))
			require.NoError(t, <-result)
		})
	}
}
