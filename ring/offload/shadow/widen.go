package shadow

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// receiveBuffer is what a shadow may hold (SO_RCVBUF: the kernel doubles it), unless the application has set a size.
// The default, 212,992 bytes, is some 280 short datagrams: 3 ms at 100,000 a second.
const receiveBuffer = 4 << 20

// Widen enlarges the shadow's receive buffer, for datagrams that come while its owner does not poll: beyond net.core.rmem_max where the
// process may (CAP_NET_ADMIN), else up to it, and then with a reason for the socket's path.
func Widen(k Kernel, s *ring.Socket) (why ring.Reason, err error) {
	if ring.OptionsOf(s).ReceiveBuffer != 0 {
		return why, nil
	}
	fd := kernel.FD(s)
	if k.ForceReceiveBuffer(fd, receiveBuffer) == nil {
		return why, nil
	}
	err = k.SetReceiveBuffer(fd, receiveBuffer)
	has := 0
	if err == nil {
		has, err = k.ReceiveBuffer(fd)
	}
	if err != nil {
		return why, fmt.Errorf("offload: receive buffer of descriptor %d: %w", fd, err)
	}
	if has < 2*receiveBuffer { // the kernel reports twice what was set
		why = ring.Reason{Code: "offload.small_shadow", Text: fmt.Sprintf("the kernel's side of the socket holds %d "+
			"bytes (net.core.rmem_max; %d with CAP_NET_ADMIN): more is lost there while the ring is not polled", has, 2*receiveBuffer)}
	}
	return why, nil
}
