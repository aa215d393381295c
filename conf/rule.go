package conf

import (
	"fmt"
	"net/netip"
	"strings"
)

// Role is what a socket is about to do when the rules are asked.
type Role uint8

// The roles.
const (
	TCPServer   Role = iota // listen: the local address
	TCPClient               // connect: the peer, then the local address
	UDPReceiver             // bind, and joining a group: the local address, or group and port
	UDPSender               // a destination, then the local address
	UDPConnect              // connect: the peer, then the local address
	roles
)

var roleNames = [roles]string{"tcp_server", "tcp_client", "udp_receiver", "udp_sender", "udp_connect"}

// String is the role as rules files write it.
func (r Role) String() string { return roleNames[r] }

// Transport is what a rule says, or what the rules come to.
type Transport uint8

// The transports. SDP is that of the Sockets Direct Protocol (sdp, sa), which neither VMA nor this has: such rules never match.
const (
	Offloaded Transport = iota // vma, xlio, sx; also where no rule matches
	OS                         // os: the kernel's sockets
	Either                     // *: not os
	SDP
)

var transportNames = [...]string{Offloaded: "sx", OS: "os", Either: "*", SDP: "sdp"}

// String is the transport as rules files write it.
func (t Transport) String() string { return transportNames[t] }

// Tuple is which addresses and ports a rule is for.
type Tuple struct {
	Prefix      netip.Prefix // not valid: any address
	First, Last uint16       // ports
	AnyPort     bool
}

// String is the tuple as rules files write it.
func (t Tuple) String() string {
	address, ports := "*", "*"
	if t.Prefix.IsValid() {
		address = t.Prefix.Addr().String()
		if t.Prefix.Bits() < 32 {
			address = t.Prefix.String()
		}
	}
	if !t.AnyPort {
		if ports = fmt.Sprint(t.First); t.Last != t.First {
			ports = fmt.Sprintf("%d-%d", t.First, t.Last)
		}
	}
	return address + ":" + ports
}

// holds reports whether the tuple is for a. The ports are looked at first, as in VMA; the order shows nowhere else.
func (t Tuple) holds(a netip.AddrPort) bool {
	if p := a.Port(); !t.AnyPort && (p < t.First || p > t.Last) {
		return false
	}
	return !t.Prefix.IsValid() || t.Prefix.Contains(a.Addr().Unmap())
}

func (t Tuple) any() bool { return t.AnyPort && !t.Prefix.IsValid() }

// Rule is one line of a rules file.
type Rule struct {
	Transport Transport
	Role      Role
	First     Tuple
	Second    *Tuple // nil: the rule has none
	Line      int    // where it stands; 0 for one added at run time

	atEnd bool // of one added at run time: behind those of the file
}

// String is the rule as rules files write it.
func (r Rule) String() string {
	s := fmt.Sprintf("use %v %v %v", r.Transport, r.Role, r.First)
	if r.Second != nil {
		s += ":" + r.Second.String()
	}
	return s
}

// holds reports whether the rule is for a call with these addresses; second is not valid where the call has none, and then the rule's
// second tuple is not looked at (libvma, match.cpp).
func (r *Rule) holds(first, second netip.AddrPort) bool {
	return r.First.holds(first) && (r.Second == nil || !second.IsValid() || r.Second.holds(second))
}

// everything reports whether the rule is for each call of its role.
func (r *Rule) everything() bool { return r.First.any() && (r.Second == nil || r.Second.any()) }

// Group is the rules below one application-id line.
type Group struct {
	Program string // a shell pattern for the program's name
	ID      string // "*", or an application id
	rules   [roles][]Rule
	added   bool // at run time
}

// Rules lists the group's rules of a role, in the order in which they are tried.
func (g *Group) Rules(r Role) []Rule { return g.rules[r] }

// Rules says which sockets are offloaded: a rules file in the grammar of VMA's libvma.conf. A Rules does not change: With returns
// another one.
type Rules struct {
	groups  []*Group
	current int  // the group that With adds to: the one named last
	added   bool // With was called
}

// Groups lists the groups in the order in which they are tried.
func (r *Rules) Groups() []*Group { return r.groups }

// String is the rules as a rules file.
func (r *Rules) String() string {
	var b strings.Builder
	for _, g := range r.groups {
		fmt.Fprintf(&b, "application-id %s %s\n", g.Program, g.ID)
		for _, list := range g.rules {
			for _, rule := range list {
				fmt.Fprintln(&b, rule)
			}
		}
	}
	return b.String()
}

// clone is a copy that shares nothing that is written to.
func (r *Rules) clone() *Rules {
	c := &Rules{groups: make([]*Group, len(r.groups)), current: r.current, added: r.added}
	for i, g := range r.groups {
		copied := &Group{Program: g.Program, ID: g.ID, added: g.added}
		for role, list := range g.rules {
			copied.rules[role] = append([]Rule(nil), list...)
		}
		c.groups[i] = copied
	}
	return c
}

// open makes the group of program and id the current one: the one there is, or a new one at the end.
func (r *Rules) open(program, id string, added bool) {
	for i, g := range r.groups {
		if g.Program == program && g.ID == id {
			r.current = i
			return
		}
	}
	r.current = len(r.groups)
	r.groups = append(r.groups, &Group{Program: program, ID: id, added: added})
}

// add puts a rule of a file into the current group; rules before any application-id are for every program.
func (r *Rules) add(rule Rule) {
	list := r.list(rule)
	*list = append(*list, rule)
}

func (r *Rules) list(rule Rule) *[]Rule {
	if len(r.groups) == 0 {
		r.open("*", "*", rule.Line == 0)
	}
	return &r.groups[r.current].rules[rule.Role]
}
