package conf

import (
	"net/netip"
	"slices"
)

// DefaultApplicationID is the application id of a program that has none. Only groups for all ids ("*") are for it.
const DefaultApplicationID = "VMA_DEFAULT_APPLICATION_ID"

// Program names the program whose sockets the rules are asked about.
type Program struct {
	Name string // of the executable, without its folder
	ID   string // application id (VMA_APPLICATION_ID)
}

// Answer is what the rules say of one socket.
type Answer struct {
	Transport Transport // Offloaded, OS or Either
	Group     *Group    // the group that decided; nil: no group is for the program
	Rule      *Rule     // the rule that decided; nil: none matched, and Transport is Offloaded
}

// Match finds the rule for a socket in a role, by the role's first and second address; second is the zero AddrPort where the role or the
// socket has none. The first group for the program decides alone, and in it the first rule that matches. Where none does, the socket is
// offloaded, and later groups are not asked (libvma, match.cpp).
func (r *Rules) Match(p Program, role Role, first, second netip.AddrPort) Answer {
	for _, g := range r.groups {
		if !g.isFor(p) {
			continue
		}
		for i := range g.rules[role] {
			if rule := &g.rules[role][i]; rule.Transport != SDP && rule.matches(first, second) {
				return Answer{rule.Transport, g, rule}
			}
		}
		return Answer{Group: g}
	}
	return Answer{}
}

// Knows reports whether any group is for the program. An engine warns where none is for a program that was given an application id, as VMA
// does.
func (r *Rules) Knows(p Program) bool {
	return slices.ContainsFunc(r.groups, func(g *Group) bool { return g.isFor(p) })
}

// Decided is the answer of PreCheck.
type Decided uint8

// The answers.
const (
	Undecided    Decided = iota // bind, connect and the like decide
	AllOffloaded                // every socket would be offloaded
	AllOS                       // the kernel would carry every socket
)

// String is the value in words: "undecided", "sx" or "os".
func (d Decided) String() string { return [...]string{"undecided", "sx", "os"}[d] }

// PreCheck returns what VMA would decide at socket(), for a UDP or a TCP socket whose addresses are not known yet (match.cpp,
// match_by_program). It is for comparing with VMA (examples/rules): sockets here are decided when they have their addresses.
//
// In a group for the program, a role goes to the kernel if a rule for all addresses says so and no rule before it says otherwise; else it is
// offloaded. If the two roles of the protocol agree, that is the answer; if not, the next group for the program is asked.
func (r *Rules) PreCheck(p Program, udp bool) Decided {
	if len(r.groups) == 0 {
		return AllOffloaded
	}
	a, b := TCPServer, TCPClient
	if udp {
		a, b = UDPReceiver, UDPSender
	}
	for _, g := range r.groups {
		if g.isFor(p) && g.allOS(a) == g.allOS(b) {
			if g.allOS(a) {
				return AllOS
			}
			return AllOffloaded
		}
	}
	return Undecided
}

// allOS reports whether the rules of a role leave every socket to the kernel: whether a rule for all addresses says so, and no rule before it
// offloads some.
func (g *Group) allOS(role Role) bool {
	someOS, someOffloaded := false, false // what rules for some addresses said so far
	for i := range g.rules[role] {
		rule := &g.rules[role][i]
		os := rule.Transport == OS
		switch {
		case rule.Transport == SDP:
		case !rule.matchesAll():
			someOS, someOffloaded = someOS || os, someOffloaded || !os
		case os && !someOffloaded:
			return true
		case !os && !someOS:
			return false
		}
	}
	return false
}

// isFor reports whether the group is for the program: by its name's pattern, and by the application id unless either is "*".
func (g *Group) isFor(p Program) bool {
	return (g.ID == "*" || p.ID == "*" || g.ID == p.ID) && glob(g.Program, p.Name)
}
