package ring

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
)

// endpoints are a socket's addresses without a pointer: a netip.Addr has one, to its zone. The owner writes them; any goroutine reads them.
//
// The version is odd while the owner writes: a reader that has seen another version before and after reads again.
type endpoints struct {
	version       atomic.Uint32
	local, remote endpoint
}

type endpoint struct {
	port atomic.Uint32    // and the number of its zone below it, 16 bits each
	ip   [4]atomic.Uint32 // as netip.Addr.As16
}

// The numbers of a zone: those from firstZone on are in zones.
const (
	noAddress = iota
	zoneIPv4
	zoneNone // IPv6 without a zone
	firstZone
)

// zones are the names of zones that addresses have had: of interfaces.
var zones struct {
	sync.Mutex
	names atomic.Pointer[[]string]
}

// zoneNumber is the number that stands for the address's family and zone in endpoint.port; a new zone gets a number. When there are more zones
// than numbers the address loses its zone.
func zoneNumber(a netip.Addr) uint32 {
	switch {
	case !a.IsValid():
		return noAddress
	case a.Is4():
		return zoneIPv4
	case a.Zone() == "":
		return zoneNone
	}
	zones.Lock()
	defer zones.Unlock()
	var names []string
	if p := zones.names.Load(); p != nil {
		names = *p
	}
	for i, name := range names {
		if name == a.Zone() {
			return uint32(firstZone + i)
		}
	}
	if len(names) == 1<<16-firstZone {
		return zoneNone
	}
	names = append(names[:len(names):len(names)], a.Zone())
	zones.names.Store(&names)
	return uint32(firstZone + len(names) - 1)
}

// set stores an address and port; between the stores a reader sees parts of both, which endpoints.version tells it.
func (x *endpoint) set(a netip.AddrPort) {
	var ip [16]byte
	if a.Addr().IsValid() {
		ip = a.Addr().As16()
	}
	for i := range x.ip {
		x.ip[i].Store(binary.BigEndian.Uint32(ip[4*i:]))
	}
	x.port.Store(uint32(a.Port())<<16 | zoneNumber(a.Addr()))
}

// get puts the address together from its parts; the usual IPv4 case is apart because it runs for each completion.
func (x *endpoint) get() netip.AddrPort {
	port := x.port.Load()
	if port&0xffff == zoneIPv4 {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], x.ip[3].Load()) // one store, which AddrFrom4 reads as one
		return netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(port>>16))
	}
	return netip.AddrPortFrom(x.getIPv6(port&0xffff), uint16(port>>16))
}

// getIPv6 is the rest of get: an IPv6 address, with its zone, or no address.
func (x *endpoint) getIPv6(zone uint32) netip.Addr {
	if zone == noAddress {
		return netip.Addr{}
	}
	var ip [16]byte
	for i := range x.ip {
		binary.BigEndian.PutUint32(ip[4*i:], x.ip[i].Load())
	}
	if zone < firstZone {
		return netip.AddrFrom16(ip)
	}
	return netip.AddrFrom16(ip).WithZone((*zones.names.Load())[zone-firstZone])
}

// set stores both addresses. Owner only.
func (x *endpoints) set(local, remote netip.AddrPort) {
	x.version.Add(1)
	x.local.set(local)
	x.remote.set(remote)
	x.version.Add(1)
}

// get reads both addresses as one set call stored them. Any goroutine.
func (x *endpoints) get() (local, remote netip.AddrPort) {
	for {
		before := x.version.Load()
		local, remote = x.local.get(), x.remote.get()
		if before&1 == 0 && x.version.Load() == before {
			return local, remote
		}
	}
}

// local and remote return the socket's addresses. Owner only: the owner alone changes them, so the version check of endpoints.get is not needed.
func (s *Socket) local() netip.AddrPort  { return s.ends.local.get() }
func (s *Socket) remote() netip.AddrPort { return s.ends.remote.get() }

// locals are local addresses of a ring's sockets as completions have them: making one of a record's numbers takes 3 ns more than finding it
// here. A socket's place is given by its slot.
type locals [64]localAddress

type localAddress struct {
	socket  *Socket // nil: none
	version uint32  // of its endpoints, see there
	address netip.AddrPort
}

// entry is the socket's place: address is its own if isOf says so.
func (x *locals) entry(s *Socket) *localAddress { return &x[s.handle.Slot%uint32(len(x))] }

func (e *localAddress) isOf(s *Socket) bool {
	return e.socket == s && e.version == s.ends.version.Load()
}

// fill makes the entry the socket's. It is not inlined: its callers run for each packet, and seldom call it.
//
//go:noinline
func (e *localAddress) fill(s *Socket) {
	e.socket, e.version, e.address = s, s.ends.version.Load(), s.local()
}

// forget removes a socket that leaves the ring.
func (x *locals) forget(s *Socket) {
	if e := x.entry(s); e.socket == s {
		e.socket = nil
	}
}

func (s *Socket) localPort() uint16 { return uint16(s.ends.local.port.Load() >> 16) }

// isConnected reports that the socket has a peer's address.
func (s *Socket) isConnected() bool { return uint16(s.ends.remote.port.Load()) != noAddress }

func (s *Socket) setLocal(a netip.AddrPort) { s.ends.set(a, s.remote()) }

// LocalAddr is the address the socket is bound to; the zero AddrPort before, and on unix-domain sockets: see LocalUnix. Any goroutine.
func (s *Socket) LocalAddr() netip.AddrPort {
	local, _ := s.ends.get()
	return local
}

// RemoteAddr is the peer of a connection; the zero AddrPort when there is none. Unix-domain sockets
// have RemoteUnix. Any goroutine.
func (s *Socket) RemoteAddr() netip.AddrPort {
	_, remote := s.ends.get()
	return remote
}
