package offload

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

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

// openICMPErrors opens the raw socket of a driver that carries TCP, if it is beside a kernel. Without CAP_NET_RAW there is none, and the
// paths of streams say so.
func (d *driver) openICMPErrors() error {
	x := &d.icmp
	if d.memoryHost != nil {
		return nil
	}
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
		return errors.Join(fmt.Errorf("ICMP_FILTER: %w", err), d.closeICMPErrors())
	}
	if err := d.shadows.StartWatching(&x.watch, fd, icmpErrorsSlot, 0); err != nil {
		return errors.Join(err, d.closeICMPErrors())
	}
	return nil
}

// closeICMPErrors closes the raw socket.
func (d *driver) closeICMPErrors() error {
	x := &d.icmp
	if x.fd < 0 {
		return nil
	}
	d.shadows.Remove(&x.watch)
	err := unix.Close(x.fd)
	x.fd = -1
	return err
}

// readICMPErrors gives the stack those of the ICMP errors received on the raw socket that quote TCP, and reports whether more may wait there.
func (d *driver) readICMPErrors() (more bool) {
	for range icmpErrorBurst {
		n, err := unix.Read(d.icmp.fd, d.icmp.buffer[:])
		if err != nil {
			return err == unix.EINTR
		}
		if d.ip.ErrorViaKernel(d.turn.now, d.icmp.buffer[:n], wire.ProtocolTCP) == wire.Accept {
			d.icmp.taken++
		}
	}
	return true
}
