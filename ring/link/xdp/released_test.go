package xdp

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
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
			h, err := netlink.NewHandleAt(netns.NsHandle(w.there))
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
