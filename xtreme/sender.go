package xtreme

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// askSender is the offload.Config.Sender of the engine's rings: whether a rule for udp_sender leaves a destination of an offloaded socket to
// the kernel. It is asked for each destination that a socket finds the way to, not for each datagram, and answers by the rules of that moment,
// those added after the socket was made included. (VMA: the same, with its dst_entry.)
func (e *Engine) askSender(s *ring.Socket, to netip.AddrPort) (ring.Reason, bool) {
	a := e.Rules().Match(e.rules.program, conf.UDPSender, to, s.LocalAddr())
	if a.Transport != conf.OS {
		return ring.Reason{}, false
	}
	return ring.Reason{Code: "rule.sender", Text: describe(a) + " leaves what the socket sends to its destinations to the kernel"}, true
}
