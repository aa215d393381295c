package ring_test

import (
	"fmt"
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/ringtest/null"
)

var benchSum uint64

// BenchmarkPoll is the completion layer per completion: Poll over a driver that asks no kernel, Bytes, Release. What it costs beyond
// BenchmarkBare is the price of the contract; at most 20 ns of it are allowed.
func BenchmarkPoll(b *testing.B) {
	for _, batch := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("batch-%d", batch), func(b *testing.B) { pollLayer(b, batch, batch) })
	}
}

// BenchmarkBare is the same loop without a ring, written by hand over the same memory.
func BenchmarkBare(b *testing.B) {
	for _, batch := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("batch-%d", batch), func(b *testing.B) {
			bare, err := null.NewBare(batch)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for done := 0; done < b.N; done += batch {
				benchSum += bare.Turn()
			}
			b.StopTimer()
			if err := bare.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkIdlePoll is a Poll that finds nothing, without the driver's part.
func BenchmarkIdlePoll(b *testing.B) { pollLayer(b, 0, 1) }

// BenchmarkPublished is BenchmarkPoll and BenchmarkIdlePoll with counters in a statistics file, its sampler, and gaps looked for.
func BenchmarkPublished(b *testing.B) {
	for _, batch := range []int{0, 1, 16, 64} {
		b.Run(fmt.Sprintf("batch-%d", batch), func(b *testing.B) {
			p, err := null.NewPublished(b.TempDir() + "/stats")
			if err != nil {
				b.Fatal(err)
			}
			pollLayer(b, batch, max(batch, 1), func(c *ring.SetConfig) { p.Configure(c, &c.Pool.Pool) })
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func pollLayer(b *testing.B, batch, step int, change ...func(*ring.SetConfig)) {
	layer, err := null.NewLayer(batch, change...)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for done := 0; done < b.N; done += step {
		sum, err := layer.Turn()
		if err != nil {
			b.Fatal(err)
		}
		benchSum += sum
	}
	b.StopTimer()
	if err := layer.Close(); err != nil {
		b.Fatal(err)
	}
}
