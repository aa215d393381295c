package torture

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// impairments are what the relay does to the IPv4 packets of both directions. Probabilities are those of one packet in one direction.
type impairments struct {
	Loss, Duplicate, Reorder, Corrupt, Truncate, Mark float64 // Mark: of CE, for packets of an ECN-capable transport

	Delay, Jitter time.Duration // jitter alone keeps the order
	Rate          int           // bytes a second; 0: no limit
	Queue         int           // bytes that may wait for the rate; more are lost
}

// relayed counts what the relay did.
type relayed struct {
	packets, lost, duplicated, reordered, corrupted, truncated, marked, overflowed int
}

// direction is one way through the relay. What happens to its n-th packet follows from the seed and n.
type direction struct {
	impairments
	random *rand.Rand
	to     int           // the packet socket that sends
	last   time.Duration // when the last packet in order leaves
	free   time.Duration // when the rate has room for the next packet
	relayed
}

// held is a packet until it leaves. number keeps the order of packets that leave at the same time.
type held struct {
	at     time.Duration
	number uint64
	to     int
	frame  []byte
}

type heldQueue []held

func (q heldQueue) Len() int { return len(q) }
func (q heldQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].number < q[j].number
}
func (q heldQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *heldQueue) Push(x any)   { *q = append(*q, x.(held)) }
func (q *heldQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// relay carries frames between two interfaces of its namespace. One goroutine runs it.
type relay struct {
	ends    [2]int // packet sockets: near, far
	stop    int    // an eventfd
	ended   chan error
	start   time.Time
	ways    [2]*direction // from near, from far
	queue   heldQueue
	number  uint64
	dropped int // frames that the kernel lost before the relay read them
}

// newRelay opens the packet sockets of r0 and r1 in the thread's namespace and starts the relay.
func newRelay(seed uint64, x impairments) (r *relay, err error) {
	r = &relay{ended: make(chan error, 1), start: time.Now()}
	for i, name := range []string{"r0", "r1"} {
		if r.ends[i], err = packetSocket(name); err != nil {
			return nil, err
		}
	}
	if r.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, err
	}
	for i := range r.ways {
		r.ways[i] = &direction{impairments: x, random: rand.New(rand.NewPCG(seed, uint64(100+i))), to: r.ends[1-i]}
	}
	go func() { r.ended <- r.run() }()
	return r, nil
}

// close ends the relay. What it still holds is lost.
func (r *relay) close() error {
	_, err := unix.Write(r.stop, binary.NativeEndian.AppendUint64(nil, 1))
	if err == nil {
		err = <-r.ended
	}
	for _, fd := range r.ends {
		if s, e := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); e == nil {
			r.dropped += int(s.Drops)
		}
	}
	return errors.Join(err, unix.Close(r.ends[0]), unix.Close(r.ends[1]), unix.Close(r.stop))
}

func (r *relay) now() time.Duration { return time.Since(r.start) }

func (r *relay) run() error {
	fds := []unix.PollFd{{Fd: int32(r.ends[0]), Events: unix.POLLIN}, {Fd: int32(r.ends[1]), Events: unix.POLLIN}, {Fd: int32(r.stop), Events: unix.POLLIN}}
	buffer := make([]byte, 1<<16)
	for {
		var timeout *unix.Timespec
		if len(r.queue) > 0 {
			t := unix.NsecToTimespec(int64(max(r.queue[0].at-r.now(), 0)))
			timeout = &t
		}
		if _, err := unix.Ppoll(fds, timeout, nil); err != nil && err != unix.EINTR {
			return err
		}
		if fds[2].Revents != 0 {
			return nil
		}
		for i, fd := range r.ends {
			for range 64 { // both ends have their turn
				n, err := unix.Read(fd, buffer)
				if err == unix.EAGAIN {
					break
				}
				if err != nil {
					return err
				}
				r.take(r.ways[i], buffer[:n])
			}
		}
		for now := r.now(); len(r.queue) > 0 && r.queue[0].at <= now; {
			x := heap.Pop(&r.queue).(held)
			if _, err := unix.Write(x.to, x.frame); err != nil && err != unix.EAGAIN && err != unix.ENOBUFS {
				return err // EAGAIN, ENOBUFS: a queue that is full loses the frame
			}
		}
	}
}

const (
	ethernetBytes = 14
	ipv4Bytes     = 20
)

// take decides what happens to a frame. Each packet draws the same numbers, whatever happens to it.
func (r *relay) take(d *direction, frame []byte) {
	now := r.now()
	if len(frame) < ethernetBytes+ipv4Bytes || frame[12] != 0x08 || frame[13] != 0x00 {
		r.push(now, d.to, frame)
		return
	}
	var u [6]float64
	for i := range u {
		u[i] = d.random.Float64()
	}
	jitter, late, where := time.Duration(d.random.Float64()*float64(d.Jitter)), d.random.Float64(), d.random.Float64()
	d.packets++
	switch {
	case u[0] < d.Loss:
		d.lost++
		return
	case u[1] < d.Corrupt: // one bit of the packet: TCP's checksum, or IP's, finds it
		d.corrupted++
		frame[ethernetBytes+int(where*float64(len(frame)-ethernetBytes))] ^= 1 << (int(late*8) & 7)
	case u[2] < d.Truncate:
		d.truncated++
		frame = frame[:ethernetBytes+1+int(where*float64(len(frame)-ethernetBytes-1))]
	case u[3] < d.Mark && frame[15]&3 != 0 && frame[15]&3 != 3:
		d.marked++
		mark(frame[ethernetBytes:])
	}
	if d.Rate > 0 {
		d.free = max(d.free, now)
		if waiting := int(float64(d.free-now) / float64(time.Second) * float64(d.Rate)); waiting > d.Queue {
			d.overflowed++
			return
		}
		d.free += time.Duration(float64(len(frame)) / float64(d.Rate) * float64(time.Second))
		now = d.free
	}
	at := max(now+d.Delay+jitter, d.last)
	lag := d.Delay/2 + time.Duration(late*float64(4*time.Millisecond))
	switch {
	case u[4] < d.Reorder:
		d.reordered++
		at += lag
	default:
		d.last = at
	}
	r.push(at, d.to, frame)
	if u[5] < d.Duplicate {
		d.duplicated++
		r.push(at+lag, d.to, frame)
	}
}

// push keeps a copy of a frame until its time.
func (r *relay) push(at time.Duration, to int, frame []byte) {
	r.number++
	heap.Push(&r.queue, held{at, r.number, to, slices.Clone(frame)})
}

// mark sets CE in an IPv4 header and corrects its checksum.
func mark(ip []byte) {
	ip[1] |= 3
	ip[10], ip[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < int(ip[0]&15)*4 && i+1 < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}

// packetSocket is a socket for the frames that come in on an interface, and by which frames leave.
func packetSocket(name string) (int, error) {
	l, err := interfaceIndex(name)
	if err != nil {
		return -1, err
	}
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 32<<20),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l}))
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
