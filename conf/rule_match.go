package conf

import (
	"net/netip"
	"slices"
)

// DefaultApplicationID is the application id of a program that has none; it is found by groups of any id ("*") only.
const DefaultApplicationID = "VMA_DEFAULT_APPLICATION_ID"

// Program is who asks the rules.
type Program struct {
	Name string // of the executable, without its folder
	ID   string // application id
}

// Answer is what the rules come to for one call.
type Answer struct {
	Transport Transport // Offloaded, OS or Either
	Group     *Group    // nil: none is for the program
	Rule      *Rule     // nil: none matched
}

// Match answers for a call. The first group for the program decides, and in it the first rule that matches; where none does the socket
// is offloaded, and later groups are not asked (libvma, match.cpp). second is the zero AddrPort where the call has none.
func (r *Rules) Match(p Program, role Role, first, second netip.AddrPort) Answer {
	for _, g := range r.groups {
		if !g.isFor(p) {
			continue
		}
		for i := range g.rules[role] {
			if rule := &g.rules[role][i]; rule.Transport != SDP && rule.holds(first, second) {
				return Answer{rule.Transport, g, rule}
			}
		}
		return Answer{Group: g}
	}
	return Answer{}
}

// Knows reports whether any group is for the program. VMA warns where none is for a program that has an application id.
func (r *Rules) Knows(p Program) bool {
	return slices.ContainsFunc(r.groups, func(g *Group) bool { return g.isFor(p) })
}

// Decided is what PreCheck answers.
type Decided uint8

// The answers.
const (
	Undecided    Decided = iota // each call asks for itself
	AllOffloaded                // every call would be offloaded
	AllOS                       // every call would go to the kernel
)

// String is the value in words.
func (d Decided) String() string { return [...]string{"undecided", "sx", "os"}[d] }

// PreCheck is what VMA would make of the rules at socket(), when no address is known: a rule for everything decides a role, unless one for
// something before it says otherwise; without such a rule the role is offloaded. The two roles must agree, else the next group is asked.
// Sockets here are not decided before they have their addresses, so that nothing depends on it; it reports where a program
// under VMA would not even have got an object of VMA's (match.cpp, match_by_program).
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

func (g *Group) allOS(role Role) bool {
	kernel, offloaded := false, false
	for i := range g.rules[role] {
		rule := &g.rules[role][i]
		os := rule.Transport == OS
		switch {
		case rule.Transport == SDP:
		case !rule.everything():
			kernel, offloaded = kernel || os, offloaded || !os
		case os && !offloaded:
			return true
		case !os && !kernel:
			return false
		}
	}
	return false
}

// isFor reports whether the group is for the program.
func (g *Group) isFor(p Program) bool {
	return (g.ID == "*" || p.ID == "*" || g.ID == p.ID) && glob(g.Program, p.Name)
}
