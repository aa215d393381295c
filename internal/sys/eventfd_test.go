package sys

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A bell that is full still rings; one that is closed says so.
func TestEventFDRing(t *testing.T) {
	bell, err := NewEventFD()
	require.NoError(t, err)
	_, err = unix.Write(bell.FD(), binary.NativeEndian.AppendUint64(nil, math.MaxUint64-1)) // the most it counts
	require.NoError(t, err)
	bell.Ring()
	bell.Drain()
	bell.Ring()
	require.NoError(t, bell.Close())
	require.PanicsWithValue(t, "sys: EventFD.Ring: descriptor -1: bad file descriptor", EventFD{-1}.Ring)
}
