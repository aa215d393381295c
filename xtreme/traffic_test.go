package xtreme_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// onEachCable runs a test on every kind of ring, with a kernel at the other end of a cable.
func onEachCable(t *testing.T, test func(w *cabled, offloaded bool)) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w := &cabled{net: testnet.New(t, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
		w.engine = w.newEngine(func(s *conf.Settings) { s.Ring = kind })
		w.poller = w.newPoller("test")
		test(w, kind == conf.RingOffload)
	})
}

// Datagrams longer than the MTU are cut and put together by the kernel, on an offloaded ring too; the others are not its own there.
func TestFragmentedDatagrams(t *testing.T) {
	onEachCable(t, func(w *cabled, offloaded bool) {
		s := w.udp(w.at(0))
		peer := w.net.Dial(s.LocalAddr())
		for _, n := range []int{1472, 1473, 5000, 65507} {
			sent := bytes.Repeat([]byte{byte(n)}, n)
			w.write(peer, string(sent))
			c := w.event(s, xtreme.EventPacket)
			w.Equal(sent, c.Packet.Bytes())
			w.Equal(offloaded && n > 1472, c.ViaKernel)
			w.NoError(c.Packet.Release())
			byKernel := uint64(0)
			if offloaded { // other rings have no such counter
				byKernel = counter(s.Ring(), "offload.os_sends")
			}
			w.sendTo(s, string(sent), addr(peer.LocalAddr()))
			w.NoError(w.poller.Flush())
			got := make([]byte, 1<<16)
			k, err := peer.Read(got)
			w.NoError(err)
			w.Equal(sent, got[:k])
			if offloaded {
				w.Equal(n > 1472, counter(s.Ring(), "offload.os_sends") > byKernel)
			}
		}
		w.close(s)
	})
}

// Sockets that are opened and closed on an interface under traffic cost another socket there nothing: it receives all, in order.
func TestSocketsComeAndGoUnderTraffic(t *testing.T) {
	onEachCable(t, func(w *cabled, offloaded bool) {
		s := w.udp(w.at(0), xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 1 << 20}})
		peer := w.net.Dial(s.LocalAddr())
		stop := make(chan int)
		received, read := 0, atomic.NewInt64(0)
		go func() {
			const inFlight = 200 // fewer than the ring's buffers, however long the test's thread does not run
			for n := 0; ; n++ {
				for first := true; first || int64(n)-read.Load() >= inFlight; first = false {
					select {
					case stop <- n:
						return
					default:
					}
					if !first || n%10 == 0 {
						time.Sleep(300 * time.Microsecond)
					}
				}
				_, _ = fmt.Fprint(peer, n)
			}
		}()
		take := func() {
			w.poll()
			rest := w.kept[:0]
			for _, c := range w.kept {
				if c.Socket != s {
					rest = append(rest, c)
					continue
				}
				w.Equal(fmt.Sprint(received), string(c.Packet.Bytes()))
				w.False(c.ViaKernel)
				w.NoError(c.Packet.Release())
				received++
			}
			read.Store(int64(received))
			w.kept = rest
		}
		for end := time.Now().Add(patience); received == 0; take() { // the sender runs
			w.True(time.Now().Before(end))
		}
		for i := range 100 {
			at := netip.AddrPortFrom(w.net.Local(0), uint16(9000+i%3)) // the ports are used again
			x, y := w.udp(at), w.udp(netip.AddrPortFrom(w.net.Other(0), at.Port()), xtreme.UDPConfig{Remote: netip.AddrPortFrom(w.net.Peer(0), 9)})
			other := w.net.Dial(at)
			w.write(other, "another")
			for len(w.kept) == 0 {
				take()
			}
			w.Equal("another", w.text(x))
			w.NoError(other.Close())
			w.NoError(x.Close())
			w.NoError(y.Close())
			for len(w.kept) < 2 {
				take()
			}
			w.kept = w.kept[:0] // CLOSED
		}
		sent := <-stop
		for end := time.Now().Add(patience); received < sent; take() {
			w.True(time.Now().Before(end), "%d of %d", received, sent)
		}
		w.Positive(sent)
		w.close(s)
	})
}
