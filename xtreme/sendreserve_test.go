package xtreme_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// VMA_TX_BUFS beside a small VMA_RX_BUFS: every socket receives, also those of the kernel beside an offloaded one, whose card takes its
// buffers first.
func TestReceivesBesideTransmitBuffers(t *testing.T) {
	for _, n := range [][2]int{{64, 0}, {64, 192}, {128, 500}, {200, 768}, {256, 1024}} {
		for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll, conf.RingOffload} {
			t.Run(fmt.Sprintf("%s, VMA_RX_BUFS=%d VMA_TX_BUFS=%d", kind, n[0], n[1]), func(t *testing.T) {
				w := newCabled(t)
				w.engine = w.newEngine(func(s *conf.Settings) { s.Ring, s.SmallBuffers, s.SendBuffers, s.LargeBuffers = kind, n[0], n[1], 8 })
				w.other(w.newPoller("few")).receivesEverywhere(w)
			})
		}
	}
}

// receivesEverywhere sends to sockets of every kind, on the veth and on loopback, and wants all of it.
func (x *world) receivesEverywhere(w *cabled) {
	w.t.Helper()
	small := xtreme.UDPConfig{LargestDatagram: 1500}
	onVeth, onLoopback := x.udp(w.at(0), small), x.udp(netip.MustParseAddrPort("127.0.0.1:0"), small)
	large := x.udp(netip.MustParseAddrPort("127.0.0.1:0"))
	a, toA := x.pair(x.listen())
	b, toB := x.pair(x.listen(xtreme.ListenConfig{LargeStream: true}))
	fromNet := w.net.Dial(onVeth.LocalAddr())
	toLoopback, toLarge := x.peer(onLoopback.LocalAddr()), x.peer(large.LocalAddr())
	for i := range 20 {
		text := fmt.Sprint(i)
		x.write(fromNet, text)
		w.Equal(text, x.text(onVeth))
		x.write(toLoopback, text)
		w.Equal(text, x.text(onLoopback))
		x.write(toLarge, text)
		w.Equal(text, x.text(large))
		x.write(toA, text)
		w.Equal(text, x.text(a))
		x.write(toB, text)
		w.Equal(text, x.text(b))
	}
}
