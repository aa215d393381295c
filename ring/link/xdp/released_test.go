package xdp

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A process that closes a queue and opens it again gets it, however long other network configuration keeps the kernel from unbinding the
// closed socket. Interfaces that are added and deleted hold the lock that the kernel needs for that.
func TestReopenBesideConfiguration(t *testing.T) {
	w := newWorld(t, 1, 1500)
	d := w.device(Config{Retry: time.Millisecond})
	var stop atomic.Bool
	stopped := make(chan error)
	const configurators = 4
	for n := range configurators {
		go func() {
			h, err := netlink.NewHandleAt(netns.NsHandle(w.there), unix.NETLINK_ROUTE)
			for i := 0; err == nil && !stop.Load(); i++ {
				pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("x%d-%d", n, i&1)}, PeerName: fmt.Sprintf("y%d-%d", n, i&1)}
				if err = h.LinkAdd(pair); err == nil {
					err = h.LinkDel(pair)
				}
			}
			stopped <- err
		}()
	}
	for range 20 {
		q, err := d.OpenQueue(0, w.pool())
		if err != nil {
			t.Error(err)
			break
		}
		w.NoError(q.Close())
	}
	stop.Store(true)
	for range configurators {
		w.NoError(<-stopped)
	}
}

// What another process holds is not waited for longer than Config.Retry says; what this process closed is, also when Retry is negative.
func TestRetryUntil(t *testing.T) {
	now := time.Now()
	ours, other := queueID{7, 0}, queueID{7, 1}
	r := releases{at: map[queueID]time.Time{}}
	r.add(ours, now)
	after := now.Add(time.Second)
	require.Equal(t, now.Add(releaseLimit), r.retryUntil(ours, after, time.Millisecond))
	require.Equal(t, after.Add(time.Minute), r.retryUntil(ours, after, time.Minute))
	require.Equal(t, after.Add(time.Millisecond), r.retryUntil(other, after, time.Millisecond))
	require.Equal(t, now.Add(releaseLimit), r.retryUntil(ours, after, -1))
	require.False(t, r.retryUntil(other, after, -1).After(after))
	late := now.Add(releaseLimit + time.Second)
	require.Equal(t, late.Add(time.Millisecond), r.retryUntil(ours, late, time.Millisecond))
	r.add(other, late)
	require.Len(t, r.at, 1)
}
