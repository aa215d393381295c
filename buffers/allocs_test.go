package buffers_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

// Nothing on a packet's way allocates, misuse included.
func TestNoAllocations(t *testing.T) {
	p := newPool(t, buffers.DefaultLayout())
	p.SetReturnCallback(func() {})
	a := open(t, p, 1<<20)
	dst := make([]byte, 256)
	fill := func() buffers.Packet {
		i, _ := p.Take(buffers.Small)
		return p.Fill(i, 192, 64, a)
	}
	for name, f := range map[string]func(){
		"receive": func() {
			pk := fill()
			p.Deliver(pk)
			sink += len(pk.Bytes()) + pk.Len()
			_ = pk.Retain()
			_ = pk.Release()
			_ = pk.Release()
		},
		"chain": func() {
			pk := p.Append(fill(), p.Append(fill(), fill()))
			p.Deliver(pk)
			_ = pk.Pull(70)
			sink += pk.CopyTo(dst) + pk.NumBuffers()
			for s := range pk.Segments() {
				sink += len(s)
			}
			b, _ := pk.Buffer().Next()
			_ = b.Retain()
			_ = pk.Release()
			_ = b.Release()
		},
		"send": func() {
			pk, _ := p.Alloc(100)
			_ = pk.SetLen(copy(pk.Room(), dst))
			sent, _ := p.Transmit(pk)
			p.Complete(sent)
			_ = sent.Release()
		},
		"lend": func() {
			pk := fill()
			_ = pk.Retain()
			l, _ := pk.Lend()
			_ = l.Retain()
			for s := range l.Segments() {
				sink += len(s)
			}
			sink += l.CopyTo(dst)
			_ = pk.Release()
			_ = l.Release()
			_ = l.Release()
			sink += p.Reclaim()
		},
		"misuse": func() {
			pk := fill()
			_ = pk.Release()
			_ = pk.Release()
			_, _ = p.Transmit(pk)
		},
		"accounts": func() {
			b, _ := p.OpenAccount(0)
			pk := fill()
			_ = p.Over(b)
			_ = p.CloseAccount(b)
			_ = pk.Release()
		},
		"ledger": func() { sink += p.Ledger().Sum() + int(p.Stats().Loans) },
	} {
		require.Zero(t, testing.AllocsPerRun(200, f), name)
	}
	require.NoError(t, p.Verify())
}

// Closing many accounts whose buffers come back later does not grow a list on release.
func TestSettlingAccountsDoesNotAllocate(t *testing.T) {
	p := newPool(t, buffers.DefaultLayout())
	var pks []buffers.Packet
	const batch = 1500
	for range 2 * batch {
		a := open(t, p, 0)
		i, _ := p.Take(buffers.Small)
		pks = append(pks, p.Fill(i, 0, 1, a))
		require.NoError(t, p.CloseAccount(a))
	}
	n := 0
	// One warm-up and one counted run, of a batch each: an average over single releases would hide a growing list.
	require.Zero(t, testing.AllocsPerRun(1, func() {
		for range batch {
			_ = pks[n].Release()
			n++
		}
	}))
	require.Equal(t, len(pks), n)
	require.NoError(t, p.Verify())
}
