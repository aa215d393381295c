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
	bell.Signal()
	bell.Drain()
	bell.Signal()
	require.NoError(t, bell.Close())
	require.PanicsWithValue(t, "sys: EventFD.Signal: descriptor -1: bad file descriptor", EventFD{-1}.Signal)
}
