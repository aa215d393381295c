package stack

import "fmt"

// Validate names what cannot be an interface's.
func (l *Interface) Validate() error {
	if l.Index <= 0 || l.MTU < 68 || l.VLAN > 4094 || l.MAC.IsGroup() {
		return fmt.Errorf("interface of Index %d, MTU %d, VLAN %d, MAC %v: want a positive index, an MTU of at least 68, "+
			"a VLAN below 4095, a station's address", l.Index, l.MTU, l.VLAN, l.MAC)
	}
	return nil
}

// AddInterface gives the stack one more link, whose place is the NumInterfaces before. Destinations that it leads to are its from the next
// packet on.
func (s *Stack) AddInterface(l Interface) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("stack: add interface: %w", err)
	}
	s.links = append(s.links, attached{Interface: l})
	s.readAddresses() // its MTU, as the host has it now
	s.stamp++
	return nil
}

// Renew gives the link at a place another interface's facts: its own was deleted and made again. It carries from then on, until SetDown
// says otherwise; what is still queued for the old one is lost.
func (s *Stack) Renew(i int, l Interface) {
	s.dropQueued(&s.links[i])
	s.links[i] = attached{Interface: l, out: s.links[i].out}
	s.readAddresses() // its MTU, as the host has it now
	s.stamp++
}
