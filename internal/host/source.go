package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// part is a set of the kernel's tables.
type part uint8

const (
	partLinks part = 1 << iota
	partAddresses
	partRoutes
	partRules
	partNeighbours
	partPathMTUs
	partChildren // in other namespaces

	partAll = partLinks | partAddresses | partRoutes | partRules | partNeighbours | partPathMTUs | partChildren
)

// partRefresh is what Host.Refresh has read again: all tables that may be behind a change that the caller knows of.
const partRefresh = partLinks | partAddresses | partRoutes | partRules

// batch is what some notifications say: which tables to read again, and single neighbours.
type batch struct {
	stale      part
	neighbours []neighbourChange
}

var (
	errTime    = errors.New("host: nothing before the deadline")
	errOverrun = errors.New("host: the kernel dropped notifications")
	errClosed  = errors.New("host: closed")
)

// source is where facts come from: the kernel, or a test.
type source interface {
	// next waits for notifications until the deadline (zero: for ever); wait false only looks. Errors: errTime, errOverrun,
	// errClosed. One goroutine.
	next(wait bool, deadline time.Time) (batch, error)
	// fetch reads tables into f. The same goroutine as next.
	fetch(want part, f *Facts) error
	// request makes the kernel look for a neighbour. Another goroutine than next's.
	request(t Target) error
	// refresh makes next say that the tables of partRefresh are to be read again; false: it cannot. Any goroutine.
	refresh() bool
	// stop makes next and fetch return; close frees what there is, when no goroutine uses the source any more.
	stop()
	close()
}

// kernel is the source outside tests: netlink in one network namespace. Notifications, dumps and requests have sockets of their own: a dump must
// not queue behind notifications, and notifications must not be lost while a dump is read.
type kernel struct {
	events  *os.File
	buffer  []byte
	dump    *nl.SocketHandle // of fetch
	ask     *nl.SocketHandle // of request
	probe   int              // the UDP socket of request, for a process without CAP_NET_ADMIN
	refused bool             // netlink has refused a request (EPERM): probe is used from then on
	ended   chan struct{}
	again   atomic.Bool // refresh was called
	paths   *pathMTUs
	remote  *remoteChildren
}

// groups are the notifications that are wanted (RTNLGRP_*).
var groups = [...]int{unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_NEXTHOP}

// newKernel opens the sockets in the namespace where it is called.
func newKernel(receiveBuffer int) (*kernel, error) {
	k := &kernel{buffer: make([]byte, 64<<10), probe: -1, ended: make(chan struct{})}
	if err := k.open(receiveBuffer); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// open opens the sockets of a new source. After an error, close closes those that are open.
func (k *kernel) open(receiveBuffer int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("host: netlink socket: %w", err)
	}
	k.events = os.NewFile(uintptr(fd), "netlink notifications")
	// The forced form needs CAP_NET_ADMIN; without it net.core.rmem_max is the limit.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer); err != nil {
			return fmt.Errorf("host: netlink receive buffer of %d: %w", receiveBuffer, err)
		}
	}
	if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("host: netlink bind: %w", err)
	}
	for _, g := range groups {
		if err = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return fmt.Errorf("host: netlink group %d: %w", g, err)
		}
	}
	for _, h := range []**nl.SocketHandle{&k.dump, &k.ask} {
		s, err := nl.Subscribe(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("host: netlink socket: %w", err)
		}
		*h = &nl.SocketHandle{Socket: s}
		if err := s.SetReceiveTimeout(&unix.Timeval{Sec: 10}); err != nil {
			return fmt.Errorf("host: netlink time-out: %w", err)
		}
	}
	if k.probe, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return fmt.Errorf("host: probe socket: %w", err)
	}
	if k.paths, err = openPathMTUs(k.interrupt); err != nil {
		return err
	}
	if k.remote, err = openRemoteChildren(k.interrupt); err != nil {
		return err
	}
	return nil
}

// next waits for a datagram of notifications, or a change that a goroutine beside the mirror has found; see source.
func (k *kernel) next(wait bool, deadline time.Time) (batch, error) {
	if !wait {
		deadline = time.Time{} // a deadline that has passed would forbid the look
	}
	if k.events.SetReadDeadline(deadline) != nil {
		return batch{}, errClosed
	}
	select {
	case <-k.ended: // asked after the deadline was set, which may have been in place of stop's
		return batch{}, errClosed
	default:
	}
	if stale := k.takeChanges(); stale != 0 { // asked after the deadline was set, which may have been in place of interrupt's
		return batch{stale: stale}, nil
	}
	conn, err := k.events.SyscallConn()
	if err != nil {
		return batch{}, errClosed
	}
	var n int
	var from unix.Sockaddr
	var errno error
	err = conn.Read(func(fd uintptr) bool {
		n, from, errno = unix.Recvfrom(int(fd), k.buffer, unix.MSG_TRUNC)
		return !wait || errno != unix.EAGAIN
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		if stale := k.takeChanges(); stale != 0 {
			return batch{stale: stale}, k.unlessEnded(nil)
		}
		return batch{}, k.unlessEnded(errTime)
	case err != nil:
		return batch{}, errClosed
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return batch{}, k.unlessEnded(errTime)
	case errno != nil:
		return batch{}, errOverrun // ENOBUFS; whatever else it may be, reading all anew is the cure
	case n > len(k.buffer):
		return batch{}, errOverrun // a message longer than any that the kernel sends: not read whole
	}
	if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
		return batch{}, nil // not the kernel: any process may send to our port
	}
	b, err := notifications(k.buffer[:n])
	if b.stale&(partRoutes|partLinks) != 0 {
		k.paths.recheck() // changes of routes make the kernel forget (rt_cache_flush)
	}
	return b, err
}

// takeChanges returns the tables for which the goroutines beside the mirror have found changes, or refresh was called, since the last call.
func (k *kernel) takeChanges() (stale part) {
	if k.paths.changed.Swap(false) {
		stale |= partPathMTUs
	}
	if k.remote.changed.Swap(false) {
		stale |= partChildren
	}
	if k.again.Swap(false) {
		stale |= partRefresh
	}
	return stale
}

// refresh makes next return with the tables that Host.Refresh wants; see source.
func (k *kernel) refresh() bool {
	k.again.Store(true)
	k.interrupt()
	return true
}

// interrupt makes next return with takeChanges' result. Any goroutine.
func (k *kernel) interrupt() { _ = k.events.SetReadDeadline(time.Unix(1, 0)) } // fails when it is closed

// unlessEnded is err, or errClosed if the source was stopped.
func (k *kernel) unlessEnded(err error) error {
	select {
	case <-k.ended:
		return errClosed
	default:
		return err
	}
}

// notifications decodes a datagram of messages: which tables have to be read again, and changes of single neighbours.
//
// All but neighbours is read again from the kernel, not patched. A message is often not the whole truth: when a link
// goes down its routes vanish without a word (fib_sync_down_dev), a removed address takes along the routes that preferred it, a
// bridge reports its ports under the family AF_BRIDGE, and where a new address or route stands among its equals only a
// dump shows. Such changes are rare; neighbours change state all the time, and their messages are complete.
func notifications(b []byte) (batch, error) {
	var c batch
	for len(b) >= unix.SizeofNlMsghdr {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return c, errOverrun
		}
		body := b[unix.SizeofNlMsghdr:n]
		switch typ := binary.NativeEndian.Uint16(b[4:]); typ {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			c.stale |= partLinks | partAddresses | partRoutes
			if typ == unix.RTM_DELLINK {
				c.stale |= partNeighbours
			}
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			c.stale |= partAddresses | partRoutes
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
			c.stale |= partRoutes
		case unix.RTM_NEWRULE, unix.RTM_DELRULE:
			c.stale |= partRules | partRoutes
		case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
			nb, ok, err := decodeNeighbour(body)
			if err != nil {
				return c, errOverrun
			}
			if ok {
				c.neighbours = append(c.neighbours, neighbourChange{nb, typ == unix.RTM_DELNEIGH})
			}
		case unix.NLMSG_OVERRUN:
			return c, errOverrun
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return c, nil
}

// fetch reads the tables in want by netlink dumps, and copies those that goroutines beside the mirror keep.
func (k *kernel) fetch(want part, f *Facts) error {
	if want&partLinks != 0 {
		request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(rtextFilterSkipStats)))
		if err := dumpInto(k.dump, "links", request, unix.RTM_NEWLINK, &f.Links, decodeLink); err != nil {
			return err
		}
		k.remote.recheck()
	}
	if want&partChildren != 0 {
		f.RemoteChildren = *k.remote.current.Load()
	}
	if want&partAddresses != 0 {
		request := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfAddrmsg(unix.AF_INET))
		if err := dumpInto(k.dump, "addresses", request, unix.RTM_NEWADDR, &f.Addresses, decodeAddress); err != nil {
			return err
		}
	}
	if want&partRoutes != 0 {
		request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
		request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET}})
		if err := dumpInto(k.dump, "routes", request, unix.RTM_NEWROUTE, &f.Routes, decodeRoute); err != nil {
			return err
		}
	}
	if want&partRules != 0 {
		request := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
		request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET}})
		var foreign []struct{}
		err := dumpInto(k.dump, "rules", request, unix.RTM_NEWRULE, &foreign, func(b []byte) (struct{}, bool, error) {
			is, err := decodeRule(b)
			return struct{}{}, is, err
		})
		if f.Rules = len(foreign); err != nil {
			return err
		}
	}
	if want&partPathMTUs != 0 {
		f.PathMTUs = *k.paths.current.Load()
	}
	if want&partNeighbours != 0 {
		request := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		request.AddRawData(append([]byte{unix.AF_INET}, make([]byte, unix.SizeofNdMsg-1)...))
		if err := dumpInto(k.dump, "neighbours", request, unix.RTM_NEWNEIGH, &f.Neighbours, decodeNeighbour); err != nil {
			return err
		}
	}
	return nil
}

// rtextFilterSkipStats is RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h: links without their counters, a quarter of the size.
const rtextFilterSkipStats = 1 << 3

// dumpInto reads a table by a netlink dump. If the table changes during the dump (NLM_F_DUMP_INTR) the error is EINTR, and the caller reads
// again.
func dumpInto[T any](h *nl.SocketHandle, what string, r *nl.NetlinkRequest, typ uint16, to *[]T,
	decode func([]byte) (T, bool, error)) error {
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: h}
	var all []T
	var bad error
	err := r.ExecuteIter(unix.NETLINK_ROUTE, typ, func(m []byte) bool {
		v, ok, err := decode(m)
		if err != nil {
			bad = err
			return false
		}
		if ok {
			all = append(all, v)
		}
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("host: reading %s: %w", what, err)
	}
	*to = all
	return nil
}

// request asks for a neighbour with NTF_USE: the kernel looks for it as if it had a packet to send, and counts the entry as
// used. It needs CAP_NET_ADMIN; without it an empty datagram to port 9 (discard, RFC 863) of the neighbour does the same.
//
// The caller must not ask for an entry that is permanent: NTF_USE would take that away (__neigh_update). On an interface that is down the kernel
// would make an entry that it asks for again a second later, whether or not the interface is up by then: ENETDOWN instead.
func (k *kernel) request(t Target) error {
	if err := k.isUp(t.Interface); err != nil {
		return err
	}
	to := t.Addr.As4()
	if !k.refused {
		request := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_ACK)
		request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: k.ask}
		head := make([]byte, unix.SizeofNdMsg)
		head[0] = unix.AF_INET
		binary.NativeEndian.PutUint32(head[4:], uint32(t.Interface))
		head[10] = unix.NTF_USE
		request.AddRawData(append(head, nl.NewRtAttr(unix.NDA_DST, to[:]).Serialize()...))
		_, err := request.Execute(unix.NETLINK_ROUTE, 0)
		if !errors.Is(err, unix.EPERM) {
			return err
		}
		k.refused = true
	}
	about := unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(t.Interface)})
	return unix.Sendmsg(k.probe, nil, about, &unix.SockaddrInet4{Port: 9, Addr: to}, unix.MSG_DONTROUTE|unix.MSG_DONTWAIT)
}

// isUp is an error for an interface that is not up now. The mirror's tables may be late. It waits for no lock of the kernel's configuration.
func (k *kernel) isUp(index int) error {
	var request unix.Ifreq
	request.SetUint32(uint32(index))
	err := unix.IoctlIfreq(k.probe, unix.SIOCGIFNAME, &request)
	if err == nil {
		err = unix.IoctlIfreq(k.probe, unix.SIOCGIFFLAGS, &request)
	}
	if err == nil && request.Uint16()&unix.IFF_UP == 0 {
		err = unix.ENETDOWN
	}
	return err
}

func (k *kernel) stop() {
	close(k.ended)
	_ = k.events.SetReadDeadline(time.Unix(1, 0)) // wakes next
}

// close closes the sockets and ends the goroutines beside the mirror.
func (k *kernel) close() {
	if k.paths != nil {
		k.paths.close()
	}
	if k.remote != nil {
		k.remote.close()
	}
	if k.events != nil {
		_ = k.events.Close()
	}
	for _, h := range []*nl.SocketHandle{k.dump, k.ask} {
		if h != nil {
			h.Close()
		}
	}
	if k.probe >= 0 {
		_ = unix.Close(k.probe)
	}
}
