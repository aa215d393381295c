package gnet

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// mergedHandler writes down what it is called for.
type mergedHandler struct {
	BuiltinEventEngine
	calls []string
}

func (h *mergedHandler) OnOpen(Conn) ([]byte, Action) {
	h.calls = append(h.calls, "open")
	return nil, None
}

func (h *mergedHandler) OnTraffic(c Conn) Action {
	b, _ := c.Next(-1)
	h.calls = append(h.calls, string(b))
	return None
}

func (h *mergedHandler) OnClose(_ Conn, err error) Action {
	h.calls = append(h.calls, fmt.Sprintf("close %t", err != nil))
	return None
}

// The contract lets a ring report a new connection, its first packet and its end in one completion. Here that is done to each
// connection, whatever the ring's timing: the test is the loop, and merges what it polls.
func TestNewConnectionMergedWithItsEnd(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for name, c := range map[string]struct {
			data  string
			reset bool
			want  []string
		}{
			"FIN":          {"", false, []string{"open", "close true"}},
			"RST":          {"", true, []string{"open", "close true"}},
			"data and FIN": {"hello", false, []string{"open", "hello", "close true"}},
			"data and RST": {"hello", true, []string{"open", "hello", "close true"}},
		} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				h := &mergedHandler{}
				eng, err := newEngine(h, applyOptions([]Option{WithRing(kind), WithNumEventLoop(1)}))
				require.NoError(t, err)
				require.NoError(t, eng.bind([]string{"tcp://127.0.0.1:0"}))
				defer func() { require.NoError(t, eng.abandon()) }()
				el := eng.loops[0]
				el.self.Store(sys.Goroutine())
				before := el.poller.Rings()[0].Sockets()
				conn, err := net.Dial("tcp", el.acceptors[0].local.String())
				require.NoError(t, err)
				poll := func(f func(*xtreme.Completion)) {
					var done [8]xtreme.Completion
					n, err := el.poller.Poll(done[:])
					require.NoError(t, err)
					for i := range done[:n] {
						f(&done[i])
					}
				}
				var merged xtreme.Completion
				ends := false
				for end := time.Now().Add(10 * time.Second); !merged.Events.Any(xtreme.EventRdHup | xtreme.EventHup); {
					require.True(t, time.Now().Before(end), "no end after %v", merged.Events)
					poll(func(one *xtreme.Completion) {
						if merged.Events == 0 {
							merged = *one
							return
						}
						require.Equal(t, merged.Socket, one.Socket)
						merged.Events |= one.Events
						if one.Events.Has(xtreme.EventPacket) {
							merged.Packet = one.Packet
							one.Packet = buffers.Packet{}
						}
						if one.Err != nil {
							merged.Err = one.Err
						}
					})
					if merged.Events.Has(xtreme.EventNewConnection) && !ends {
						ends = true
						if c.data != "" {
							_, err = conn.Write([]byte(c.data))
							require.NoError(t, err)
							for merged.Packet.IsZero() { // before a reset makes the kernel forget it
								poll(func(one *xtreme.Completion) { merged.Events |= one.Events; merged.Packet = one.Packet })
							}
						}
						if c.reset {
							require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
						}
						require.NoError(t, conn.Close())
					}
				}
				require.True(t, merged.Events.Has(xtreme.EventNewConnection))
				el.Handle(el.loop, &merged)
				for end := time.Now().Add(3 * time.Second); el.poller.Rings()[0].Sockets() > before && time.Now().Before(end); {
					poll(func(one *xtreme.Completion) { el.Handle(el.loop, one) })
				}
				require.Equal(t, c.want, h.calls)
				require.Equal(t, before, el.poller.Rings()[0].Sockets(), "the socket is closed")
				require.Zero(t, el.count.Load())
			})
		}
	}
}
