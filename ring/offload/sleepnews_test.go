package offload_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/ring"
)

// A ring does not sleep over a change of the host's tables that its interfaces have not been checked for. The ring's stack may have taken over
// the new tables in a turn before, most of which check nothing, or does so in the call that prepares the sleep.
func TestNewTablesBeforeASleep(t *testing.T) {
	s := newShared(t, 1)
	set, r := s.set(nil)
	u := s.open(set, "10.0.0.1:7000")
	dst := make([]ring.Completion, 8)
	told := false // of another path
	poll := func() {
		n, err := r.Poll(dst)
		require.NoError(t, err)
		for i := range dst[:n] {
			require.Equal(t, ring.EventPath, dst[i].Events)
			told = true
		}
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(3 * patience); !holds(); time.Sleep(100 * time.Microsecond) {
			require.True(t, time.Now().Before(end), "%s; %s", what, u.Path().Explain())
		}
	}
	isUp := func() bool {
		l, ok := s.mirror.Snapshot().LinkByName("v0")
		return ok && l.Up()
	}
	for turns := range 3 {
		for range 20 { // the ring has seen what there was before
			poll()
		}
		require.NoError(t, r.Wait(0))
		poll() // the first turn behind a sleep checks, those that follow do not
		told = false
		require.NoError(t, netlink.LinkSetDown(linkOf(t, "v0")))
		until("the mirror has it", func() bool { return !isUp() })
		for range turns {
			poll()
		}
		if !told {
			pending, err := r.Arm()
			require.NoError(t, err)
			require.True(t, pending, "after %d turns the ring sleeps over a lost interface", turns)
		}
		until("the path is lost", func() bool { poll(); return told && u.Path().Tier == "kernel" })
		require.NoError(t, netlink.LinkSetUp(linkOf(t, "v0")))
		until("the path is back", func() bool { poll(); return u.Path().Tier == "bypass" })
	}
}
