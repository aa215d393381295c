package buffers_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
)

var sink int

// BenchmarkReceive is the packet path of the pool: Take, Fill, Deliver, Bytes, Release, in batches as a ring has them.
func BenchmarkReceive(b *testing.B) {
	const batch = 64
	p := newPool(b, buffers.DefaultLayout())
	a, _ := p.OpenAccount(0)
	var pks [batch]buffers.Packet
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		for i := range pks {
			k, _ := p.Take(buffers.Small)
			pks[i] = p.Fill(k, 192, 64, a)
		}
		for i := range pks {
			p.Deliver(pks[i])
			sink += int(pks[i].Bytes()[0])
			_ = pks[i].Release()
		}
	}
}

// BenchmarkRelease is an owner's release of single-buffer packets, most of a pool at a time.
func BenchmarkRelease(b *testing.B) {
	p := newPool(b, buffers.DefaultLayout())
	a, _ := p.OpenAccount(0)
	pks := make([]buffers.Packet, 2048)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += len(pks) {
		b.StopTimer()
		for i := range pks {
			k, _ := p.Take(buffers.Small)
			pks[i] = p.Fill(k, 192, 64, a)
		}
		b.StartTimer()
		for i := range pks {
			_ = pks[i].Release()
		}
	}
}

// BenchmarkBytes is reading the handle of a live packet.
func BenchmarkBytes(b *testing.B) {
	p := newPool(b, buffers.DefaultLayout())
	var pks [64]buffers.Packet
	for i := range pks {
		pks[i], _ = p.Alloc(64)
	}
	for n := 0; n < b.N; n++ {
		sink += len(pks[n&63].Bytes())
	}
}

// BenchmarkLend is a packet's trip through a Lent and back, without leaving the goroutine: the price of the atomics.
func BenchmarkLend(b *testing.B) {
	p := newPool(b, buffers.DefaultLayout())
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n++ {
		pk, _ := p.Alloc(64)
		l, _ := pk.Lend()
		_ = l.Release()
		p.Reclaim()
	}
}

// BenchmarkOver is the question the ring core asks per packet.
func BenchmarkOver(b *testing.B) {
	p := newPool(b, buffers.DefaultLayout())
	a, _ := p.OpenAccount(1 << 20)
	for n := 0; n < b.N; n++ {
		if p.Over(a) {
			sink++
		}
	}
}

// BenchmarkLedger is the scan over a default pool.
func BenchmarkLedger(b *testing.B) {
	p := newPool(b, buffers.DefaultLayout())
	for n := 0; n < b.N; n++ {
		sink += p.Ledger().Free
	}
}

// BenchmarkSentCopy is the life of a copy that is sent, by the steps that a caller with a packet of its own takes, and by AllocTransmit and
// FreeTransmit.
func BenchmarkSentCopy(b *testing.B) {
	p := newPool(b, buffers.DefaultLayout())
	b.Run("steps", func(b *testing.B) {
		for n := 0; n < b.N; n++ {
			pk, _ := p.Alloc(64)
			sink += len(pk.Room()[:64])
			pk, _ = p.Transmit(pk)
			_, _ = pk.Push(42)
			sink += len(pk.Bytes())
			p.Complete(pk)
			_ = pk.Release()
		}
	})
	b.Run("draft", func(b *testing.B) {
		for n := 0; n < b.N; n++ {
			pk, frame := p.AllocTransmit(42, 64)
			sink += len(frame)
			p.FreeTransmit(pk)
		}
	})
}
