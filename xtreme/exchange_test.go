package xtreme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// Without a poller of kind offload there is no exchange.
func TestExchangeEndsWithItsLastUser(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	for range 2 {
		require.False(t, e.HasExchange())
		leave, err := e.JoinInterfaces()
		require.NoError(t, err)
		require.True(t, e.HasExchange())
		require.NoError(t, leave())
		require.False(t, e.HasExchange())
	}
}
