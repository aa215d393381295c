package hoststat

import (
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// A list of interfaces that is read while interfaces come and go is asked for again: the kernel marks it as interrupted.
func TestOpenLinksWhileInterfacesChange(t *testing.T) {
	n := testnet.New(t)
	const pairs = 60 // their list has several parts
	veth := func(i int) *netlink.Veth {
		a := netlink.NewLinkAttrs()
		a.Name = "a" + strconv.Itoa(i)
		return &netlink.Veth{LinkAttrs: a, PeerName: "b" + strconv.Itoa(i)}
	}
	for i := range pairs {
		require.NoError(t, netlink.LinkAdd(veth(i)))
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		if n.Enter() != nil {
			return
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			if netlink.LinkAdd(veth(pairs)) == nil {
				_ = netlink.LinkDel(veth(pairs))
			}
		}
	})
	defer group.Wait()
	defer close(stop)
	for range 300 {
		l, err := OpenLinks()
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(l.known), pairs) // an old kernel may leave some out of a list that it calls interrupted
		require.NoError(t, l.Close())
	}
}
