package ring

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Network is where sockets are made when it is not the kernel: it has addresses, ports and interfaces of its own. Its calls are
// those of the application's set-up, never of a packet. Errors are errnos, as the kernel's are. The owner of the set calls it; one that
// serves several owners locks.
type Network interface {
	// Socket makes a socket and returns its number, which is not a descriptor; Close ends it. Kind is Stream or Datagram, family
	// unix.AF_INET or unix.AF_INET6; what the network does not carry it refuses with a *FeatureError.
	Socket(kind SocketKind, family int) (id int, err error)
	Close(id int) error
	// Bind gives the socket its address; with port 0 it chooses one. Connect remembers the peer and says from which address it is
	// reached.
	Bind(id int, local netip.AddrPort) (bound netip.AddrPort, err error)
	Connect(id int, remote netip.AddrPort) (local netip.AddrPort, err error)
	// Option is setsockopt with a number, Device is SO_BINDTODEVICE, Membership joins or leaves a group; index 0 leaves the interface
	// to the routing table.
	Option(id, level, option, value int) error
	Device(id, index int) error
	Membership(id int, group netip.Addr, index int, source netip.Addr, join bool) error
	// Interface finds an interface by name, InterfaceOf the one that has an address, 0 for none.
	Interface(name string) (index int, err error)
	InterfaceOf(a netip.Addr) (index int)
}

func (set *Set) interfaceIndex(name string) (int, error) {
	if n := set.config.Network; n != nil {
		return n.Interface(name)
	}
	return sys.InterfaceIndex(name)
}

// Settings are what the application said of a datagram socket, for drivers with a stack of their own.
type Settings struct {
	TTL, TOS, MulticastTTL      int
	MulticastLoop, MulticastAll bool
	MulticastInterface          int // 0: the routing table chooses
	Broadcast                   bool
	ReuseAddr, ReusePort        bool
	ReceiveBuffer               int // 0: the default
	Groups                      []Membership

	names map[int]string // of the interfaces that groups were joined on by name
}

// Membership is one call of JoinGroup that LeaveGroup has not undone.
type Membership struct {
	Group     netip.Addr
	Interface int        // 0: the routing table chooses
	Source    netip.Addr // invalid: all
}

// defaultSettings are Linux's.
var defaultSettings = Settings{TTL: 64, MulticastTTL: 1, MulticastLoop: true, MulticastAll: true}

// Settings are what was said of the socket so far. Read only. Owner only; empty for others.
func (s *Socket) Settings() *Settings {
	if !s.readable() {
		return &Settings{}
	}
	return &s.settings
}

// Renumber tells that an interface was made again, with another number: memberships on it are left by the new one. For drivers.
func (x *Settings) Renumber(from, to int) {
	for i := range x.Groups {
		if x.Groups[i].Interface == from {
			x.Groups[i].Interface = to
		}
	}
	if name, ok := x.names[from]; ok {
		x.name(to, name)
	}
}

// name notes what an interface was called when a group was joined on it: when it is deleted nobody else knows.
func (x *Settings) name(index int, name string) {
	if x.names == nil {
		x.names = map[int]string{}
	}
	x.names[index] = name
}

// goneInterface finds the interface of a membership by the name that it was joined with.
func (x *Settings) goneInterface(group netip.Addr, name string, source netip.Addr) (index int, ok bool) {
	for _, m := range x.Groups {
		if m.Group == group && m.Source == source && m.Interface != 0 && x.names[m.Interface] == name {
			return m.Interface, true
		}
	}
	return 0, false
}

// Device is the index of the interface that BindToDevice tied the socket to, 0 for none. Owner only.
func (s *Socket) Device() int {
	if !s.readable() {
		return 0
	}
	return s.device
}

// Config is what the socket was made with. Read only. Any goroutine.
func (s *Socket) Config() *Config { return &s.config }

// note keeps an option, if it is one of those; true says that it is.
func (x *Settings) note(level, option, value int) bool {
	on := value != 0
	switch [2]int{level, option} {
	case [2]int{unix.SOL_SOCKET, unix.SO_REUSEADDR}:
		x.ReuseAddr = on
	case [2]int{unix.SOL_SOCKET, unix.SO_REUSEPORT}:
		x.ReusePort = on
	case [2]int{unix.SOL_SOCKET, unix.SO_BROADCAST}:
		x.Broadcast = on
	case [2]int{unix.SOL_SOCKET, unix.SO_RCVBUF}:
		x.ReceiveBuffer = value
	case [2]int{unix.IPPROTO_IP, unix.IP_TTL}:
		x.TTL = value
	case [2]int{unix.IPPROTO_IP, unix.IP_TOS}:
		x.TOS = value
	case [2]int{unix.IPPROTO_IP, unix.IP_MULTICAST_TTL}:
		x.MulticastTTL = value
	case [2]int{unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP}:
		x.MulticastLoop = on
	case [2]int{unix.IPPROTO_IP, ipMulticastAll}:
		x.MulticastAll = on
	default:
		return false
	}
	return true
}

const ipMulticastAll = 49 // IP_MULTICAST_ALL of linux/in.h

func (x *Settings) member(m Membership, join bool) {
	if join {
		x.Groups = append(x.Groups, m)
		return
	}
	// What was joined by the routing table's choice may be left by the interface's name, and the other way round: the network, which
	// has resolved both, has said already that there is such a membership.
	at := slices.Index(x.Groups, m)
	if at < 0 {
		at = slices.IndexFunc(x.Groups, func(g Membership) bool {
			return g.Group == m.Group && g.Source == m.Source && (g.Interface == 0 || m.Interface == 0)
		})
	}
	if at >= 0 {
		x.Groups = slices.Delete(x.Groups, at, at+1)
	}
}
