package netconn

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The file of the engine's log (VMA_LOG_FILE) gets what a network and its loops have to say.
func TestNetworksWriteToTheEnginesLog(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		s := conf.Default()
		s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 512, 16
		s.LogFile = filepath.Join(t.TempDir(), "log")
		e, err := xtreme.New(s)
		require.NoError(t, err)
		n, err := New(e, Config{})
		require.NoError(t, err)
		ln, err := n.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		require.NoError(t, n.loops[0].reactor.Post(func() {
			defer close(done)
			(&listening{parent: ln}).warn(errors.New("of the listener"))
			panic("of the loop")
		}))
		<-done
		require.NoError(t, ln.Close())
		require.NoError(t, closeSoon(n))
		require.NoError(t, e.Close())
		text, err := os.ReadFile(s.LogFile)
		require.NoError(t, err)
		require.Contains(t, string(text), `SX WARN: netconn: listener`)
		require.Contains(t, string(text), `error="of the listener"`)
		require.Contains(t, string(text), `SX ERROR: panic contained loop=netconn-0`)
	})
}
