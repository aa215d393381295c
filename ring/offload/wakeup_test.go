package offload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// What is known of foreign members may change after a turn has looked at it and before the ring says that it rests: nobody wakes it then.
func TestNewsOfForeignMembersBeforeARest(t *testing.T) {
	x := &Exchange{}
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 16, Headroom: 192}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	port, err := handoff.NewHub().Join(1, pool, func() {})
	require.NoError(t, err)
	port.Poll()
	d := &driver{config: Config{Exchange: x}, nics: &nic.Attachments{}, handoff: port}
	for _, news := range []bool{false, true, false} {
		if news {
			x.foreign.version.Add(1)
		}
		pending, err := d.rest()
		require.NoError(t, err)
		require.Equal(t, news, pending)
		d.sharedAt = x.foreign.version.Load()
	}
}
