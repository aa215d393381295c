package extraapi

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// DummyFlag is VMA_SND_FLAGS_DUMMY, for code that carries VMA's flags around: Send with it is Warm.
const DummyFlag = 0x400

// DummySend walks the whole path of sending b, up to the link, without putting anything on the wire: no frame, no question for a neighbour, no
// identification used up, no event. What it touches is in the caches when the message that matters is sent; call it every few
// hundred microseconds of silence. to is zero for the connected peer.
//
// What is walked depends on who sends (Query with WarmSend tells): on an offloaded socket all that is ours, up to the link's
// ring; on a kernel socket, and where an offloaded one must leave a destination to the kernel, the system call and the kernel's route
// look-up; TCP of the kernel refuses, because its every send sends.
//
// EAGAIN: the path is not warm (neighbour unknown, no buffer, full queue): Prepare it, or send. Calls are counted in ring.SocketStats and
// ring.RingStats. Owner only. (VMA: send with VMA_SND_FLAGS_DUMMY, which sends a real datagram when the neighbour is unknown.)
func DummySend(s *xtreme.Socket, b []byte, to netip.AddrPort) error {
	if s == nil {
		return noSocket("DummySend")
	}
	return dummySendResult("DummySend", s.WarmSend(b, to))
}

// errCold is made once: a program that warms in a loop meets it often.
var errCold = fmt.Errorf("extraapi: Warm: %w", &ring.OpError{Op: "warm: the path is not ready", Err: unix.EAGAIN})

// dummySendResult names the call in an error.
func dummySendResult(call string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN):
		return errCold
	}
	return fmt.Errorf("extraapi: %s: %w", call, err)
}

// Prepare makes the first send to an address as fast as the others, and Warm possible: it finds the route, asks for the neighbour,
// makes the headers. It does not wait; Warm answers EAGAIN until the neighbour is known. Kernel sockets have nothing to prepare.
// Owner only.
func Prepare(s *xtreme.Socket, to netip.AddrPort) error {
	if s == nil {
		return noSocket("Prepare")
	}
	if err := s.Prepare(to); err != nil {
		return fmt.Errorf("extraapi: Prepare: %w", err)
	}
	return nil
}

// Send is a send with VMA's flags: none, or DummyFlag, which makes it Warm and the answer len(b). Others are EINVAL. to is zero for the
// connected peer. Owner only.
func Send(s *xtreme.Socket, b []byte, to netip.AddrPort, flags int) (int, error) {
	switch {
	case s == nil:
		return 0, noSocket("Send")
	case flags == DummyFlag:
		if err := s.WarmSend(b, to); err != nil {
			return 0, dummySendResult("Send", err)
		}
		return len(b), nil
	case flags != 0:
		return 0, badFlags("Send", flags)
	case to.IsValid():
		return s.SendTo(b, to)
	}
	return s.Send(b)
}
