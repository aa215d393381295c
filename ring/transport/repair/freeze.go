package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Queues of a socket, for TCP_REPAIR_QUEUE (include/uapi/linux/tcp.h).
const (
	receiveQueue = 1
	sendQueue    = 2
)

// States of the kernel (include/net/tcp_states.h).
const (
	kernelEstablished = 1
	kernelFinWait1    = 4
	kernelFinWait2    = 5
)

var kernelStates = [...]string{"", "ESTABLISHED", "SYN-SENT", "SYN-RECEIVED", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT", "CLOSED", "CLOSE-WAIT",
	"LAST-ACK", "LISTEN", "CLOSING", "SYN-RECEIVED"}

// Frozen is a connection of the kernel whose socket is in repair mode.
type Frozen struct {
	State State
	fd    int
	reuse int
}

// Freeze puts a connection of the kernel into repair mode and reads its state. The guard must have the connection before, so that no segment
// arrives. Then either Close or Resume. Errors: ErrNoCapability, ErrState, ErrSocket, or that of a system call. The connection is then as it
// was.
func Freeze(fd int) (*Frozen, error) {
	if err := checkSocket(fd); err != nil {
		return nil, err
	}
	f := &Frozen{fd: fd}
	// Repair mode changes SO_REUSEADDR, and Resume sets it again. Reading it cannot fail: checkSocket has read options of the same socket.
	f.reuse, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR)
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return nil, stepError(err, "TCP_INFO")
	}
	// A listener has the error of a process without privileges: the state comes first.
	if !movable(info.State) {
		return nil, fmt.Errorf("%w: %s", ErrState, kernelStates[min(int(info.State), len(kernelStates)-1)])
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_ON); err != nil {
		return nil, stepError(err, "TCP_REPAIR")
	}
	if err := f.read(); err != nil {
		return nil, errors.Join(err, f.Resume())
	}
	return f, nil
}

// movable reports whether a connection in this state of the kernel can move. The package's comment says why no other can.
func movable(state uint8) bool {
	return state == kernelEstablished || state == kernelFinWait1 || state == kernelFinWait2
}

// checkSocket returns nil for a TCP socket without an upper layer protocol (such as kernel TLS), and ErrSocket for others.
func checkSocket(fd int) error {
	for _, o := range []struct {
		name, want int
		what       string
	}{{unix.SO_TYPE, unix.SOCK_STREAM, "type"}, {unix.SO_PROTOCOL, unix.IPPROTO_TCP, "protocol"}} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.name)
		if err != nil {
			return stepError(err, "asking for the socket's "+o.what)
		}
		if got != o.want {
			return fmt.Errorf("%w: its %s is %d", ErrSocket, o.what, got)
		}
	}
	var upper [16]byte
	if n, err := getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_ULP, upper[:]); err == nil && n > 0 && upper[0] != 0 {
		return fmt.Errorf("%w: it has the upper layer protocol %s", ErrSocket, unix.ByteSliceToString(upper[:]))
	}
	return nil
}

// noThreshold bounds the slow-start thresholds that say something. Before the first loss Linux has TCP_INFINITE_SSTHRESH (0x7fffffff); no window
// has this many segments.
const noThreshold = 1 << 20

// read fills State from the socket, which is in repair mode: addresses, options of the handshake, both queues, windows, round-trip times and
// the socket's options.
func (f *Frozen) read() error {
	s := &f.State
	info, err := unix.GetsockoptTCPInfo(f.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return stepError(err, "TCP_INFO")
	}
	if !movable(info.State) { // it may have changed between Freeze's look and repair mode
		return fmt.Errorf("%w: %s", ErrState, kernelStates[min(int(info.State), len(kernelStates)-1)])
	}
	if err := f.addresses(); err != nil {
		return err
	}
	if err := f.agreed(info); err != nil {
		return err
	}
	if err := f.queues(info.State); err != nil {
		return err
	}
	w, err := getWindow(f.fd)
	if err != nil {
		return stepError(err, "TCP_REPAIR_WINDOW")
	}
	s.SendWindow, s.MaxSendWindow, s.SendWL1 = w.sndWnd, w.maxWindow, tcp.Seq(w.sndWL1)
	s.ReceiveWindow = uint32(max(tcp.Seq(w.rcvWup+w.rcvWnd).Minus(s.ReceiveNext), 0))
	s.MTU = int(info.Pmtu)
	s.RTT, s.RTTVar = clock.Duration(info.Rtt)*clock.Microsecond, clock.Duration(info.Rttvar)*clock.Microsecond
	s.MinRTT = clock.Duration(info.Min_rtt) * clock.Microsecond
	s.CongestionWindow = int(info.Snd_cwnd) * int(info.Snd_mss)
	if info.Snd_ssthresh < noThreshold {
		s.SlowStartThreshold = int(info.Snd_ssthresh) * int(info.Snd_mss)
	}
	return f.readOptions()
}

// addresses reads both ends of the connection. Error: ErrSocket if one is not an IPv4 address.
func (f *Frozen) addresses() error {
	for _, end := range []struct {
		at  *tcp.Endpoint
		get func(int) (unix.Sockaddr, error)
	}{{&f.State.Local, unix.Getsockname}, {&f.State.Remote, unix.Getpeername}} {
		a, err := end.get(f.fd)
		if err != nil {
			return stepError(err, "asking for its addresses")
		}
		var at netip.AddrPort
		switch a := a.(type) {
		case *unix.SockaddrInet4:
			at = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
		case *unix.SockaddrInet6:
			at = netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
		}
		var ok bool
		if *end.at, ok = tcp.EndpointFrom(at); !ok {
			return fmt.Errorf("%w: its address is %v", ErrSocket, at)
		}
	}
	return nil
}

// Bits of tcpi_options.
const (
	infoTimestamps = 1
	infoSACK       = 2
	infoScales     = 4
	infoECN        = 8
)

// agreed reads what the handshake agreed on: SACK, timestamps, window scales, ECN, the peer's MSS, and the clock of the timestamps.
func (f *Frozen) agreed(info *unix.TCPInfo) error {
	s := &f.State
	s.SACK, s.Timestamps, s.Scaled, s.ECN = info.Options&infoSACK != 0, info.Options&infoTimestamps != 0, info.Options&infoScales != 0,
		info.Options&infoECN != 0
	if s.Scaled {
		var head [8]byte // two fields of four bits, which the structure of package unix leaves out
		if _, err := getsockopt(f.fd, unix.IPPROTO_TCP, unix.TCP_INFO, head[:]); err != nil {
			return stepError(err, "TCP_INFO")
		}
		s.SendScale, s.ReceiveScale = head[6]&15, head[6]>>4
		if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
			s.SendScale, s.ReceiveScale = s.ReceiveScale, s.SendScale
		}
	}
	mss, err := unix.GetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG) // in repair mode that of the handshake
	if err != nil {
		return stepError(err, "TCP_MAXSEG")
	}
	s.PeerMSS = uint16(min(mss, 65535))
	if s.Timestamps {
		v, err := unix.GetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_TIMESTAMP)
		if err != nil {
			return stepError(err, "TCP_TIMESTAMP")
		}
		// The lowest bit tells the unit, so that the value may be one less than what was sent.
		s.Microseconds = v&1 != 0
		s.Timestamp = uint32(v)&^1 + 2
	}
	return nil
}

// errArrives: the queues changed while they were read.
var errArrives = errors.New("repair: reading a queue: segments arrive, and no guard drops them")

// queueTries is how often the queues are read at the most. One segment can have passed the guard before it had the connection.
const queueTries = 3

// queues reads both queues. state is the kernel's state, which tells whether FIN was sent.
func (f *Frozen) queues(state uint8) (err error) {
	for range queueTries {
		if err = f.readQueues(state); !errors.Is(err, errArrives) {
			return err
		}
	}
	return err
}

// readQueues reads both queues: the payload, and the sequence numbers at their ends. The kernel gives the number behind each queue; SendNext and
// SendUnacked are computed back from it.
//
// A SendNext before what the peer has seen ends the connection: each of the peer's segments acknowledges what was never sent. The kernel goes on
// sending by timers until the send queue is selected: from then on it only counts as sent what it would send. So that queue is selected before
// its bytes are counted, and stays selected. Probes of a small window and of the path MTU are sent all the same: after one the last count holds,
// which may have bytes as sent that were not.
func (f *Frozen) readQueues(state uint8) error {
	s := &f.State
	s.Received, s.Sent, s.Unsent = nil, nil, nil
	unread, err := f.count(unix.SIOCINQ)
	if err != nil {
		return err
	}
	if s.ReceiveNext, err = f.queue(receiveQueue, unread, &s.Received); err != nil {
		return err
	}
	if err := f.selectQueue(sendQueue); err != nil {
		return err
	}
	before, err := f.newBytes()
	if err != nil {
		return err
	}
	unsent, err := f.count(unix.SIOCOUTQNSD)
	if err != nil {
		return err
	}
	unacked, err := f.count(unix.SIOCOUTQ)
	if err != nil {
		return err
	}
	// The kernel counts FIN as a byte of the queue. It is the last one.
	end := 0
	if s.Fin = state != kernelEstablished; s.Fin {
		end = 1
	}
	var all []byte
	next, err := f.queue(sendQueue, max(unacked-end, 0), &all)
	if err != nil {
		return err
	}
	last, err := f.count(unix.SIOCOUTQNSD)
	if err != nil {
		return err
	}
	if after, err := f.newBytes(); err != nil {
		return err
	} else if after != before {
		unsent = last
	}
	unsent = max(unsent-end, 0)
	s.SendNext = next.Add(-end - unsent)
	s.SendUnacked = next.Add(-end - len(all))
	s.Sent, s.Unsent = all[:len(all)-unsent], all[len(all)-unsent:]
	for request, before := range map[uint]int{unix.SIOCINQ: unread, unix.SIOCOUTQ: unacked} {
		if now, err := f.count(request); err != nil || now != before {
			return errors.Join(err, errArrives)
		}
	}
	s.Reneged = f.reneged(unread)
	return nil
}

// count is the length of a queue.
func (f *Frozen) count(request uint) (int, error) {
	n, err := unix.IoctlGetInt(f.fd, request)
	return n, stepError(err, "asking for the length of its queues")
}

// newBytes is how many bytes the connection has sent, those that were sent again not counted.
func (f *Frozen) newBytes() (uint64, error) {
	info, err := unix.GetsockoptTCPInfo(f.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, stepError(err, "TCP_INFO")
	}
	return info.Bytes_sent - info.Bytes_retrans, nil
}

func (f *Frozen) selectQueue(which int) error {
	return stepError(unix.SetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, which), "TCP_REPAIR_QUEUE")
}

// queue copies the first length bytes of one of the two queues to *at, without removing them, and returns the sequence number behind the
// queue. *at stays nil for length 0.
func (f *Frozen) queue(which, length int, at *[]byte) (tcp.Seq, error) {
	if err := f.selectQueue(which); err != nil {
		return 0, err
	}
	seq, err := unix.GetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
	if err != nil {
		return 0, stepError(err, "TCP_QUEUE_SEQ")
	}
	if length == 0 {
		return tcp.Seq(uint32(seq)), nil
	}
	*at = make([]byte, length)
	n, _, err := unix.Recvfrom(f.fd, *at, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil {
		return 0, stepError(err, "reading a queue")
	}
	if n != length {
		return 0, fmt.Errorf("%w: %d bytes of %d", errArrives, n, length)
	}
	return tcp.Seq(uint32(seq)), nil
}

// reneged is how much the kernel holds beyond a gap, or -1 where that is not known: SO_MEMINFO tells only how much memory the queue in order
// and the one beyond gaps take together. So it is known only when nothing is unread.
func (f *Frozen) reneged(unread int) int {
	var info [9]uint32
	b := make([]byte, 4*len(info))
	if n, err := getsockopt(f.fd, unix.SOL_SOCKET, unix.SO_MEMINFO, b); err != nil || n < 4 || unread > 0 {
		return -1
	}
	return int(binary.NativeEndian.Uint32(b))
}

// Resume leaves repair mode: the connection goes on in the kernel, whose timers never stopped. Without a probe: the guard would drop its answer,
// and see [Created.Activate].
func (f *Frozen) Resume() error {
	if err := unix.SetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_OFF_NO_WP); err != nil {
		return stepError(err, "leaving repair mode")
	}
	return stepError(unix.SetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, f.reuse), "SO_REUSEADDR")
}

// Close closes the descriptor. The kernel sends nothing, and has no connection any more.
func (f *Frozen) Close() error { return stepError(unix.Close(f.fd), "close") }
