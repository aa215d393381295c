package stack

import (
	"errors"
	"math/bits"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// routeCount is the size of the cache of prepared routes: one place for each destination of a socket, by hash, the newest has it.
const routeCount = 1024

// route is a destination of a socket, ready. No pointers: the table is 150 KB that a garbage collection need not look at.
type route struct {
	template wire.UDPTemplate
	stamp    uint64 // of the stack when it was made; 0: the place is empty
	serial   uint32 // of its making: who knows it need not compare the destination
	id       udp.ID
	to       wire.Addr
	port     uint16
	source   wire.Addr
	hop      wire.Addr // the neighbour
	iface    int32     // of the host's tables
	link     int16     // which of ours
	way      way
	loop     bool // members of this very stack get it too
	parts    bool // what is longer than whole is cut here, not by the kernel
	used     bool // since the last sweep
	errno    syscall.Errno
	limit    int32 // longest payload
	whole    int32 // and the longest that need not be cut
}

type way uint8

const (
	wayError  way = iota // errno
	wayLink              // over a link; the template is complete
	wayWait              // over a link, to a neighbour that is not known: the template lacks its address
	wayLoop              // not over a link: to sockets of this stack if loop is set, else nowhere
	wayKernel            // through the socket's descriptor
)

// Way is what Prepare found.
type Way struct {
	Route  int32  // for Send
	Serial uint32 // and this, for Put
	Head   int    // length of the headers that Put writes; 0: Put does not serve here
	Limit  int    // longest payload in bytes
	Kernel bool   // only the socket's descriptor leads there
}

// Prepare makes the way to a destination ready: route, neighbour (which is asked for), headers. It is good while Stamp stays.
func (s *Stack) Prepare(now clock.Time, id udp.ID, to wire.Addr, port uint16) (Way, syscall.Errno) {
	s.now = now
	i := s.place(id, to, port)
	r := &s.routes[i]
	if r.stamp != s.stamp || r.id != id || r.to != to || r.port != port {
		s.made++
		s.stats.Prepared++
		*r = route{id: id, to: to, port: port, stamp: s.stamp, serial: s.made}
		r.errno = s.find(r)
		if r.errno != 0 {
			r.way = wayError
		}
	}
	if r.way == wayError {
		return Way{}, r.errno
	}
	if r.way == wayWait {
		s.host.Resolve(s.targetOf(r))
	}
	return Way{Route: i, Serial: r.serial, Head: s.head(r), Limit: int(r.limit), Kernel: r.way == wayKernel}, 0
}

func (s *Stack) place(id udp.ID, to wire.Addr, port uint16) int32 {
	const odd = 0x9e3779b97f4a7c15
	hi, lo := bits.Mul64(uint64(to.Uint32())<<16|uint64(port), odd)
	return int32((hi ^ lo>>32 ^ uint64(id)*odd>>40) % routeCount)
}

// find fills the route in.
func (s *Stack) find(r *route) syscall.Errno {
	e, o := s.udp.Endpoint(r.id), &s.sockets[r.id].options
	if r.port == 0 || r.to.IsZero() {
		return unix.EINVAL
	}
	if s.kernel != nil && s.kernel(e.Owner, r.to, r.port) {
		return r.viaKernel()
	}
	group := r.to.IsMulticast()
	q := host.Query{Target: r.to.Netip(), Interface: int(e.Interface), TOS: o.TOS,
		FlowHash: r.to.Uint32()*0x9e3779b1 ^ uint32(r.port)<<16 ^ uint32(e.LocalPort)}
	if !e.Local.IsZero() && !e.Local.IsMulticast() && s.kindOf(e.Local, e.Interface) != addrBroadcast {
		q.Source = e.Local.Netip()
	}
	if group && q.Interface == 0 {
		q.Interface = o.MulticastInterface
	}
	w, err := s.snap.Route(q)
	if err != nil {
		var refused *host.RouteError
		if errors.As(err, &refused) {
			if s.own == nil && (refused.Errno == unix.EOPNOTSUPP || refused.Errno == unix.EAFNOSUPPORT) {
				return r.viaKernel() // what this stack cannot judge, the kernel can
			}
			return refused.Errno
		}
		return unix.ENETUNREACH
	}
	r.iface = int32(w.Interface)
	source, ok := wire.AddrFrom(w.Source)
	if !ok {
		source = wire.Addr{}
	}
	r.source = source
	if w.Type == host.Broadcast && !o.Broadcast {
		return unix.EACCES
	}
	link := s.pick(w.Interface, q.FlowHash)
	switch {
	case w.Type == host.Local && s.own != nil:
		r.way, r.loop, r.limit, r.whole = wayLoop, true, wire.UDPMax, wire.UDPMax
		return 0
	case w.Type == host.Local, link < 0 && s.own == nil,
		w.Type == host.Broadcast && s.own == nil: // the kernel's sockets on this host are to hear it as well
		return r.viaKernel()
	case group && o.MulticastLoop && s.own == nil && (s.loops == nil || s.loops(e.Owner, r.to, r.port, w.Interface)):
		return r.viaKernel()
	case link < 0:
		return unix.ENETUNREACH
	case source.IsZero():
		return unix.EADDRNOTAVAIL
	}
	r.link = int16(link)
	return s.overLink(r, &w, &e, o)
}

// viaKernel: the kernel fragments what is too long, and says what it refuses.
func (r *route) viaKernel() syscall.Errno {
	r.way, r.limit, r.whole = wayKernel, wire.UDPMax, wire.UDPMax
	return 0
}

// overLink makes the headers.
func (s *Stack) overLink(r *route, w *host.Way, e *udp.Endpoint, o *Options) syscall.Errno {
	l := &s.links[r.link]
	mtu := min(w.MTU, l.MTU, s.pathMTU(r.to))
	r.parts = s.own != nil
	if s.mtu != 0 && s.mtu < mtu {
		mtu, r.parts = s.mtu, true // the kernel would cut at the interface's
	}
	r.whole = int32(mtu - wire.IPv4Len - wire.UDPLen)
	if r.limit = r.whole; s.cut {
		r.limit = wire.UDPMax
	}
	flow := wire.UDPFlow{Link: wire.EthernetFields{Source: l.MAC, Tag: wire.Tag(l.VLAN)}, TOS: o.TOS, TTL: o.TTL,
		Source: r.source, Target: r.to, SourcePort: e.LocalPort, TargetPort: r.port}
	r.way = wayLink
	switch w.Type {
	case host.Multicast:
		flow.Link.Target, flow.TTL = wire.GroupMAC(r.to), o.MulticastTTL
		r.loop = o.MulticastLoop
		if o.MulticastTTL == 0 { // it stays on this host
			r.way = wayLoop
			return 0
		}
	case host.Broadcast:
		flow.Link.Target, r.loop = wire.Broadcast, true
	default:
		t := w.NextHop(r.to.Netip())
		r.hop, _ = wire.AddrFrom(t.Addr)
		s.hops.add(t.Interface, r.hop)
		if n, ok := s.snap.Neighbour(t); ok && n.Usable() {
			flow.Link.Target = n.MAC
		} else if mac, ok := s.heard(t); ok {
			flow.Link.Target = mac
		} else {
			r.way = wayWait
		}
	}
	var err error
	if r.template, err = wire.NewUDPTemplate(flow); err != nil {
		return unix.EINVAL
	}
	return 0
}

func (s *Stack) targetOf(r *route) host.Target {
	return host.Target{Interface: int(r.iface), Addr: r.hop.Netip()}
}

// pathMTU is what an ICMP message said of the way to an address (RFC 1191), or the largest there is.
type pathMTU struct {
	to    wire.Addr
	mtu   int
	until clock.Time
}

const (
	pathMTUs = 64
	// pathMTUTime is when the larger size is tried again (RFC 1191 section 6.3: ten minutes).
	pathMTUTime = clock.Time(600e9)
	pathMTUMin  = 552 // what Linux believes at the least: net.ipv4.route.min_pmtu
)

func (s *Stack) pathMTU(to wire.Addr) int {
	for i := range s.pmtu {
		if s.pmtu[i].to == to {
			return s.pmtu[i].mtu
		}
	}
	return wire.IPv4Max
}

// lowerMTU notes that packets to an address may be no longer than this. A message never makes the size larger (RFC 1191 section 3): time
// does, see forgetMTUs.
func (s *Stack) lowerMTU(now clock.Time, to wire.Addr, mtu int) {
	n := 0
	for _, p := range s.pmtu {
		if p.to == to {
			mtu = min(mtu, p.mtu)
			continue
		}
		s.pmtu[n] = p
		n++
	}
	s.pmtu = s.pmtu[:min(n, pathMTUs-1)]
	s.pmtu = append(s.pmtu, pathMTU{to: to, mtu: max(mtu, pathMTUMin), until: now + pathMTUTime})
	s.stamp++
}

// forgetMTUs tries the larger size again where the time has come.
func (s *Stack) forgetMTUs(now clock.Time) {
	before := len(s.pmtu)
	s.pmtu = slices.DeleteFunc(s.pmtu, func(p pathMTU) bool { return now >= p.until })
	if len(s.pmtu) < before {
		s.stamp++
	}
}

func (s *Stack) pathMTUDeadline() clock.Time {
	next := clock.Never
	for i := range s.pmtu {
		next = min(next, s.pmtu[i].until)
	}
	return next
}
