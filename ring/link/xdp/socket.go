package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// mask48 is the address in a number of the rings; above it is an offset that the kernel adds, because in a UMEM of unaligned chunks it
// could not tell otherwise where the chunk of an address begins (XSK_UNALIGNED_BUF_OFFSET_SHIFT).
const (
	mask48      = 1<<48 - 1
	offsetShift = 48
)

// socket is an AF_XDP socket with its four rings, not yet bound. Owner only.
type socket struct {
	fd   int
	rx   consumer[unix.XDPDesc] // frames received
	tx   producer[unix.XDPDesc] // frames to send
	fill producer[uint64]       // empty buffers for the card
	comp consumer[uint64]       // buffers that were sent
	maps [4][]byte
}

// newSocket makes a socket whose UMEM is mem, in chunks that are buffers of the pool.
//
// Each socket registers the memory for itself rather than sharing one registration (XDP_SHARED_UMEM): a shared one takes mode and
// flags from its first socket and ties their lives together. The price is a second count of the same pages against RLIMIT_MEMLOCK.
func newSocket(mem []byte, chunk int, c *Config) (_ *socket, err error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, refuse(err, "opening an AF_XDP socket")
	}
	s := &socket{fd: fd}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if e := registerMemory(fd, mem, chunk); e != 0 {
		return nil, refuse(e, fmt.Sprintf("registering %d bytes of buffers in chunks of %d", len(mem), chunk))
	}
	for _, r := range []struct {
		option, entries int
		name            string
	}{
		{unix.XDP_UMEM_FILL_RING, c.Fill, "fill"},
		// As long as the transmit ring: every frame there can be completed, whatever was completed before.
		{unix.XDP_UMEM_COMPLETION_RING, c.TxRing, "completion"},
		{unix.XDP_RX_RING, c.RxRing, "receive"},
		{unix.XDP_TX_RING, c.TxRing, "transmit"},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, r.option, r.entries); err != nil {
			return nil, refuse(err, fmt.Sprintf("making a %s ring of %d entries", r.name, r.entries))
		}
	}
	// How many frames one system call sends; the kernel's default is 32, and it refuses more than the ring has. Linux 6.17 and newer; before,
	// Flush calls again.
	_ = unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, min(c.TxRing, 256))
	// What is on its way counts as sent data; the usual limit holds 277 small frames.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4<<20); err != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<20) // up to net.core.wmem_max
	}
	return s, s.mapRings(c)
}

// mapRings maps the four rings, whose lengths the caller has set, into memory, and makes our sides of them. After an error close unmaps
// those that were mapped.
func (s *socket) mapRings(c *Config) error {
	off, e := mmapOffsets(s.fd)
	if e != 0 {
		return refuse(e, "asking for the layout of the rings")
	}
	for i, r := range []struct {
		page  int64
		bytes int
	}{
		{unix.XDP_PGOFF_RX_RING, ringBytes[unix.XDPDesc](off.Rx, c.RxRing)},
		{unix.XDP_PGOFF_TX_RING, ringBytes[unix.XDPDesc](off.Tx, c.TxRing)},
		{unix.XDP_UMEM_PGOFF_FILL_RING, ringBytes[uint64](off.Fr, c.Fill)},
		{unix.XDP_UMEM_PGOFF_COMPLETION_RING, ringBytes[uint64](off.Cr, c.TxRing)},
	} {
		var err error
		s.maps[i], err = unix.Mmap(s.fd, r.page, r.bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return refuse(err, "mapping the rings")
		}
	}
	s.rx = newConsumer[unix.XDPDesc](s.maps[0], off.Rx, c.RxRing)
	s.tx = newProducer[unix.XDPDesc](s.maps[1], off.Tx, c.TxRing)
	s.fill = newProducer[uint64](s.maps[2], off.Fr, c.Fill)
	s.comp = newConsumer[uint64](s.maps[3], off.Cr, c.TxRing)
	return nil
}

// bind binds the socket to a queue. A queue stays busy for some time after its socket was closed (see releases), so EBUSY is tried again.
func (s *socket) bind(index, queue int, flags uint16, retry time.Duration) error {
	addr := &unix.SockaddrXDP{Flags: flags, Ifindex: uint32(index), QueueID: uint32(queue)}
	for end := releasedQueues.retryUntil(queueID{index, queue}, time.Now(), retry); ; time.Sleep(2 * time.Millisecond) {
		err := unix.Bind(s.fd, addr)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// busyPoll turns preferred busy polling on, with the kernel's usual budget of 64 frames. SO_BUSY_POLL, in microseconds, must not be 0 for it:
// 20 is what the kernel's sample of AF_XDP takes.
func (s *socket) busyPoll() error {
	for _, o := range [][2]int{{unix.SO_PREFER_BUSY_POLL, 1}, {unix.SO_BUSY_POLL, 20}, {unix.SO_BUSY_POLL_BUDGET, 64}} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o[0], o[1]); err != nil {
			return err
		}
	}
	return nil
}

// kickTx makes the kernel read the transmit ring: in copy mode nothing else does, elsewhere it is asked for by a flag.
func (s *socket) kickTx() unix.Errno {
	_, e := sys.Send(s.fd, nil, 0)
	return e
}

// kickRx makes the driver look at the fill ring again, or runs its poll.
func (s *socket) kickRx() { _, _ = sys.Recv(s.fd, nil, 0) }

// close ends the socket. After it the kernel touches neither rings nor, in copy mode, buffers: closing waits for receivers under way.
func (s *socket) close() error {
	var err error
	for i, m := range s.maps {
		if m != nil {
			err = errors.Join(err, unix.Munmap(m))
			s.maps[i] = nil
		}
	}
	if s.fd >= 0 {
		err = errors.Join(err, unix.Close(s.fd))
		s.fd = -1
	}
	return err
}
