package udp

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/ip"
)

// What the path of packets touches for each of them fills whole cache lines.
func TestSizes(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(ip.Parsed{}))
	require.EqualValues(t, 80, unsafe.Sizeof(ip.Route{}))
	require.EqualValues(t, 128, unsafe.Sizeof(destination{}))
}
