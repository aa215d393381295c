package simnet

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// input handles a frame in the kernel's stack: ARP, ICMP, or a datagram for its sockets.
func (k *Kernel) input(n *KernelNIC, b []byte) {
	eth, tag, typ, payload, bad := wire.ParseEthernet(b)
	switch {
	case bad != 0:
		k.stats.Malformed++
		return
	case tag != 0 || eth.Target() != n.mac && !eth.Target().IsGroup():
		k.stats.NotOurs++
		return
	case typ == wire.TypeARP:
		k.inputARP(n, payload, eth.Source())
		return
	case typ != wire.TypeIPv4:
		k.stats.NotOurs++
		return
	}
	ip, _, body, bad := wire.ParseIPv4(payload)
	if bad != 0 || ip.IsFragment() {
		k.stats.Malformed++
		return
	}
	source, target := ip.Source().Netip(), ip.Target().Netip()
	_, local := k.snapshot.Local(target)
	if !local && !k.snapshot.IsBroadcast(n.index, target) && !(target.IsMulticast() && k.isMember(target, source, n.index)) {
		k.stats.NotOurs++
		return
	}
	switch ip.Protocol() {
	case wire.ProtocolUDP:
		u, data, bad := wire.ParseUDP(body)
		if bad != 0 || wire.CheckUDP(ip, u, data) == wire.SumBad {
			k.stats.Malformed++
			return
		}
		from, to := netip.AddrPortFrom(source, u.SourcePort()), netip.AddrPortFrom(target, u.TargetPort())
		if !k.deliver(from, to, n.index, data) && local {
			k.sendUnreachable(n, ip, body, eth.Source())
		}
	case wire.ProtocolICMP:
		k.inputICMP(body)
	}
}

// deliver gives a datagram to the sockets that it is for, and reports whether there was one.
func (k *Kernel) deliver(from, to netip.AddrPort, index int, data []byte) (found bool) {
	k.stats.Received++
	list := k.receivers(from, to, index)
	for _, s := range list {
		s.push(kdatagram{from, to.Addr(), index, append([]byte(nil), data...)})
	}
	if len(list) == 0 {
		k.stats.NoSocket++
	}
	return len(list) > 0
}

// sendUnreachable sends an ICMP port-unreachable error about a datagram for which no socket was found.
func (k *Kernel) sendUnreachable(n *KernelNIC, ip *wire.IPv4, body []byte, station wire.MAC) {
	msg := wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPPort, Packet: append(slices.Clone(ip[:]), body...)}
	b, err := msg.Append(nil)
	if err != nil {
		return
	}
	n.transmitIPv4(wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolICMP, Source: ip.Target(), Target: ip.Source()}, b, station)
}

// inputICMP reports an unreachable port to the connected socket that sent there.
func (k *Kernel) inputICMP(body []byte) {
	h, rest, bad := wire.ParseICMP(body)
	if bad != 0 || !h.IsError() || h.Type() != wire.ICMPUnreachable || h.Code() != wire.ICMPPort {
		return
	}
	q, bad := wire.ParseQuote(h, rest)
	if bad != 0 || q.IP.Protocol() != wire.ProtocolUDP {
		return
	}
	from := netip.AddrPortFrom(q.IP.Source().Netip(), q.SourcePort())
	to := netip.AddrPortFrom(q.IP.Target().Netip(), q.TargetPort())
	for _, s := range k.allSockets() {
		if s.bound && s.remote == to && s.local == from {
			s.fail(unix.ECONNREFUSED)
			return
		}
	}
}

// send sends a datagram of a socket.
func (k *Kernel) send(s *ksocket, data []byte, to netip.AddrPort) syscall.Errno {
	if !to.IsValid() {
		return unix.EDESTADDRREQ
	}
	if !s.bound {
		if s.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)) != nil {
			return unix.EADDRINUSE
		}
	}
	q := host.Query{Target: to.Addr(), Interface: s.device}
	if q.Interface == 0 && to.Addr().IsMulticast() {
		q.Interface = s.mcastIf
	}
	if a := s.local.Addr(); !a.IsUnspecified() && !a.IsMulticast() {
		q.Source = a
	}
	w, err := k.snapshot.Route(q)
	if err != nil {
		var e syscall.Errno
		if errors.As(err, &e) {
			return e
		}
		return unix.ENETUNREACH
	}
	if len(data) > w.MTU-28 {
		return unix.EMSGSIZE
	}
	from := netip.AddrPortFrom(w.Source, s.local.Port())
	if w.Type == host.Local {
		k.deliver(from, to, w.Interface, data)
		return 0
	}
	n := k.nicOf(w.Interface)
	if n == nil || !n.up {
		return unix.ENETDOWN
	}
	k.stats.Sent++
	src, _ := wire.AddrFrom(w.Source)
	dst, _ := wire.AddrFrom(to.Addr())
	fields := wire.UDPFields{SourcePort: from.Port(), TargetPort: to.Port()}
	body, err := fields.Append(nil, src, dst, data)
	if err != nil {
		return unix.EINVAL
	}
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolUDP, Source: src, Target: dst, DontFragment: true}
	switch {
	case to.Addr().IsMulticast():
		n.transmitIPv4(ip, body, wire.GroupMAC(dst))
		if s.loop {
			k.deliver(from, to, w.Interface, data)
		}
	case w.Type == host.Broadcast:
		n.transmitIPv4(ip, body, wire.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		k.deliver(from, to, w.Interface, data)
	default:
		k.sendToNeighbour(n, w.NextHop(to.Addr()), ip, body)
	}
	return 0
}

// nicOf returns the present interface with an index, or nil.
func (k *Kernel) nicOf(index int) *KernelNIC {
	for _, n := range k.nics {
		if n.present && n.index == index {
			return n
		}
	}
	return nil
}

// transmitIPv4 sends an IPv4 packet to a station.
func (n *KernelNIC) transmitIPv4(ip wire.IPv4Fields, body []byte, station wire.MAC) {
	eth := wire.EthernetFields{Target: station, Source: n.mac, Type: wire.TypeIPv4}
	b, err := ip.Append(eth.Append(nil), len(body))
	if err != nil {
		panic(err) // the model's own bug
	}
	n.transmitOwn(append(b, body...))
}

// transmitOwn sends a frame that the kernel itself has made.
func (n *KernelNIC) transmitOwn(b []byte) {
	if !n.carries() {
		n.kernel.stats.LostDown++
		return
	}
	n.transmit(b, false)
}
