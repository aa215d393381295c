package tcp

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// An idle connection is one record, one flow and one entry of the wheel: 256, 16 (at half load) and 32 bytes.
func TestRecordsAreSmall(t *testing.T) {
	require.LessOrEqual(t, int(unsafe.Sizeof(conn{})), 256)
	require.EqualValues(t, 8, unsafe.Sizeof(flow{}))
	require.LessOrEqual(t, int(unsafe.Sizeof(halfOpen{})), 80)
	require.LessOrEqual(t, int(unsafe.Sizeof(timeWait{})), 80)
	require.LessOrEqual(t, int(unsafe.Sizeof(sent{})), 40)
}
