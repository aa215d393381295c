package offload

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// icmpErrors receives the ICMP errors that come to this host beside a kernel: the steering program leaves ICMP to the kernel, which drops an
// error about a connection that it does not have. A raw socket gets a copy of each, and the stack takes those that quote a segment of TCP.
// Sockets of UDP have shadows, which are told by the kernel.
type icmpErrors struct {
	fd      int // -1: none
	watch   shadow.Watch
	buffer  [icmpErrorMax]byte
	missing ring.Reason // why there is none
	taken   uint64      // errors about connections of the stack
}

const (
	// icmpErrorMax is the longest message that is read. RFC 1812 section 4.3.2.3 limits errors to 576 bytes.
	icmpErrorMax = 2048
	// icmpErrorBurst is how many messages a turn reads. What a flood brings beyond them is dropped at the socket.
	icmpErrorBurst = 32
	// icmpErrorsSlot is their name in the list of shadows: no socket has the slot.
	icmpErrorsSlot = kernelStreamsSlot - 1
)

// Of linux/icmp.h: a raw socket's filter has a bit for each type that it is not to receive.
const (
	icmpFilter      = 1
	icmpFilterTypes = 1<<wire.ICMPUnreachable | 1<<wire.ICMPTimeExceeded | 1<<wire.ICMPParameter
)

// open opens the raw socket of a driver that carries TCP beside a kernel, and puts it into the list of shadows. Without CAP_NET_RAW there is
// none, and the paths of streams say so.
func (x *icmpErrors) open(list *shadow.List) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP)
	if errors.Is(err, unix.EPERM) {
		x.missing = ring.Reason{Code: "tcp.no_icmp", Text: "without CAP_NET_RAW no ICMP error reaches connections: one to a port or host that " +
			"is not there waits for its time-out, and a narrow path is found by the loss of long segments"}
		return nil
	}
	if err != nil {
		return fmt.Errorf("a raw socket for ICMP errors: %w", err)
	}
	x.fd = fd
	filter := ^int32(icmpFilterTypes)
	if err := unix.SetsockoptInt(fd, unix.SOL_RAW, icmpFilter, int(filter)); err != nil {
		return errors.Join(fmt.Errorf("ICMP_FILTER: %w", err), x.close(list))
	}
	if err := list.StartWatching(&x.watch, fd, icmpErrorsSlot, 0); err != nil {
		return errors.Join(err, x.close(list))
	}
	return nil
}

// close closes the raw socket.
func (x *icmpErrors) close(list *shadow.List) error {
	if x.fd < 0 {
		return nil
	}
	list.Remove(&x.watch)
	err := unix.Close(x.fd)
	x.fd = -1
	return err
}

// read gives the stack those of the ICMP errors received on the raw socket that quote TCP, and reports whether more may wait there.
func (x *icmpErrors) read(stack *ip.Stack, now clock.Time) (more bool) {
	for range icmpErrorBurst {
		n, err := unix.Read(x.fd, x.buffer[:])
		if err != nil {
			return err == unix.EINTR
		}
		if stack.ErrorViaKernel(now, x.buffer[:n], wire.ProtocolTCP) == wire.Accept {
			x.taken++
		}
	}
	return true
}
