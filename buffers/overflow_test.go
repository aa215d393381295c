package buffers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Lent references stop long before they could reach the owner's share bit, which no test can count up to.
func TestLentReferencesDoNotOverflow(t *testing.T) {
	l := Layout{SmallSize: 64, SmallCount: 1}
	p, err := New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	pk, err := p.Alloc(1)
	require.NoError(t, err)
	lent, err := pk.Lend()
	require.NoError(t, err)
	p.loans[lent.head].Store(loanWord(lent.ticket, lentMask/2))
	require.NoError(t, lent.Retain())
	require.ErrorIs(t, lent.Retain(), ErrOverflow)
	require.NoError(t, lent.Release())
	require.NoError(t, lent.Retain())
}

// Generations and tickets wrap; a wrapped one is as good as any.
func TestGenerationsWrap(t *testing.T) {
	l := Layout{SmallSize: 64, SmallCount: 1}
	p, err := New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	p.meta[0].gen, p.meta[0].bufGen = ^uint32(0), ^uint32(0)
	p.loans[0].Store(loanWord(^uint32(0), 0))
	for range 3 {
		pk, err := p.Alloc(1)
		require.NoError(t, err)
		b := pk.Buffer()
		lent, err := pk.Lend()
		require.NoError(t, err)
		require.False(t, pk.Valid())
		require.True(t, lent.Valid() && b.Valid())
		require.NoError(t, lent.Release())
		require.Equal(t, 1, p.Reclaim())
		require.ErrorIs(t, lent.Release(), ErrStale)
		require.False(t, b.Valid())
		require.NoError(t, p.Verify())
	}
}
