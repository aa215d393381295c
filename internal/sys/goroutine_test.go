package sys

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

func TestGoroutineTellsGoroutinesApart(t *testing.T) {
	const n = 100
	ids, done := make(chan uintptr), make(chan struct{})
	for range n {
		go func() {
			ids <- Goroutine()
			<-done // all live at once: an identity may be used again only after its goroutine
		}()
	}
	seen := map[uintptr]bool{Goroutine(): true}
	for range n {
		id := <-ids
		require.NotZero(t, id)
		require.False(t, seen[id])
		seen[id] = true
	}
	close(done)
}

func TestGoroutineStaysTheSame(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		id := Goroutine()
		if deep := grow(10_000); deep != id || Goroutine() != id {
			t.Errorf("in a stack that grew: %x, after: %x, before: %x", deep, Goroutine(), id)
		}
		for range 3 {
			runtime.GC()
			runtime.Gosched() // perhaps another thread
		}
		if Goroutine() != id {
			t.Errorf("after collections: %x, before %x", Goroutine(), id)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if Goroutine() != id {
			t.Errorf("locked to a thread: %x, before %x", Goroutine(), id)
		}
	}()
	<-done
}

// grow needs a megabyte and more of a stack that begins with a few kilobytes, and asks at the bottom of it.
//
//go:noinline
func grow(depth int) uintptr {
	var frame [128]byte
	frame[depth%len(frame)] = 1
	if depth == 0 {
		return Goroutine()
	}
	id := grow(depth - 1)
	if frame[depth%len(frame)] != 1 {
		return 0
	}
	return id
}

func TestGoroutineDoesNotAllocate(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		testnet.Missing(t, "assembly", "for "+runtime.GOARCH+"; the stack trace that replaces it is not on a path")
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { Goroutine() }))
}

func BenchmarkGoroutine(b *testing.B) {
	id, same := Goroutine(), 0
	for b.Loop() {
		if Goroutine() == id {
			same++
		}
	}
	if same != b.N {
		b.Fatal("another goroutine's identity")
	}
}
