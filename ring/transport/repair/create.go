package repair

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/tcp"
)

// Created is a new socket of the kernel for a connection, in repair mode: it sends nothing yet.
type Created struct {
	fd      int
	unsent  []byte
	fin     bool
	missing []string
}

// Options of TCP_REPAIR_OPTIONS are those of the handshake (include/net/tcp.h).
const (
	optMSS        = unix.TCPOPT_MAXSEG
	optWindow     = unix.TCPOPT_WINDOW
	optSACK       = unix.TCPOPT_SACK_PERMITTED
	optTimestamps = unix.TCPOPT_TIMESTAMP
)

// Create makes a socket of the kernel for a connection, in the calling thread's network namespace. The guard must have the connection. It takes
// milliseconds when the queues are long: it is for a goroutine beside the ring's. Then either Activate or Discard.
// Errors: ErrNoCapability; EADDRNOTAVAIL where the host does not have the local address; EADDRINUSE where the kernel has such a connection.
func Create(s *State) (_ *Created, err error) {
	if len(s.Sent) != s.SendNext.Minus(s.SendUnacked) {
		return nil, fmt.Errorf("repair: Sent has %d bytes, and from SendUnacked to SendNext are %d", len(s.Sent), s.SendNext.Minus(s.SendUnacked))
	}
	c := &Created{unsent: s.Unsent, fin: s.Fin}
	if c.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP); err != nil {
		return nil, stepError(err, "socket")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Discard())
		}
	}()
	// SO_REUSEADDR first: after TCP_REPAIR bind answers EADDRINUSE.
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, stepError(err, "SO_REUSEADDR")
	}
	if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_ON); err != nil {
		return nil, stepError(err, "TCP_REPAIR")
	}
	if err := c.sizeBuffers(s); err != nil {
		return nil, err
	}
	if err := c.connect(s); err != nil {
		return nil, err
	}
	if err := c.restoreHandshake(s); err != nil {
		return nil, err
	}
	c.setOptions(s) // what the kernel refuses is listed in Missing
	for _, q := range []struct {
		which   int
		payload []byte
	}{{receiveQueue, append(make([]byte, extra), s.Received...)}, {sendQueue, s.Sent}} {
		if err := c.selectQueue(q.which); err != nil {
			return nil, err
		}
		if err := c.write(q.payload); err != nil {
			return nil, err
		}
	}
	w := repairWindow{sndWL1: uint32(s.SendWL1), sndWnd: s.SendWindow, maxWindow: max(s.SendWindow, s.MaxSendWindow),
		rcvWnd: s.ReceiveWindow, rcvWup: uint32(s.ReceiveNext)}
	return c, stepError(setWindow(c.fd, w), "TCP_REPAIR_WINDOW")
}

// extra is how many bytes the receive queue has before Received: they were read already, and Activate reads them again. A read is what has the
// kernel announce a window that has opened, and there may be nothing else to read.
const extra = 1

// sizeBuffers makes room for the queues: a restore that finds none blocks itself. The kernel tunes the sizes afterwards, unless they were set.
func (c *Created) sizeBuffers(s *State) error {
	for name, size := range map[int]int{
		unix.SO_RCVBUFFORCE: max(s.Settings.ReceiveBuffer, 2*len(s.Received)),
		unix.SO_SNDBUFFORCE: max(s.Settings.SendBuffer, 2*(len(s.Sent)+len(s.Unsent))),
	} {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, name, min(size, maxBuffer-1)); err != nil {
			return stepError(err, "the size of a buffer")
		}
	}
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK, s.BufferLock) // below Linux 5.14 they stay as they are
	return nil
}

func (c *Created) selectQueue(which int) error {
	return stepError(unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, which), "TCP_REPAIR_QUEUE")
}

// connect sets the sequence numbers at the start of both queues, binds the local address and connects. In repair mode connect(2) sends no
// segment: the socket is ESTABLISHED at once.
func (c *Created) connect(s *State) error {
	for _, q := range []struct {
		which int
		seq   tcp.Seq
	}{{receiveQueue, s.ReceiveNext.Add(-len(s.Received) - extra)}, {sendQueue, s.SendUnacked}} {
		if err := c.selectQueue(q.which); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ, int(int32(q.seq))); err != nil {
			return stepError(err, "TCP_QUEUE_SEQ")
		}
	}
	if err := unix.Bind(c.fd, &unix.SockaddrInet4{Addr: s.Local.Addr, Port: int(s.Local.Port)}); err != nil {
		return stepError(err, fmt.Sprintf("bind to %v", s.Local.AddrPort()))
	}
	return stepError(unix.Connect(c.fd, &unix.SockaddrInet4{Addr: s.Remote.Addr, Port: int(s.Remote.Port)}),
		fmt.Sprintf("connect to %v", s.Remote.AddrPort()))
}

// restoreHandshake gives the socket what the handshake agreed on: MSS, window scales, SACK, timestamps and their clock.
func (c *Created) restoreHandshake(s *State) error {
	list := []unix.TCPRepairOpt{{Code: optMSS, Val: uint32(s.PeerMSS)}}
	if s.Scaled {
		list = append(list, unix.TCPRepairOpt{Code: optWindow, Val: uint32(s.SendScale) | uint32(s.ReceiveScale)<<16})
	}
	if s.SACK {
		list = append(list, unix.TCPRepairOpt{Code: optSACK})
	}
	if s.Timestamps {
		list = append(list, unix.TCPRepairOpt{Code: optTimestamps})
	}
	if err := unix.SetsockoptTCPRepairOpt(c.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_OPTIONS, list); err != nil {
		return stepError(err, "TCP_REPAIR_OPTIONS")
	}
	if !s.Timestamps {
		return nil
	}
	v := (s.Timestamp + 1) &^ 1
	if s.Microseconds {
		v |= 1
	}
	return stepError(unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_TIMESTAMP, int(int32(v))), "TCP_TIMESTAMP")
}

// chunk is how much is queued at a time: the kernel makes one buffer of what the receive queue gets.
const chunk = 32 << 10

// write appends payload to the queue that was selected; in repair mode nothing is sent. After Activate it is an ordinary write, which sends.
// It fails with EAGAIN where the buffer has no room, for which sizeBuffers is there.
func (c *Created) write(payload []byte) error {
	for len(payload) > 0 {
		n, err := unix.Write(c.fd, payload[:min(len(payload), chunk)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return stepError(err, fmt.Sprintf("queueing %d bytes more", len(payload)))
		default:
			payload = payload[n:]
		}
	}
	return nil
}

// Missing names what the socket could not be given: the connection works without.
func (c *Created) Missing() []string { return c.missing }

// Activate leaves repair mode: the connection goes on in the kernel, which announces its window if it is twice what the peer knows, probes its
// peer, sends what was not sent, and sends FIN again. The descriptor is the caller's. The guard must let the connection pass before, or its
// answers are lost once.
//
// The probe is an old segment, so that the peer answers with what it has. It takes no window from it, but the kernel counts the window as
// announced. So the announcement comes first, by a read after repair mode has ended without a probe.
func (c *Created) Activate() (fd int, err error) {
	if err := c.setRepair(unix.TCP_REPAIR_OFF_NO_WP); err != nil {
		return -1, err
	}
	var read [extra]byte
	if n, err := unix.Read(c.fd, read[:]); n != extra {
		return -1, stepError(errors.Join(err, unix.EIO), "announcing the window")
	}
	if err := errors.Join(c.setRepair(unix.TCP_REPAIR_ON), c.setRepair(unix.TCP_REPAIR_OFF)); err != nil {
		return -1, err
	}
	if err := c.write(c.unsent); err != nil {
		return -1, err
	}
	if c.fin {
		if err := unix.Shutdown(c.fd, unix.SHUT_WR); err != nil {
			return -1, stepError(err, "sending FIN again")
		}
	}
	return c.fd, nil
}

func (c *Created) setRepair(mode int) error {
	return stepError(unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, mode), fmt.Sprintf("TCP_REPAIR %d", mode))
}

// Discard closes the socket. The kernel sends nothing, because it is in repair mode, also after an Activate that failed.
func (c *Created) Discard() error {
	_ = c.setRepair(unix.TCP_REPAIR_ON) // Create fails without the privilege for it, and has connected nothing then
	return stepError(unix.Close(c.fd), "close")
}
