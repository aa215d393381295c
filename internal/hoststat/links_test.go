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

// A change of the XDP program says what was done. The kernel does not tell of a program that a ring attaches: it is found with the next change.
func TestTextsOfPrograms(t *testing.T) {
	l := &Links{known: map[int]linkState{}}
	var texts []string
	see := func(id uint32) {
		a := netlink.NewLinkAttrs()
		a.Index, a.Name = 2, "v0"
		if id != 0 {
			a.Xdp = &netlink.LinkXdp{Attached: true, ProgId: id}
		}
		l.update(&netlink.Dummy{LinkAttrs: a}, func(c LinkChange) { texts = append(texts, c.Text) })
	}
	for _, id := range []uint32{0, 3272, 3300, 0} {
		see(id)
	}
	require.Equal(t, []string{"v0: the interface came",
		"v0: an XDP program (3272) is on the interface, which had none when the kernel last told of it",
		"v0: the XDP program 3272 was replaced by 3300",
		"v0: the XDP program 3300 was taken off"}, texts)
}
