package gnet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// A panic in OnTick costs that tick; with StopLoop it ends the engine, and Run returns it.
func TestPanicInOnTick(t *testing.T) {
	for _, policy := range []reactor.PanicPolicy{reactor.ResetConnection, reactor.StopLoop} {
		ticks := make(chan int, 8)
		n := 0
		h := &handler{tick: func() (time.Duration, gnet.Action) {
			n++
			ticks <- n
			if n == 2 {
				panic("in OnTick")
			}
			if n > 4 {
				return time.Hour, gnet.None
			}
			return time.Millisecond, gnet.None
		}}
		s := serve(t, h, loopback, gnet.WithTicker(true), gnet.WithPanicPolicy(policy))
		require.Equal(t, 1, within(t, ticks, "a tick"))
		require.Equal(t, 2, within(t, ticks, "a tick"))
		if policy == reactor.StopLoop {
			var panicked *reactor.PanicError
			require.ErrorAs(t, s.wait(t), &panicked)
			require.Equal(t, "OnTick", panicked.Where)
			require.Empty(t, ticks)
			continue
		}
		require.Equal(t, 3, within(t, ticks, "a tick after the panic"))
	}
}
