package ringtest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// acking is a fake ring that sees acknowledgements.
type acking struct{ *Fake }

// Caps is that.
func (acking) Caps() ring.Caps { return ring.CapOutPerAck }

// A ring that can raise EventOut for each acknowledgement is not refused.
func TestOutPerAckWhereTheRingCan(t *testing.T) {
	w := newWorld(t, Backend{Name: "acking", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
		d, err := NewFake(c)
		return acking{d.(*Fake)}, err
	}})
	s, _ := w.pair()
	w.NoError(s.SetOutPerAck(true))
	w.True(ring.HandleOf(s).OutPerAck, "the driver is told")
	w.NoError(s.SetOutPerAck(false))
	w.False(ring.HandleOf(s).OutPerAck)
}

// A ring that gets the logic PerCoreAttach after its first Poll locks the goroutine to the thread that it pins: with the goroutine the thread
// ends. The ring is lost, as nobody is left to close it.
func TestPerCoreAttachLocksTheThread(t *testing.T) {
	tid := attachAndLeave(t)
	for tid == os.Getpid() { // the first thread of a process does not end with its goroutine
		tid = attachAndLeave(t)
	}
	task := fmt.Sprintf("/proc/self/task/%d", tid)
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(task); os.IsNotExist(err) {
			return
		}
		require.True(t, time.Now().Before(end), "the pinned thread serves other goroutines")
	}
}

// attachAndLeave makes such a ring on a goroutine that ends, and returns its thread.
func attachAndLeave(t *testing.T) (tid int) {
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 65536, LargeCount: 8, Headroom: 192}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Kind: "fake", Driver: NewFake, Pool: pool,
		OneRing: ring.Reason{Code: "test.one", Text: "one ring for all"}})
	require.NoError(t, err)
	thread := make(chan int)
	go func() {
		r, err := set.NewRing()
		if err == nil {
			_, err = r.Poll(make([]ring.Completion, 1))
		}
		logic := ring.PerCoreAttach
		var s *ring.Socket
		if err == nil {
			s, err = set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{Alloc: &logic})
		}
		if err == nil {
			err = s.Bind(loopback)
		}
		if err != nil {
			t.Error(err)
		}
		thread <- unix.Gettid()
	}()
	return <-thread
}
