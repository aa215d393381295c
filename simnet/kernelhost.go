package simnet

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Host adds a ring to the machine: a Host whose driver shares the machine's interfaces with its other rings. queues are those of each interface
// that the ring serves; nil: all that no other ring serves. Addrs and MTU of the HostConfig are the machine's.
func (k *Kernel) Host(name string, queues []int, c HostConfig) (*Host, error) {
	c.Addrs, c.MTU = k.config.Addrs, k.config.MTU
	w := k.world
	if err := c.complete(name); err != nil {
		return nil, err
	}
	h := &Host{world: w, name: name, number: len(w.hosts) + 1, config: c, due: never, dst: make([]ring.Completion, c.Batch), kernel: k,
		queues: queues}
	k.hosts = append(k.hosts, h)
	if err := h.makeStackOn(k); err != nil {
		k.hosts = k.hosts[:len(k.hosts)-1]
		return nil, fmt.Errorf("simnet: host %s: %w", name, err)
	}
	w.hosts = append(w.hosts, h)
	return h, nil
}

// makeStackOn makes a host's pool and ring on a machine with a kernel, whose interfaces it shares with the machine's other rings.
func (h *Host) makeStackOn(k *Kernel) (err error) {
	c := &h.config
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	if h.pool, err = buffers.New(make([]byte, c.Layout.Bytes()), c.Layout); err != nil {
		return err
	}
	var on []nic.Interface
	for _, n := range k.nics {
		on = append(on, nic.Interface{Name: n.name, Queues: h.queues, Checksum: udp.Strict, Fill: c.Layout.SmallCount / 4})
	}
	random := h.world.Rand("host " + h.name)
	return h.buildRing(offload.Config{Exchange: k.exchange, Interfaces: on, Random: random.Uint64}, transport{k})
}

// waitsFor reports whether the host's ring must take a turn because a socket has become readable.
func (h *Host) waitsFor(s *ksocket) bool {
	if h.shadows == nil {
		return false
	}
	for _, e := range h.shadows.entries {
		if h.kernel.sockets[e.fd] == s {
			return e.ready(h.kernel) != 0
		}
	}
	return false
}

// KernelSocket is a UDP socket of another program on the machine.
type KernelSocket struct{ s *ksocket }

// OpenUDP opens a socket of another program. receive takes its datagrams as they come.
func (k *Kernel) OpenUDP(local netip.AddrPort, receive func(source netip.AddrPort, payload []byte)) (*KernelSocket, error) {
	const isShadow = false
	s := k.openSocket(isShadow)
	s.reuse, s.handler = true, receive // as with SO_REUSEPORT: it may share a port with the sockets of rings
	if err := s.bind(local); err != nil {
		_ = k.closeFD(s.fd) // it is there
		return nil, fmt.Errorf("simnet: kernel %s: bind %v: %w", k.name, local, err)
	}
	return &KernelSocket{s}, nil
}

// JoinGroup joins a group on the machine's i-th interface; LeaveGroup leaves it.
func (s *KernelSocket) JoinGroup(group netip.Addr, nic int) error {
	return s.s.membership(group, s.s.kernel.nics[nic].index, netip.Addr{}, true)
}

// LeaveGroup leaves a group.
func (s *KernelSocket) LeaveGroup(group netip.Addr, nic int) error {
	return s.s.membership(group, s.s.kernel.nics[nic].index, netip.Addr{}, false)
}

// SendTo sends a datagram.
func (s *KernelSocket) SendTo(payload []byte, to netip.AddrPort) error {
	if e := s.s.kernel.send(s.s, payload, to); e != 0 {
		return e
	}
	return nil
}

// Close closes the socket.
func (s *KernelSocket) Close() error { return s.s.kernel.closeFD(s.s.fd) }
