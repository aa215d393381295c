package buffers_test

import (
	"bytes"
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

// Functions whose names the reports must contain.

//go:noinline
func takesIt(t *testing.T, p *buffers.DriverPool) buffers.Packet { return receive(t, p, "x", 0) }

//go:noinline
func allocatesIt(p *buffers.DriverPool) buffers.Packet { pk, _ := p.Alloc(1); return pk }

//go:noinline
func keepsIt(pk buffers.Packet) { _ = pk.Retain() }

//go:noinline
func lendsIt(pk buffers.Packet) buffers.Lent { l, _ := pk.Lend(); return l }

//go:noinline
func releasesIt(x interface{ Release() error }) { _ = x.Release() }

//go:noinline
func releasesItAgain(x interface{ Release() error }) { _ = x.Release() }

func debugPool(t *testing.T) *buffers.DriverPool {
	p := tiny(t)
	p.SetDebug(true)
	return p
}

func TestDebugNamesHolderAndReleaser(t *testing.T) {
	p := debugPool(t)
	pk := takesIt(t, p)
	releasesIt(pk)
	said := panics(t, "release of a stale packet: buffer 0, generation 0", func() { releasesItAgain(pk) })
	require.Regexp(t, `(?s)taken at:.*takesIt.*released at:.*releasesIt`, said)
	require.NotContains(t, said, "releasesItAgain", "the first release is the news")
	require.NotContains(t, said, "buffers.(*", "only the caller's side")
	require.Contains(t, said, "debug_test.go:")
	require.EqualValues(t, 1, p.Stats().StaleReleases)

	// Once more, after the buffer has had another life.
	other := allocatesIt(p)
	said = panics(t, "generation 0", func() { releasesItAgain(pk) })
	require.Contains(t, said, "takesIt")
	releasesIt(other)
	said = panics(t, "generation 1", func() { releasesItAgain(other) })
	require.Contains(t, said, "allocatesIt")
}

func TestDebugNamesTheLastHolder(t *testing.T) {
	p := debugPool(t)
	pk := takesIt(t, p)
	keepsIt(pk)
	releasesIt(pk)
	releasesIt(pk)
	said := panics(t, "stale packet", func() { releasesItAgain(pk) })
	require.Regexp(t, `(?s)taken at:.*keepsIt.*released at:.*releasesIt`, said)
}

func TestDebugSaysHowTheHandleEnded(t *testing.T) {
	p := debugPool(t)
	lent := takesIt(t, p)
	l := lendsIt(lent)
	require.Regexp(t, `(?s)lent at:.*lendsIt`, panics(t, "stale packet", func() { releasesItAgain(lent) }))

	held := takesIt(t, p)
	again, err := p.Transmit(held)
	require.NoError(t, err)
	require.Contains(t, panics(t, "stale packet", func() { releasesItAgain(held) }), "\nsent at:")
	require.Contains(t, panics(t, "Deliver of a stale packet", func() { p.Deliver(held) }), "\nsent at:")
	releasesIt(again)

	head, tail := takesIt(t, p), takesIt(t, p)
	p.Append(head, tail)
	require.Contains(t, panics(t, "stale packet", func() { releasesItAgain(tail) }), "\nappended at:")
	releasesIt(head)

	releasesIt(l)
	said := panics(t, "release of a stale lent packet", func() { releasesItAgain(l) })
	require.Regexp(t, `(?s)taken at:.*lendsIt.*released at:.*releasesIt`, said)
	require.NotContains(t, said, "releasesItAgain")
}

func TestDebugNamesBuffers(t *testing.T) {
	p := debugPool(t)
	pk := takesIt(t, p)
	b := pk.Buffer()
	require.NoError(t, b.Retain())
	releasesIt(b)
	said := panics(t, "release of a stale buffer", func() { releasesItAgain(b) })
	require.Regexp(t, `(?s)taken at:.*TestDebugNamesBuffers.*released at:.*releasesIt`, said)
	require.NotContains(t, said, "releasesItAgain")
	releasesIt(pk)
}

func TestDebugForgets(t *testing.T) {
	p := tiny(t)
	pk := takesIt(t, p)
	releasesIt(pk)
	p.SetDebug(true)
	for range 4 {
		releasesIt(takesIt(t, p))
	}
	panics(t, "too old to tell", func() { releasesItAgain(pk) })
	p.SetDebug(false)
	require.ErrorIs(t, pk.Release(), buffers.ErrStale)
}

// In debug mode a slice kept too long shows it.
func TestDebugOverwritesFreeBuffers(t *testing.T) {
	p := debugPool(t)
	pk := receive(t, p, "secret", 0)
	b := pk.Bytes()
	keep := pk.Buffer()
	require.NoError(t, keep.Retain())
	releasesIt(pk)
	require.Equal(t, "secret", string(b))
	releasesIt(keep)
	require.Equal(t, bytes.Repeat([]byte{0xDB}, 6), b)
}

func TestModelInDebugMode(t *testing.T) {
	ops := make([]byte, 3000)
	for i := range ops {
		ops[i] = byte(i*7 + i>>3*13 + i>>7)
	}
	m := newModel(t, ops)
	m.quiet = true
	m.p.SetDebug(true)
	m.run()
}
