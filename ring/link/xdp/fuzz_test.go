package xdp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// FuzzRings lets the kernel's side write anything into the two rings it produces: no panic, and every buffer is somewhere.
func FuzzRings(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		b := make([]byte, 17*40)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, k := fake(t, 0, fakeLayout)
		var dst [4]link.Frame
		var done [4]link.Done
		for len(b) >= 17 {
			op, x, n := b[0], binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint32(b[9:])
			options := binary.LittleEndian.Uint32(b[13:])
			b = b[17:]
			if op&1 != 0 { // a place that may make sense, rather than one that cannot
				x = x%uint64(len(q.pool.Region())+4096)/q.stride*q.stride | x>>offsetShift&511<<offsetShift
				n %= 2300
				options &= unix.XDP_PKT_CONTD
			}
			switch op >> 1 & 3 {
			case 0, 1:
				if k.rx.room(1) > 0 {
					k.rx.put(unix.XDPDesc{Addr: x, Len: n, Options: options})
					k.rx.publish()
				}
			case 2:
				if k.comp.room(1) > 0 {
					k.comp.put(x)
					k.comp.publish()
				}
			case 3:
				if p, err := q.pool.Alloc(60 + int(n%6000)); err == nil {
					p, err = q.pool.Transmit(p)
					k.NoError(err)
					if p.Len() > q.info.MaxFrame || q.Send([]link.Out{{Packet: p, Token: x & 1}}) == 0 {
						q.pool.Complete(p)
						k.NoError(p.Release())
					}
					k.NoError(q.Flush())
					k.tx.next = k.tx.producer.Load()
					k.tx.release()
				}
			}
			for ready := k.fill.ready(); ready > 0; ready-- {
				k.fill.take()
			}
			k.fill.release()
			for _, f := range dst[:q.Receive(dst[:])] {
				k.NoError(f.Packet.Release())
			}
			for _, d := range done[:q.Complete(done[:])] {
				k.NoError(d.Packet.Release())
			}
			l := q.pool.Ledger()
			k.Equal(l.Total, l.Sum())
		}
		k.NoError(q.pool.Verify())
	})
}
