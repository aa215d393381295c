package xtreme

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// kernelSends reports whether a rule for udp_sender leaves datagrams of an offloaded socket s to the destination to to the kernel, with the
// reason for the path. The offloaded ring calls it (offload.Config.Sender) when a socket looks up the route of a destination, not for each
// datagram. The rules of that moment count, those added after the socket was made too, as in VMA (dst_entry).
func (e *Engine) kernelSends(s *ring.Socket, to netip.AddrPort) (ring.Reason, bool) {
	a := e.Rules().Match(e.rules.program, conf.UDPSender, to, s.LocalAddr())
	if a.Transport != conf.OS {
		return ring.Reason{}, false
	}
	return ring.Reason{Code: "rule.sender", Text: describeRule(a) + " leaves what the socket sends to its destinations to the kernel"}, true
}
