package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

func TestTicksFollowTheClock(t *testing.T) {
	if !HasTicks {
		testnet.Missing(t, "ticks", "a counter of the processor")
	}
	begin, from := Ticks(), time.Now()
	time.Sleep(20 * time.Millisecond)
	ticks, past := Ticks()-begin, time.Since(from)
	require.InEpsilon(t, float64(past), float64(ticks)/float64(TicksIn(time.Second))*float64(time.Second), 0.2)
}
