package simnet

import (
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// ksocket is a UDP socket of a kernel.
type ksocket struct {
	kernel  *Kernel
	fd      int
	fds     []int // all descriptors of it
	inode   uint64
	order   int  // of binding: the latest of equals receives
	ours    bool // of a ring: a shadow, or for memberships
	local   netip.AddrPort
	bound   bool
	remote  netip.AddrPort
	device  int // index of the interface that it is tied to
	groups  []kgroup
	all     bool // IP_MULTICAST_ALL
	loop    bool // IP_MULTICAST_LOOP
	mcastIf int
	reuse   bool // SO_REUSEADDR or SO_REUSEPORT
	room    int  // bytes that may wait
	bytes   int
	queue   []kdatagram
	drops   uint32
	err     syscall.Errno
	handler func(source netip.AddrPort, payload []byte) // of another program
}

// kgroup is a membership. sources: empty for all.
type kgroup struct {
	group   netip.Addr
	index   int
	sources []netip.Addr
}

type kdatagram struct {
	source  netip.AddrPort
	target  netip.Addr
	index   int
	payload []byte
}

// The limits of a descriptor (net.ipv4.igmp_max_memberships, igmp_max_msf).
const (
	maxMemberships = 20
	maxSources     = 10
)

// openSocket makes a UDP socket of the simulated kernel. ours says that it is a shadow of a ring's socket, not one of another program.
func (k *Kernel) openSocket(ours bool) *ksocket {
	k.nextFD++
	s := &ksocket{kernel: k, fd: k.nextFD, fds: []int{k.nextFD}, inode: uint64(k.nextFD) + 1000, ours: ours, all: true, loop: true, room: 212992,
		local: netip.AddrPortFrom(netip.IPv4Unspecified(), 0)}
	k.sockets[s.fd], k.sorted = s, nil
	return s
}

// closeFD closes a descriptor. The socket's entries in ready lists are removed with its last descriptor, as in the kernel.
func (k *Kernel) closeFD(fd int) error {
	s := k.sockets[fd]
	if s == nil {
		return unix.EBADF
	}
	delete(k.sockets, fd)
	k.sorted = nil
	s.fds = slices.DeleteFunc(s.fds, func(x int) bool { return x == fd })
	for _, l := range k.lists {
		if len(s.fds) == 0 {
			l.remove(fd)
		}
	}
	return nil
}

// allSockets lists all sockets in the order of their descriptors, each once. The slice must not be changed.
func (k *Kernel) allSockets() []*ksocket {
	if k.sorted != nil {
		return k.sorted
	}
	var list []*ksocket
	for _, s := range k.sockets {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *ksocket) int { return a.fd - b.fd })
	k.sorted = list
	return list
}

// conflicts reports whether the socket cannot be bound to local because o is bound.
func (s *ksocket) conflicts(o *ksocket, local netip.AddrPort) bool {
	if !o.bound || o == s || o.local.Port() != local.Port() || s.reuse && o.reuse || s.device != 0 && o.device != 0 && s.device != o.device {
		return false
	}
	return o.local.Addr() == local.Addr() || o.local.Addr().IsUnspecified() || local.Addr().IsUnspecified()
}

// bind binds the socket; port 0 chooses a free one. It returns the kernel's errors.
func (s *ksocket) bind(local netip.AddrPort) error {
	k := s.kernel
	if _, ok := k.snapshot.Local(local.Addr()); !ok && !local.Addr().IsUnspecified() && !local.Addr().IsMulticast() &&
		!slices.ContainsFunc(k.nics, func(n *KernelNIC) bool { return k.snapshot.IsBroadcast(n.index, local.Addr()) }) {
		return unix.EADDRNOTAVAIL
	}
	port := local.Port()
	for try := uint16(32768); local.Port() == 0; try++ {
		p := netip.AddrPortFrom(local.Addr(), try)
		if !slices.ContainsFunc(k.allSockets(), func(o *ksocket) bool { return o.bound && o.local.Port() == try }) {
			local, port = p, try
		}
	}
	if slices.ContainsFunc(k.allSockets(), func(o *ksocket) bool { return s.conflicts(o, local) }) {
		return unix.EADDRINUSE
	}
	k.nextFD++
	s.local, s.bound, s.order = netip.AddrPortFrom(local.Addr(), port), true, k.nextFD
	return nil
}

// membership joins or leaves a group (ip_mc_join_group, ip_mc_source, ip_mc_leave_group).
func (s *ksocket) membership(group netip.Addr, index int, source netip.Addr, join bool) error {
	k := s.kernel
	if index == 0 {
		w, err := k.snapshot.Route(host.Query{Target: group})
		if err != nil {
			return unix.ENODEV
		}
		index = w.Interface
	}
	at := slices.IndexFunc(s.groups, func(g kgroup) bool { return g.group == group && g.index == index })
	_, there := k.snapshot.Link(index)
	switch {
	case !join && at < 0 && !there:
		return unix.ENODEV
	case !join && at < 0:
		return unix.EADDRNOTAVAIL
	case !join && !source.IsValid():
		s.groups = slices.Delete(s.groups, at, at+1)
		return nil
	case !join:
		g := &s.groups[at]
		i := slices.Index(g.sources, source)
		if i < 0 {
			return unix.EADDRNOTAVAIL
		}
		if g.sources = slices.Delete(slices.Clone(g.sources), i, i+1); len(g.sources) == 0 {
			s.groups = slices.Delete(s.groups, at, at+1)
		}
		return nil
	case !there:
		return unix.ENODEV
	case at < 0 && len(s.groups) >= maxMemberships:
		return unix.ENOBUFS
	case at < 0 && source.IsValid():
		s.groups = append(s.groups, kgroup{group, index, []netip.Addr{source}})
		return nil
	case at < 0:
		s.groups = append(s.groups, kgroup{group: group, index: index})
		return nil
	}
	g := &s.groups[at]
	switch {
	case !source.IsValid():
		return unix.EADDRINUSE
	case len(g.sources) == 0: // a source narrows a membership of all
	case slices.Contains(g.sources, source):
		return unix.EADDRNOTAVAIL
	case len(g.sources) >= maxSources:
		return unix.ENOBUFS
	}
	g.sources = append(slices.Clone(g.sources), source)
	return nil
}

// allows reports whether the socket's source list accepts a datagram of a group (ip_mc_sf_allow).
func (s *ksocket) allows(group, source netip.Addr, index int) bool {
	for _, g := range s.groups {
		if g.group == group && g.index == index {
			return len(g.sources) == 0 || slices.Contains(g.sources, source)
		}
	}
	return s.all
}

// isMember reports whether the machine is a member of a group on an interface, for datagrams of a source.
func (k *Kernel) isMember(group, source netip.Addr, index int) bool {
	for _, s := range k.sockets {
		for _, g := range s.groups {
			if g.group == group && g.index == index && (len(g.sources) == 0 || slices.Contains(g.sources, source)) {
				return true
			}
		}
	}
	return false
}

// receivers returns the sockets that a datagram is for (udp4_lib_rcv): of a group or broadcast all of them, else the one that fits best.
func (k *Kernel) receivers(source, target netip.AddrPort, index int) (list []*ksocket) {
	several := target.Addr().IsMulticast() || k.snapshot.IsBroadcast(index, target.Addr())
	var best *ksocket
	score := func(s *ksocket) (n int) {
		if s.local.Addr() == target.Addr() {
			n += 2
		}
		if s.remote.IsValid() {
			n += 4
		}
		if s.device != 0 {
			n++
		}
		return n
	}
	for _, s := range k.allSockets() {
		switch {
		case !s.bound, s.local.Port() != target.Port(), s.remote.IsValid() && s.remote != source, s.device != 0 && s.device != index,
			!s.local.Addr().IsUnspecified() && s.local.Addr() != target.Addr():
			continue
		case target.Addr().IsMulticast() && !s.allows(target.Addr(), source.Addr(), index):
			continue
		case several:
			list = append(list, s)
		case best == nil || score(s) > score(best) || score(s) == score(best) && s.order > best.order:
			best = s
		}
	}
	if best != nil {
		list = append(list, best)
	}
	return list
}

// push appends a datagram to the socket's queue, or drops it if there is no room.
func (s *ksocket) push(d kdatagram) {
	k := s.kernel
	size := len(d.payload) + 576 // sk_buff->truesize of a short one
	switch {
	case s.handler != nil:
		k.stats.Delivered++
		s.handler(d.source, d.payload)
		return
	case s.bytes+size > 2*s.room:
		s.drops++
		k.stats.RcvbufFull++
		if k.watcher != nil {
			k.watcher.lost(d.payload)
		}
		return
	}
	k.stats.Delivered++
	s.bytes += size
	s.queue = append(s.queue, d)
	k.wakeReaders(s)
}

func (s *ksocket) fail(e syscall.Errno) {
	s.err = e
	s.kernel.wakeReaders(s)
}

// pop removes and returns the first datagram of the queue.
func (s *ksocket) pop() (d kdatagram, ok bool) {
	if len(s.queue) == 0 {
		return d, false
	}
	d = s.queue[0]
	s.queue = s.queue[1:]
	s.bytes -= len(d.payload) + 576
	return d, true
}

// readyList is an epoll list.
type readyList struct {
	kernel  *Kernel
	eventfd sys.EventFD
	entries []*readyEntry
}

type readyEntry struct {
	fd        int
	events    uint32
	slot, gen uint32
	reported  bool // of the error, with EPOLLET
}

// ready returns the events that epoll would report for the entry. An edge-triggered error is reported once.
func (e *readyEntry) ready(k *Kernel) (events uint32) {
	s := k.sockets[e.fd]
	if s == nil {
		return 0
	}
	if e.events&unix.EPOLLIN != 0 && (len(s.queue) > 0 || s.err != 0) {
		events |= unix.EPOLLIN
	}
	if s.err != 0 && !(e.events&unix.EPOLLET != 0 && e.reported) {
		events |= unix.EPOLLERR
	}
	return events
}

// isReady reports whether the list's descriptor would be readable.
func (l *readyList) isReady() bool {
	return slices.ContainsFunc(l.entries, func(e *readyEntry) bool { return e.ready(l.kernel) != 0 })
}

func (l *readyList) remove(fd int) {
	l.entries = slices.DeleteFunc(l.entries, func(e *readyEntry) bool { return e.fd == fd })
}

// Control is epoll_ctl.
func (l *readyList) Control(op, fd int, events, slot, gen uint32) syscall.Errno {
	at := slices.IndexFunc(l.entries, func(e *readyEntry) bool { return e.fd == fd })
	switch {
	case l.kernel.sockets[fd] == nil:
		return unix.EBADF
	case op == unix.EPOLL_CTL_ADD && at >= 0:
		return unix.EEXIST
	case op != unix.EPOLL_CTL_ADD && at < 0:
		return unix.ENOENT
	case op == unix.EPOLL_CTL_ADD:
		l.entries = append(l.entries, &readyEntry{fd: fd, events: events, slot: slot, gen: gen})
	case op == unix.EPOLL_CTL_DEL:
		l.remove(fd)
	default:
		*l.entries[at] = readyEntry{fd: fd, events: events, slot: slot, gen: gen}
	}
	return 0
}

// Poll lists what is ready; the first entry is another one each time.
func (l *readyList) Poll(events []sys.EpollEvent) (n int, _ syscall.Errno) {
	if len(l.entries) > 0 {
		l.entries = append(l.entries[1:], l.entries[0])
	}
	for _, e := range l.entries {
		if n == len(events) {
			break
		}
		if x := e.ready(l.kernel); x != 0 {
			e.reported = x&unix.EPOLLERR != 0
			events[n] = sys.EpollEvent{Events: x, Fd: int32(e.slot), Pad: int32(e.gen)}
			n++
		}
	}
	return n, 0
}

// FD is a descriptor that never becomes readable: the world looks at the list itself.
func (l *readyList) FD() int { return l.eventfd.FD() }

// Close closes the list.
func (l *readyList) Close() error {
	l.kernel.lists = slices.DeleteFunc(l.kernel.lists, func(x *readyList) bool { return x == l })
	return l.eventfd.Close()
}

// wakeReaders wakes the hosts that wait for a socket.
func (k *Kernel) wakeReaders(s *ksocket) {
	for _, h := range k.hosts {
		if h.waitsFor(s) {
			h.scheduleTurn(k.world.now)
		}
	}
}

// kernelCalls is a kernel as the rings of a machine call it.
type kernelCalls struct{ k *Kernel }

var _ shadow.Kernel = kernelCalls{}

// SetMembership joins or leaves a group with the socket fd.
func (c kernelCalls) SetMembership(fd int, group netip.Addr, ifIndex int, source netip.Addr, join bool) error {
	if s := c.k.sockets[fd]; s != nil {
		return s.membership(group, ifIndex, source, join)
	}
	return unix.EBADF
}

// SetMulticastAll sets IP_MULTICAST_ALL of the socket fd.
func (c kernelCalls) SetMulticastAll(fd int, on bool) error {
	s := c.k.sockets[fd]
	if s == nil {
		return unix.EBADF
	}
	s.all = on
	return nil
}

func (c kernelCalls) OpenMember(int) (int, error) { return c.k.openSocket(true).fd, nil }

// Duplicate returns a second descriptor of the socket fd.
func (c kernelCalls) Duplicate(fd int) (int, error) {
	s := c.k.sockets[fd]
	if s == nil {
		return -1, unix.EBADF
	}
	c.k.nextFD++
	s.fds = append(s.fds, c.k.nextFD)
	c.k.sockets[c.k.nextFD] = s
	return c.k.nextFD, nil
}

func (c kernelCalls) Close(fd int) error { return c.k.closeFD(fd) }

// BindToDevice sets SO_BINDTODEVICE of the socket fd.
func (c kernelCalls) BindToDevice(fd int, ifName string) error {
	l, ok := c.k.snapshot.LinkByName(ifName)
	s := c.k.sockets[fd]
	switch {
	case s == nil:
		return unix.EBADF
	case !ok:
		return unix.ENODEV
	}
	s.device = l.Index
	return nil
}

// Inode returns the inode of the socket fd, by which its owner is found; 0 for none.
func (c kernelCalls) Inode(fd int) uint64 {
	if s := c.k.sockets[fd]; s != nil {
		return s.inode
	}
	return 0
}

// ForceReceiveBuffer is SetReceiveBuffer: the machine has no limit.
func (c kernelCalls) ForceReceiveBuffer(fd, size int) error { return c.SetReceiveBuffer(fd, size) }

// SetReceiveBuffer sets SO_RCVBUF of the socket fd.
func (c kernelCalls) SetReceiveBuffer(fd, size int) error {
	s := c.k.sockets[fd]
	if s == nil {
		return unix.EBADF
	}
	s.room = size
	return nil
}

// ReceiveBuffer returns SO_RCVBUF of the socket fd, twice what was set, as in Linux.
func (c kernelCalls) ReceiveBuffer(fd int) (int, error) {
	if s := c.k.sockets[fd]; s != nil {
		return 2 * s.room, nil
	}
	return 0, unix.EBADF
}

// PendingError returns and clears SO_ERROR of the socket fd.
func (c kernelCalls) PendingError(fd int) (e syscall.Errno) {
	if s := c.k.sockets[fd]; s != nil {
		e, s.err = s.err, 0
	}
	return e
}

// NewReadyList makes the epoll set in which a ring has its shadow sockets.
func (c kernelCalls) NewReadyList() (shadow.ReadyList, error) {
	bell, err := sys.NewEventFD()
	if err != nil {
		return nil, err
	}
	l := &readyList{kernel: c.k, eventfd: bell}
	c.k.lists = append(c.k.lists, l)
	for _, h := range c.k.hosts {
		if h.shadows == nil { // the one that is being made
			h.shadows = l
		}
	}
	return l, nil
}

func (c kernelCalls) NewReceiver(pool *buffers.DriverPool) shadow.Receiver {
	return &receiver{k: c.k, pool: pool}
}
func (c kernelCalls) OpenMembers() (shadow.Members, error) { return members(c), nil }

// receiver reads a kernel's sockets: what a ring has for its shadows in place of recvmsg.
type receiver struct {
	k      *Kernel
	pool   *buffers.DriverPool
	refuse func(*ring.Meta) bool // the driver's test of groups that the socket has not joined; nil for none
	meta   ring.Meta             // of the datagram that is reported; here so that it is not allocated each time
}

func (r *receiver) SetRefuse(refuse func(*ring.Meta) bool) { r.refuse = refuse }
func (r *receiver) ReturnSpare()                           {}
func (r *receiver) Close()                                 {}

// Datagram reports the first datagram of a shadow's queue to the sink. The datagram leaves the queue only when there is a buffer for it.
func (r *receiver) Datagram(sink *ring.Sink, s *ring.Socket) shadow.Outcome {
	h := ring.HandleOf(s)
	x := r.k.sockets[int(h.Conn)]
	if x == nil {
		sink.Failed(s, unix.EBADF)
		return shadow.Failed
	}
	if x.err != 0 {
		e := x.err
		x.err = 0
		sink.Failed(s, e)
		return shadow.Failed
	}
	if len(x.queue) == 0 {
		return shadow.Empty
	}
	i, ok := r.pool.Take(h.Class)
	if !ok {
		sink.Starved(s)
		return shadow.Starved
	}
	d, _ := x.pop()
	r.meta = ring.Meta{Source: d.source, Destination: d.target, IfIndex: uint32(d.index), ViaKernel: true}
	if r.refuse != nil && r.refuse(&r.meta) {
		r.pool.Return(i)
		return shadow.Discarded
	}
	room := r.pool.Layout().Headroom
	n := copy(r.pool.Memory(i)[room:], d.payload)
	sink.Datagram(s, r.pool.Fill(i, room, n, h.Account), &r.meta)
	return shadow.Received
}

// members lists a kernel's sockets.
type members struct{ k *Kernel }

// Users returns how many sockets of the machine are members of each group on each interface.
func (m members) Users() (map[host.GroupOn]int, error) {
	users := map[host.GroupOn]int{}
	for _, s := range m.k.allSockets() {
		for _, g := range s.groups {
			if _, there := m.k.snapshot.Link(g.index); there {
				users[host.GroupOn{Group: g.group.As4(), Interface: uint32(g.index)}]++
			}
		}
	}
	return users, nil
}

// Bound lists the bound UDP sockets of the machine.
func (m members) Bound() (list []host.Bound, _ error) {
	for _, s := range m.k.allSockets() {
		if s.bound {
			a, _ := wire.AddrFrom(s.local.Addr())
			list = append(list, host.Bound{Local: a, Port: s.local.Port(), Interface: uint32(s.device), Inode: s.inode})
		}
	}
	return list, nil
}

func (m members) Limit() error { return nil }
func (m members) Close() error { return nil }
