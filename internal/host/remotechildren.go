package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// remoteChildren are the children of our links that are in other network namespaces. The kernel reports changes by notifications about their
// parent. To find the children, the links of every other namespace are listed, and a host of containers has hundreds: that is the work of a
// goroutine beside the mirror, whose tables do not wait for it.
//
//	notification of a link ──► recheck ──► run ──RTM_GETLINK for each namespace──► current, then kernel.next answers partChildren
type remoteChildren struct {
	ask          *nl.SocketHandle
	netns        *os.File // the namespace of the mirror; nil without /proc: children in other ones are not known
	namespaces   namespaces
	current      atomic.Pointer[[]Child]
	changed      atomic.Bool   // current is another than the mirror has seen
	recheckToken chan struct{} // holds a token while there is reason to look
	ended        chan struct{}
	done         chan struct{}
}

// remoteShare bounds the share of time that refresh takes: after each one the goroutine sleeps remoteShare times as long, at least remotePause.
const (
	remoteShare = 4
	remotePause = 10 * time.Millisecond
)

// openRemoteChildren reads the children once and starts the goroutine that follows them, in the namespace where it is called. changed is called
// when current has changed.
func openRemoteChildren(changed func()) (*remoteChildren, error) {
	a := &remoteChildren{namespaces: namespaces{permitted: true}, recheckToken: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{})}
	a.current.Store(new([]Child))
	s, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("host: netlink socket: %w", err)
	}
	a.ask = &nl.SocketHandle{Socket: s}
	if err := s.SetReceiveTimeout(&unix.Timeval{Sec: 10}); err != nil {
		a.ask.Close()
		return nil, fmt.Errorf("host: netlink time-out: %w", err)
	}
	if a.netns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		a.netns = nil
	}
	a.refresh()
	go a.run(changed)
	return a, nil
}

// run is the goroutine: it looks at the namespaces again each time that recheck asks for it, and calls changed when the result is another.
func (a *remoteChildren) run(changed func()) {
	defer close(a.done)
	for {
		select {
		case <-a.ended:
			return
		case <-a.recheckToken:
		}
		start := time.Now()
		if a.refresh() {
			changed()
		}
		select {
		case <-a.ended:
			return
		case <-time.After(max(remotePause, remoteShare*time.Since(start))):
		}
	}
}

// recheck makes run look at the namespaces again. Any goroutine.
func (a *remoteChildren) recheck() {
	select {
	case a.recheckToken <- struct{}{}:
	default:
	}
}

// isEnded reports that close was called.
func (a *remoteChildren) isEnded() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// close ends the goroutine and closes the descriptors.
func (a *remoteChildren) close() {
	close(a.ended)
	<-a.done
	a.ask.Close()
	if a.netns != nil {
		_ = a.netns.Close()
	}
}

// refresh lists the links of all other namespaces, stores those that stand on our links in current, and reports whether the list has changed.
// Namespaces that cannot be read are left out: no other table depends on them.
func (a *remoteChildren) refresh() bool {
	a.identify()
	ids, err := a.namespaceIDs()
	if errors.Is(err, unix.EINTR) { // one came or went meanwhile
		a.recheck()
	}
	if err != nil {
		return false
	}
	var list []Child
	for _, id := range ids {
		if a.isEnded() {
			return false
		}
		links, err := a.linksOf(id)
		if errors.Is(err, unix.EINTR) { // it changes all the time: what was known of it holds until the next look
			for _, c := range *a.current.Load() {
				if c.Netns == id {
					list = append(list, c)
				}
			}
			a.recheck()
		}
		if err != nil || len(links) == 0 {
			continue // it may have gone meanwhile, or be closed to us
		}
		own, err := a.ownID()
		if err != nil || own < 0 {
			continue
		}
		for _, l := range links {
			if isChild(l.Kind) && l.Parent != 0 && l.Netns == own && id != own {
				list = append(list, Child{l.Parent, l.Name, l.Kind, l.VLAN, id})
			}
		}
	}
	if slices.Equal(list, *a.current.Load()) {
		return false
	}
	a.current.Store(&list)
	a.changed.Store(true)
	return true
}

// Of linux/net_namespace.h and linux/if_link.h.
const (
	netnsaID        = 1  // NETNSA_NSID
	netnsaFD        = 3  // NETNSA_FD
	iflaTargetNetns = 46 // IFLA_TARGET_NETNSID
)

// namespaceIDs are the ids that other namespaces have here.
func (a *remoteChildren) namespaceIDs() (ids []int, err error) {
	r := nl.NewNetlinkRequest(unix.RTM_GETNSID, unix.NLM_F_DUMP)
	r.AddRawData(make([]byte, 4)) // struct rtgenmsg, padded
	err = dumpInto(a.ask, "namespaces", r, unix.RTM_NEWNSID, &ids, decodeNamespace)
	return ids, err
}

// decodeNamespace reads the id of a namespace from a message; ok: it has one.
func decodeNamespace(b []byte) (id int, ok bool, err error) {
	if len(b) < 4 {
		return 0, false, errShort
	}
	id = -1
	err = attributes(b[4:], func(typ uint16, v []byte) error {
		if typ == netnsaID {
			return number(v, &id)
		}
		return nil
	})
	return id, id >= 0, err
}

// ownID is the id that this namespace has for itself, -1 for none: links of other namespaces name their parent's by it.
func (a *remoteChildren) ownID() (int, error) {
	if a.netns == nil {
		return -1, nil
	}
	r := nl.NewNetlinkRequest(unix.RTM_GETNSID, 0)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: a.ask}
	r.AddRawData(append(make([]byte, 4), nl.NewRtAttr(netnsaFD, nl.Uint32Attr(uint32(a.netns.Fd()))).Serialize()...))
	messages, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNSID)
	if err != nil {
		return -1, fmt.Errorf("host: reading the namespace's id: %w", err)
	}
	for _, m := range messages {
		if id, ok, err := decodeNamespace(m); ok || err != nil {
			return id, err
		}
	}
	return -1, nil
}

// linksOf are the links of another namespace.
func (a *remoteChildren) linksOf(id int) (links []Link, err error) {
	r := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	r.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	r.AddData(nl.NewRtAttr(iflaTargetNetns, binary.NativeEndian.AppendUint32(nil, uint32(id))))
	r.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(rtextFilterSkipStats)))
	err = dumpInto(a.ask, "links of a namespace", r, unix.RTM_NEWLINK, &links, decodeLink)
	return links, err
}
