package xdp

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// BenchmarkEcho is what the rings cost us for one frame received and sent back, in batches of 8, without the kernel's part.
func BenchmarkEcho(b *testing.B) {
	q, k := fake(b, 0, fakeLayout)
	var dst [8]link.Frame
	var src [8]link.Out
	for i := 0; i < b.N; i += 8 {
		q.refill(1)
		for range 8 {
			k.fill.ready()
			k.rx.put(unix.XDPDesc{Addr: k.fill.take() | 256<<offsetShift, Len: 60})
		}
		k.fill.release()
		k.rx.publish()
		n := q.Receive(dst[:])
		for j := range dst[:n] {
			q.pool.Trim(dst[j].Packet, 14, 46, 0)
			p, _ := q.pool.Transmit(dst[j].Packet)
			_, _ = p.Push(14)
			src[j].Packet = p
		}
		q.Send(src[:n])
		_ = q.Flush()
		for r := k.tx.ready(); r > 0; r-- {
			k.comp.put(k.tx.take().Addr)
		}
		k.tx.release()
		k.comp.publish()
		q.Complete(nil)
	}
}
