package netconn

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A call whose part on the loop panics, here because the settings ask for that where a rule cannot be followed, returns an error.
func TestACallThatPanicsOnTheLoop(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		rules := filepath.Join(t.TempDir(), "rules")
		require.NoError(t, os.WriteFile(rules, []byte("use sx tcp_client *:*\nuse sx tcp_server *:*\n"), 0o600))
		s := conf.Default()
		s.Ring, s.SmallBuffers, s.LargeBuffers, s.RulesFile, s.ExceptionHandling, s.Logger = kind, 512, 16, rules, 3, quietLog()
		e, err := xtreme.New(s)
		require.NoError(t, err)
		n, err := New(e, Config{Logger: quietLog()})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = n.Listen("tcp", "127.0.0.1:0")
		require.ErrorIs(t, err, errPanicked)
		_, err = n.DialContext(ctx, "tcp", "127.0.0.1:9")
		require.ErrorIs(t, err, errPanicked)
		require.NoError(t, n.Close())
		require.NoError(t, e.Close())
	})
}
