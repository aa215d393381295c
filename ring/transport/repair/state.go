package repair

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/tcp"
)

// Errors for errors.Is. A system call's error is in the chain, too.
var (
	ErrNoCapability = errors.New("repair: CAP_NET_ADMIN is missing")
	ErrState        = errors.New("repair: a connection in this state cannot move")
	ErrSocket       = errors.New("repair: not a TCP connection over IPv4 that can move")
)

// State is a connection while it moves.
type State struct {
	tcp.Snapshot

	Received []byte // before ReceiveNext, and not read
	Sent     []byte // from SendUnacked to SendNext
	Unsent   []byte // behind SendNext

	// Of sockets of the kernel; a connection of our stack has none of it.

	Microseconds bool     // the clock of its timestamps counts microseconds (Linux 6.7, by a route's feature)
	Congestion   string   // its congestion control, by the kernel's name; "": as Settings say
	BufferLock   int      // SO_BUF_LOCK: which sizes of buffers the kernel must not tune
	Options      []Option // that tcp.Settings have no field for
}

// Option is an option of a socket with a number as its value.
type Option struct{ Level, Name, Value int }

// names of options that are carried as numbers.
var options = []Option{
	{Level: unix.SOL_SOCKET, Name: unix.SO_PRIORITY},
	{Level: unix.SOL_SOCKET, Name: unix.SO_MARK},
	{Level: unix.SOL_SOCKET, Name: unix.SO_OOBINLINE},
	{Level: unix.SOL_SOCKET, Name: unix.SO_BUSY_POLL},
	{Level: unix.IPPROTO_IP, Name: unix.IP_MTU_DISCOVER},
	{Level: unix.IPPROTO_IP, Name: unix.IP_RECVTOS},
	{Level: unix.IPPROTO_TCP, Name: unix.TCP_NOTSENT_LOWAT},
	{Level: unix.IPPROTO_TCP, Name: unix.TCP_LINGER2},
	{Level: unix.IPPROTO_TCP, Name: unix.TCP_THIN_LINEAR_TIMEOUTS},
}

// stepError adds to an error the step that failed; nil stays nil. A missing privilege is ErrNoCapability.
func stepError(err error, step string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %s: %w", ErrNoCapability, step, err)
	}
	return fmt.Errorf("repair: %s: %w", step, err)
}
