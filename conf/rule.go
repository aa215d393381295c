package conf

import (
	"fmt"
	"net/netip"
	"strings"
)

// Role is what a socket is about to do when the rules are asked. It decides which address a rule's first pair is compared with, and which
// its second.
type Role uint8

// The roles: what the socket does, its first address, its second one.
const (
	TCPServer   Role = iota // listens: the local address; no second one
	TCPClient               // connects: the peer; the local address
	UDPReceiver             // is bound: the local address; joins a group: the group with the local port; no second one
	UDPSender               // sends: the destination; the local address
	UDPConnect              // connects: the peer; the local address
	roles                   // how many there are
)

var roleNames = [roles]string{"tcp_server", "tcp_client", "udp_receiver", "udp_sender", "udp_connect"}

// String is the role as rules files write it.
func (r Role) String() string { return roleNames[r] }

// Transport says who carries a socket: the answer of a rule, and of Rules.Match.
type Transport uint8

// The transports, with the words of a rules file.
const (
	Offloaded Transport = iota // sx, vma, xlio: our own stack; also the answer where no rule matches
	OS                         // os: the kernel
	Either                     // *: our own stack where it can carry the socket, else the kernel; no complaint in the socket's path then
	SDP                        // sdp, sa: the Sockets Direct Protocol, which is not here, nor in VMA; such a rule never matches
)

var transportNames = [...]string{Offloaded: "sx", OS: "os", Either: "*", SDP: "sdp"}

// String is the transport as rules files write it.
func (t Transport) String() string { return transportNames[t] }

// Tuple is the addresses and ports that a rule is for.
type Tuple struct {
	Prefix      netip.Prefix // the zero Prefix is any address
	First, Last uint16       // the ports from First to Last, where AnyPort is false
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

// contains reports whether a has an address and a port of the tuple.
func (t Tuple) contains(a netip.AddrPort) bool {
	if p := a.Port(); !t.AnyPort && (p < t.First || p > t.Last) {
		return false
	}
	return !t.Prefix.IsValid() || t.Prefix.Contains(a.Addr().Unmap())
}

// isAny reports whether the tuple contains each address and port.
func (t Tuple) isAny() bool { return t.AnyPort && !t.Prefix.IsValid() }

// Rule is one line of a rules file.
type Rule struct {
	Transport Transport
	Role      Role
	First     Tuple
	Second    *Tuple // nil: the rule has no second address and port
	Line      int    // of the rules file, from 1; 0 for a rule added at run time

	atEnd bool // the rule was added at run time and is tried after those of the file
}

// String is the rule as rules files write it.
func (r Rule) String() string {
	s := fmt.Sprintf("use %v %v %v", r.Transport, r.Role, r.First)
	if r.Second != nil {
		s += ":" + r.Second.String()
	}
	return s
}

// matches reports whether the rule is for a socket with these addresses, in the order of its role. Where the role has no second one, second
// is the zero AddrPort, and the rule's second tuple is not compared (libvma, match.cpp).
func (r *Rule) matches(first, second netip.AddrPort) bool {
	return r.First.contains(first) && (r.Second == nil || !second.IsValid() || r.Second.contains(second))
}

// matchesAll reports whether the rule is for each socket of its role.
func (r *Rule) matchesAll() bool { return r.First.isAny() && (r.Second == nil || r.Second.isAny()) }

// Group is the rules below one application-id line: those for one program.
type Group struct {
	Program string // a shell pattern for the name of the executable
	ID      string // an application id (VMA_APPLICATION_ID), or "*" for all
	rules   [roles][]Rule
	added   bool // the group's application-id line was added at run time
}

// Rules lists the group's rules of a role, in the order in which they are tried.
func (g *Group) Rules(r Role) []Rule { return g.rules[r] }

// Rules say which sockets are offloaded: the content of a rules file in the grammar of VMA's libvma.conf. They do not change; With returns
// others. The zero Rules have no rule. Any goroutine.
type Rules struct {
	groups  []*Group
	current int  // index of the group named last, to which With adds
	added   bool // With added something
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

// clone returns a copy whose groups and lists may be changed while r is in use.
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

// selectGroup makes the group of program and id the current one, to which rules are added. If there is none, a new one is appended; added
// marks it as made at run time.
func (r *Rules) selectGroup(program, id string, added bool) {
	for i, g := range r.groups {
		if g.Program == program && g.ID == id {
			r.current = i
			return
		}
	}
	r.current = len(r.groups)
	r.groups = append(r.groups, &Group{Program: program, ID: id, added: added})
}

// appendRule puts a rule of a file into the current group, behind those before it.
func (r *Rules) appendRule(rule Rule) {
	list := r.listFor(rule)
	*list = append(*list, rule)
}

// listFor returns the list of the current group that a rule belongs to, by its role. Rules before any application-id line are in a group for
// all programs.
func (r *Rules) listFor(rule Rule) *[]Rule {
	if len(r.groups) == 0 {
		r.selectGroup("*", "*", rule.Line == 0)
	}
	return &r.groups[r.current].rules[rule.Role]
}
