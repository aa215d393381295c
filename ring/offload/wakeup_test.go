package offload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// What is known of other members may change after a turn has looked at it and before the ring says that it sleeps: it is not woken then.
func TestNewsOfOtherMembersBeforeARest(t *testing.T) {
	x := &Exchange{watcher: shadow.NewGroupWatcher(shadow.WatcherConfig{Kernel: shadow.SystemCalls{}, Wake: func() {}})}
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 16, Headroom: 192}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	port, err := handoff.NewHub().Join(1, pool, func() {})
	require.NoError(t, err)
	port.Poll()
	d := &driver{below: below{system: &processSystem}, others: otherSockets{watcher: x.watcher}, nics: &nic.Attachments{}, handoff: port}
	for _, news := range []bool{false, true, false} {
		if d.others.version = x.watcher.Version(); news {
			d.others.version-- // of an older version
		}
		pending, err := d.prepareSleep()
		require.NoError(t, err)
		require.Equal(t, news, pending)
	}
}
