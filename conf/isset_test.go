package conf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// IsSet reports a value that counts, whatever it is and whichever of its names it has; not of one that cannot be used.
func TestIsSet(t *testing.T) {
	t.Setenv(SettingsFile, "")
	for name := range byName {
		t.Setenv(name, "") // to be restored
		require.NoError(t, os.Unsetenv(name))
	}
	require.False(t, IsSet("VMA_RX_POLL"))
	require.False(t, IsSet("VMA_NO_SUCH"))
	for _, name := range []string{"VMA_RX_UDP_POLL_OS_RATIO", "VMA_RX_POLL_OS_RATIO", "XLIO_RX_SKIP_OS"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "100")
			require.True(t, IsSet("VMA_RX_UDP_POLL_OS_RATIO"))
			require.False(t, IsSet("VMA_RX_POLL"))
			t.Setenv(name, "nonsense")
			require.False(t, IsSet("VMA_RX_UDP_POLL_OS_RATIO"))
		})
	}
	name := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.WriteFile(name, []byte("VMA_RX_POLL=100000\n"), 0o600))
	t.Setenv(SettingsFile, name)
	require.True(t, IsSet("VMA_RX_POLL"))
	t.Setenv(SettingsFile, name+"?")
	require.False(t, IsSet("VMA_RX_POLL"))
}
