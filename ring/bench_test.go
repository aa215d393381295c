package ring_test

import (
	"fmt"
	"testing"

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

func pollLayer(b *testing.B, batch, step int) {
	layer, err := null.NewLayer(batch)
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
