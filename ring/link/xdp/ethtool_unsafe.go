package xdp

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of SIOCETHTOOL (include/uapi/linux/ethtool.h).
const (
	ethtoolGetChannels   = 0x3c
	ethtoolGetFlags      = 0x25
	ethtoolGetRuleCount  = 0x2e
	ethtoolGetRule       = 0x2f
	ethtoolGetRules      = 0x30
	ethtoolDeleteRule    = 0x31
	ethtoolInsertRule    = 0x32
	ruleLocationsSpecial = 0x80000000 // RX_CLS_LOC_SPECIAL: the card may choose the place
)

// channels is struct ethtool_channels.
type channels struct {
	cmd                                         uint32
	maxRx, maxTx, maxOther, maxCombined         uint32
	rxCount, txCount, otherCount, combinedCount uint32
}

// ethtoolChannels asks an interface for its queues.
func ethtoolChannels(fd int, name string) (channels, unix.Errno) {
	c := channels{cmd: ethtoolGetChannels}
	e := ethtoolCall(fd, name, unsafe.Pointer(&c))
	return c, e
}

// takesTagsOut reports whether an interface takes 802.1Q tags out of the frames that it receives (rx-vlan-offload). One that does not know the
// question does not.
func takesTagsOut(name string) bool {
	const receiveVLAN = 1 << 8 // ETH_FLAG_RXVLAN
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	value := struct{ cmd, data uint32 }{cmd: ethtoolGetFlags}
	return ethtoolCall(fd, name, unsafe.Pointer(&value)) == 0 && value.data&receiveVLAN != 0
}

// ruleRequest is struct ethtool_rxnfc.
type ruleRequest struct {
	cmd, flowType uint32
	data          uint64
	spec          [specBytes]byte
	count         uint32
}

// requestBytes is where the list of locations begins in a request.
const requestBytes = 188

// ethtoolCall makes the ioctl SIOCETHTOOL for an interface. data points to the command's struct, which the kernel reads and writes; fd is any
// socket of the interface's network namespace.
func ethtoolCall(fd int, name string, data unsafe.Pointer) unix.Errno {
	req := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: data}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	return e
}

// ethtool is the card behind an interface, asked by SIOCETHTOOL.
type ethtool struct {
	fd   int
	name string
}

// newEthtool opens the socket that the ioctls need, in the calling thread's network namespace. close ends it.
func newEthtool(name string) (*ethtool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &ethtool{fd, name}, nil
}

func (c *ethtool) close() error { return unix.Close(c.fd) }

// call makes a request about receive rules; the kernel's answer is in r. The error is the plain errno, nil for none.
func (c *ethtool) call(r *ruleRequest) error {
	if e := ethtoolCall(c.fd, c.name, unsafe.Pointer(r)); e != 0 {
		return e
	}
	return nil
}

// table asks for the size of the card's table of rules, and whether the card wants to choose the location of a new one.
func (c *ethtool) table() (size int, chooses bool, err error) {
	r := ruleRequest{cmd: ethtoolGetRuleCount}
	if err := c.call(&r); err != nil {
		return 0, false, err
	}
	chooses = r.data&ruleLocationsSpecial != 0
	// The list of rules comes with the size of the table; it needs room for the rules there are (EMSGSIZE otherwise).
	all := ruleRequest{cmd: ethtoolGetRules, count: r.count}
	if err := c.list(&all, make([]uint32, r.count)); err != nil {
		return 0, false, err
	}
	return int(all.data), chooses, nil
}

// locations asks for the locations of the rules in the card's table.
func (c *ethtool) locations(int) ([]uint32, error) {
	r := ruleRequest{cmd: ethtoolGetRuleCount}
	if err := c.call(&r); err != nil {
		return nil, err
	}
	if r.count == 0 {
		return nil, nil
	}
	all := make([]uint32, r.count)
	r = ruleRequest{cmd: ethtoolGetRules, count: r.count}
	if err := c.list(&r, all); err != nil {
		return nil, err
	}
	return all[:min(int(r.count), len(all))], nil
}

// list makes a request that the kernel answers in r and with a list of locations behind the struct. It copies that list to locations, whose
// length is the room that the kernel is given.
func (c *ethtool) list(r *ruleRequest, locations []uint32) error {
	// Of words, as the kernel wants the struct aligned. Without locations they still have room for it with its padding, 192 bytes.
	words := make([]uint64, (requestBytes+4*len(locations)+7)/8)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	copy(raw, unsafe.Slice((*byte)(unsafe.Pointer(r)), requestBytes))
	if e := ethtoolCall(c.fd, c.name, unsafe.Pointer(&words[0])); e != 0 {
		return e
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(r)), requestBytes), raw)
	for i := range locations {
		locations[i] = binary.NativeEndian.Uint32(raw[requestBytes+4*i:])
	}
	return nil
}

// read is the rule at a location, with the location cleared, so that rules at different locations compare equal.
func (c *ethtool) read(location uint32) ([specBytes]byte, error) {
	r := ruleRequest{cmd: ethtoolGetRule}
	binary.NativeEndian.PutUint32(r.spec[specLocation:], location)
	err := c.call(&r)
	binary.NativeEndian.PutUint32(r.spec[specLocation:], 0)
	return r.spec, err
}

// insert puts a rule at a location (anywhere: locationAny) and reports where the card has put it.
func (c *ethtool) insert(spec [specBytes]byte, location uint32) (uint32, error) {
	r := ruleRequest{cmd: ethtoolInsertRule, spec: spec}
	binary.NativeEndian.PutUint32(r.spec[specLocation:], location)
	err := c.call(&r)
	return binary.NativeEndian.Uint32(r.spec[specLocation:]), err
}

// remove takes the rule at a place out.
func (c *ethtool) remove(location uint32) error {
	r := ruleRequest{cmd: ethtoolDeleteRule}
	binary.NativeEndian.PutUint32(r.spec[specLocation:], location)
	return c.call(&r)
}
