package sys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type writer interface{ write(b []byte) int }

type summer struct{}

// write makes the stack grow below the caller's buffer.
func (summer) write(b []byte) (sum int) {
	var deep [16 << 10]byte
	for i := range deep {
		deep[i] = b[i%len(b)]
	}
	for _, x := range b {
		sum += int(x) + int(deep[0]) - int(b[0])
	}
	return sum
}

// A buffer on the stack stays there, and is the same one, also when the stack moves.
func TestNoEscape(t *testing.T) {
	var w writer = summer{}
	done := make(chan int)
	go func() {
		var b [100]byte
		for i := range b {
			b[i] = byte(i)
		}
		done <- w.write(NoEscape(b[:]))
	}()
	require.Equal(t, 4950, <-done)
	require.Nil(t, NoEscape(nil))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var b [100]byte
		b[3] = 1
		w.write(NoEscape(b[:]))
	}))
}
