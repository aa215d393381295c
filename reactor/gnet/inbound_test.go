package gnet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Withheld data that was copied to the heap and not read to its end stays in front of the packets that come later.
func TestUnreadHeapBytesStayBeforeTheNextPacket(t *testing.T) {
	layout := buffers.DefaultLayout()
	layout.SmallCount, layout.LargeCount = 64, 8
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	p, err := pool.Alloc(3)
	require.NoError(t, err)
	copy(p.Bytes(), "efg")

	var in inbound
	in.pushBytes([]byte("abcd"))
	b, err := in.next(1)
	require.NoError(t, err)
	require.Equal(t, "a", string(b))
	in.releaseRead()
	in.push(p)
	require.Equal(t, 6, in.len())
	b, err = in.next(-1)
	require.NoError(t, err)
	require.Equal(t, "bcdefg", string(b))
	in.releaseRead()
	in.done()
	require.Equal(t, layout.SmallCount+layout.LargeCount, pool.Ledger().Free)
}
