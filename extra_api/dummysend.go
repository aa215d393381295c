package extraapi

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// DummyFlag is the value of VMA_SND_FLAGS_DUMMY, for programs that pass VMA's flags: Send with it is DummySend.
const DummyFlag = 0x400

// DummySend executes a send of b without putting anything on the wire: no frame, no ARP request, no event. The code and data of a send are in
// the processor's caches then, so that the next real send is fast; a program calls it every few hundred microseconds while it has nothing to
// send. The zero to means the connected peer.
//
// How much of a send it executes depends on the path (see the package's doc, and Query with WarmSend): on an offloaded socket everything up to
// the link's ring; on a kernel UDP socket the system call and the kernel's route look-up. TCP sockets of the kernel refuse.
//
// EAGAIN means that a real send could not leave at once either, because the next hop's address is unknown, or a buffer or room in a queue is
// missing: call Prepare, or send. SocketStats and RingStats count the calls. Owner only. (VMA: send with VMA_SND_FLAGS_DUMMY, which sends a
// real datagram if the neighbour is unknown.)
func DummySend(s *xtreme.Socket, b []byte, to netip.AddrPort) error {
	if s == nil {
		return noSocket("DummySend")
	}
	return dummySendResult("DummySend", s.WarmSend(b, to))
}

// errCold is DummySend's EAGAIN. It is allocated once, because a program that calls DummySend in a loop may get it often.
var errCold = fmt.Errorf("extraapi: DummySend: %w", &ring.OpError{Op: "dummy send: the path is not ready", Err: unix.EAGAIN})

// dummySendResult adds the name of the public call to the error of a dummy send.
func dummySendResult(call string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN):
		return errCold
	}
	return fmt.Errorf("extraapi: %s: %w", call, err)
}

// Prepare looks up the route to an address, asks for the next hop's link-layer address and makes the headers, so that the first send is as fast
// as later ones and DummySend is possible. It does not wait: DummySend returns EAGAIN until the next hop has answered. On kernel sockets it
// does nothing. Owner only.
func Prepare(s *xtreme.Socket, to netip.AddrPort) error {
	if s == nil {
		return noSocket("Prepare")
	}
	if err := s.Prepare(to); err != nil {
		return fmt.Errorf("extraapi: Prepare: %w", err)
	}
	return nil
}

// Send sends b with VMA's flags and returns how many bytes it took. flags is 0, or DummyFlag, which makes it a DummySend that returns len(b);
// other flags are EINVAL. The zero to means the connected peer. Owner only.
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
