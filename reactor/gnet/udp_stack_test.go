package gnet

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// keeper gives away the engine and the Conns of its datagrams.
type keeper struct {
	BuiltinEventEngine
	engine chan Engine
	conns  chan Conn
}

func (k *keeper) OnBoot(e Engine) Action { k.engine <- e; return None }

func (k *keeper) OnTraffic(c Conn) Action { k.conns <- c; return None }

// Datagrams that other goroutines leave while the link has no room wait for Out, a bounded number of them, and then go in order. The end
// of the engine sends what is left. A kernel ring stands for the offloaded one.
func TestDatagramsLeftForTheLoopWaitForRoom(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) {
			k := &keeper{engine: make(chan Engine, 1), conns: make(chan Conn, 1)}
			result := make(chan error, 1)
			go func() { result <- Run(k, "udp://127.0.0.1:0", WithRing(kind)) }()
			e := <-k.engine
			us := e.eng.listeners[0].udp
			peer, err := net.Dial("udp", e.Addrs()[0].String())
			require.NoError(t, err)
			defer func() { _ = peer.Close() }()
			_, err = peer.Write([]byte("hello"))
			require.NoError(t, err)
			c := <-k.conns
			onLoop := func(f func()) {
				done := make(chan struct{})
				require.NoError(t, us.el.tasks.push(task{kind: taskRun, run: func() { f(); close(done) }}))
				<-done
			}
			write := func(text string) {
				n, err := c.Write([]byte(text))
				require.NoError(t, err)
				require.Equal(t, len(text), n)
			}
			expect := func(texts ...string) {
				b := make([]byte, 64)
				for _, text := range texts {
					require.NoError(t, peer.SetReadDeadline(time.Now().Add(20*time.Second)))
					n, err := peer.Read(b)
					require.NoError(t, err)
					require.Equal(t, text, string(b[:n]))
				}
			}
			us.mu.Lock() // nobody sends yet
			us.out.on = true
			us.mu.Unlock()

			write("a")
			expect("a")
			onLoop(func() { us.out.full = true })
			write("b")
			onLoop(func() {}) // the loop has come for it
			write("c")
			require.NoError(t, peer.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
			_, err = peer.Read(make([]byte, 1))
			require.Error(t, err, "there is no room")
			onLoop(func() { us.event(&xtreme.Completion{Events: xtreme.EventOut}) })
			expect("b", "c")

			onLoop(func() { us.out.full = true })
			large, most := make([]byte, 60_000), 0
			for ; err == nil || most == 0; most++ {
				require.Less(t, most, 1000)
				_, err = c.Write(large)
			}
			require.ErrorIs(t, err, unix.EAGAIN)
			onLoop(func() { us.out.now, us.out.next, us.out.full = batch{}, batch{}, false })

			onLoop(func() { us.out.full = true })
			write("d")
			onLoop(func() { us.out.full = false })
			require.NoError(t, e.Stop(context.Background()))
			require.NoError(t, <-result)
			expect("d")
			_, err = c.Write([]byte("e"))
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}
