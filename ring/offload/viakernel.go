package offload

import (
	"errors"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// TCP sockets that the kernel carries, on the ring of those that the stack carries:
//
//	a listener             the stack accepts what comes by the links; the kernel, which listens beside, what comes otherwise
//	a child of that        its transport is the kernel's; the steering program passes its segments (nic/kernelconns.go)
//	an outgoing stream     to this host, over an interface that is no link of the ring, or of IPv6: likewise
//
// A driver of kind epoll inside this one drives them. It is asked when the shadows are.
type kernelStreams struct {
	ring.Driver              // nil until there is such a socket
	watch       shadow.Watch // its descriptor in the list of shadows
	attached    uint64       // streams, ever
}

// kernelStreamsSlot is the name of the inner driver in the list of shadows: no socket has the slot.
const kernelStreamsSlot = ^uint32(0)

// The reasons for which the kernel carries a TCP socket.
var (
	noIPv6     = ring.Reason{Code: "offload.no_ipv6", Text: "this stack speaks IPv4: the kernel carries the socket"}
	sameHost   = ring.Reason{Code: "tcp.same_host", Text: "both ends are on this host: no frame of such a connection reaches a link"}
	noLink     = ring.Reason{Code: "tcp.no_link", Text: "the connection leaves by an interface that is no link of the ring"}
	fromKernel = ring.Reason{Code: "tcp.kernel_child", Text: "the kernel's listener beside the stack's has accepted the connection: it came by an " +
		"interface that is no link of the ring"}
	portZero  = ring.Reason{Code: "tcp.port_zero", Text: "the kernel connects to port 0, which no connection of the stack can have"}
	whileAway = ring.Reason{Code: "tcp.while_away", Text: "the kernel's listener beside the stack's has accepted the connection, because no " +
		"steering program was on the interface then"}
)

// kernelTransport is the transport of streams that the kernel carries: by it they are told from those that are only made by the kernel's.
type kernelTransport struct{ *kernel.Transport }

// isKernels reports whether the kernel carries a stream.
func isKernels(s *ring.Socket) bool {
	_, yes := ring.TransportOf(s).(*kernelTransport)
	return yes
}

// attach puts a TCP socket into the inner driver, which it makes for the first one.
func (k *kernelStreams) attach(s *ring.Socket, pool *buffers.DriverPool, list *shadow.List) error {
	if k.Driver == nil {
		drv, err := epoll.New(ring.DriverConfig{Pool: pool})
		if err != nil {
			return err
		}
		k.Driver = drv
		if err := list.StartWatching(&k.watch, drv.FD(), kernelStreamsSlot, 0); err != nil {
			return errors.Join(err, k.close(list))
		}
	}
	return k.Attach(s)
}

// close closes the inner driver, whose sockets were detached.
func (k *kernelStreams) close(list *shadow.List) error {
	if k.Driver == nil {
		return nil
	}
	list.Remove(&k.watch)
	err := k.Close()
	k.Driver = nil
	return err
}

// attachToKernel puts a TCP socket into the inner driver. e is its entry.
func (d *driver) attachToKernel(s *ring.Socket) (e *entry, err error) {
	if err := d.tcp.viaKernel.attach(s, d.pool, &d.shadows.List); err != nil {
		return nil, err
	}
	return d.table.add(s), nil
}

// attachKernelStream takes a stream that the kernel carries.
func (d *driver) attachKernelStream(s *ring.Socket, why ring.Reason) error {
	e, err := d.attachToKernel(s)
	if err != nil {
		return err
	}
	e.viaKernel = true
	d.tcp.viaKernel.attached++
	e.reasons = append(e.reasons, why)
	return nil
}

// whyKernel is the reason for which a stream is the kernel's.
func (d *driver) whyKernel(s *ring.Socket) ring.Reason {
	remote := s.RemoteAddr().Addr().Unmap()
	if s.Family() == ring.IPv6 && !remote.Is4() {
		return noIPv6
	}
	if _, here := d.below.snapshot().Local(remote); here || remote.IsLoopback() || remote.IsUnspecified() {
		return sameHost
	}
	if s.RemoteAddr().Port() == 0 {
		return portZero
	}
	if index, _ := d.below.snapshot().Local(s.LocalAddr().Addr().Unmap()); d.nics.Has(index) {
		return whileAway
	}
	return fromKernel
}

// acceptBeside starts or stops the accepting of the kernel's listener beside the stack's. Without a kernel there is none.
func (d *driver) acceptBeside(s *ring.Socket, on bool) error {
	if d.below.memoryHost != nil {
		return nil
	}
	if d.table.of(s) == nil {
		if _, err := d.attachToKernel(s); err != nil {
			return err
		}
	}
	return d.tcp.viaKernel.SetReceiving(s, on)
}

// reapKernelStreams reports what has happened to the sockets that the kernel carries. more: there may be more.
func (d *driver) reapKernelStreams(k *ring.Sink) (more bool, err error) {
	room := k.Room()
	if d.tcp.viaKernel.Driver == nil || room == 0 {
		return false, nil
	}
	err = d.tcp.viaKernel.Reap(k)
	return k.Room() < room, err
}
