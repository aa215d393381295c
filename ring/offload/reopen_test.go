package offload_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// gated is a shared cable whose interface is opened again only when the test lets it, in the gate that it chose.
type gated struct {
	*shared
	at     string        // "device" or "queue": where the opener is held
	begun  chan struct{} // it is there
	let    chan struct{} // closed to let it go on
	again  atomic.Bool   // the first opening is behind us
	first  nic.Device
	opened atomic.Int32 // devices
	closed atomic.Int32
}

func newGated(t *testing.T, at string) *gated {
	g := &gated{shared: newShared(t, 1), at: at, begun: make(chan struct{}, 16), let: make(chan struct{})}
	open := nic.XDP(xdp.Config{})
	var err error
	g.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: g.mirror,
		Open: func(name string, p nic.Patience) (nic.Device, error) {
			if p == nic.Impatient && at == "device" {
				g.hold()
			}
			d, err := open(name, p)
			if err != nil {
				return nil, err
			}
			if g.opened.Add(1) == 1 {
				g.first = d
			}
			return gate{d, g}, nil
		}})
	require.NoError(t, err)
	return g
}

func (g *gated) hold() {
	g.begun <- struct{}{}
	<-g.let
}

// lose takes the program off, by ending the device behind the ring's back.
func (g *gated) lose(w *watcher) {
	require.NoError(g.t, g.first.Close())
	w.until("lost", func() bool { return w.s.Path().Tier == "kernel" })
}

type gate struct {
	nic.Device
	g *gated
}

func (d gate) PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (link.Staged, error) {
	if d.g.at == "queue" && d.g.again.Load() {
		d.g.hold()
	}
	return d.Device.PrepareQueue(queue, pool, fill)
}

func (d gate) Close() error {
	d.g.closed.Add(1)
	return d.Device.Close()
}

// While a lost interface is opened again, however long that takes, its ring polls on and delivers by the shadows, and the exchange is not
// locked; when it is open the owner has it at its next turn, from a sleep too.
func TestOpeningAgainStallsNobody(t *testing.T) {
	for _, at := range []string{"device", "queue"} {
		t.Run(at, func(t *testing.T) {
			g := newGated(t, at)
			w := watch(t, g.shared)
			g.again.Store(true)
			g.lose(w)
			peer := g.Dial(w.s.LocalAddr())
			defer peer.Close()
			w.until("the opener is at work", func() bool { return len(g.begun) > 0 })
			for i := range uint64(100) {
				send(t, peer, i)
				w.until("by the shadow", func() bool { return w.seen[i] })
			}
			require.Equal(t, 100, w.os)
			_, open := g.exchange.Path("v0")
			require.Equal(t, at == "queue", open)
			events := w.path
			time.AfterFunc(20*time.Millisecond, func() { close(g.let) })
			for end := time.Now().Add(patience); w.path == events; w.poll() {
				require.True(t, time.Now().Before(end), "%v", w.s.Path())
				require.NoError(t, w.s.Ring().Wait(patience)) // the opener's end wakes it
			}
			require.Equal(t, "bypass", w.s.Path().Tier)
			send(t, peer, 1000)
			w.until("by the link", func() bool { return w.seen[1000] })
			require.Equal(t, 100, w.os)
		})
	}
}

// A ring that is closed while its interface is being opened again waits for the opener, and leaves nothing open.
func TestClosedWhileOpeningAgain(t *testing.T) {
	for _, at := range []string{"device", "queue"} {
		t.Run(at, func(t *testing.T) {
			g := newGated(t, at)
			set, _, err := g.trySet(nil)
			require.NoError(t, err)
			w := &watcher{t: t, s: g.open(set, "10.0.0.1:7000"), dst: make([]ring.Completion, 8), seen: map[uint64]bool{}}
			w.poll()
			g.again.Store(true)
			g.lose(w)
			w.until("the opener is at work", func() bool { return len(g.begun) > 0 })
			time.AfterFunc(20*time.Millisecond, func() { close(g.let) })
			require.NoError(t, set.Close())
			select {
			case <-g.let:
			default:
				t.Error("closed before the opener had ended")
			}
			require.Equal(t, g.opened.Load(), g.closed.Load(), "every device is closed")
			require.NoError(t, g.exchange.Close())
			free, err := xdp.Open(xdp.Config{Interface: "v0", Retry: -1})
			require.NoError(t, err, "nothing is on the interface")
			require.NoError(t, free.Close())
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			running := strings.ReplaceAll(string(stacks), "offload_test", "")
			require.NotContains(t, running, "offload.(*driver)", "a goroutine is left")
			require.NotContains(t, running, "offload/nic.(*Attachments)", "a job is left")
		})
	}
}
