package flowrecord

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// flow names a connection whose peer is to be reset: the addresses of the ended process and of its peer, and both ports as in slot.
type flow struct {
	local, remote [4]byte
	ports         uint32
}

// question is a flow whose peer has not confirmed by a reset that it has no connection. next is the number for the next reset; record is the
// index of the flow's record; answers counts the peer's acknowledgements.
type question struct {
	next    uint32
	record  int
	answers int
}

// resetter resets peers, and asks them whether they were.
type resetter struct {
	fd     int
	open   map[flow]*question
	order  []flow
	totals map[int]*total
	buffer []byte
	packet []byte
}

type total struct{ flows, reset int }

const (
	// back is how far behind the expected number old data is: out of the window, which has less than 2^30 (RFC 7323 section 2.2).
	back = 1 << 30
	// maxAnswers bounds what is sent for one flow, whatever its peer answers.
	maxAnswers = 8
	// firstRound is how long the first answers are waited for; each round waits twice as long.
	firstRound = 50 * time.Millisecond
)

// newResetter opens the raw socket by which segments are sent and answers are received. Error: without CAP_NET_RAW.
func newResetter() (*resetter, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("flowrecord: resets need CAP_NET_RAW: %w", err)
		}
		return nil, fmt.Errorf("flowrecord: a raw socket: %w", err)
	}
	r := &resetter{fd: fd, open: map[flow]*question{}, totals: map[int]*total{}, buffer: make([]byte, 65536)}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_HDRINCL, 1); err != nil {
		r.close()
		return nil, fmt.Errorf("flowrecord: IP_HDRINCL: %w", err)
	}
	const room = 8 << 20
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room) // as much as is allowed; what overflows is asked again
	}
	return r, nil
}

func (r *resetter) close() { _ = unix.Close(r.fd) }

// add adds the connection of a slot to those to be reset and counts it for its record. One that is there already is not counted again.
func (r *resetter) add(s slot, record int) {
	t := r.totals[record]
	if t == nil {
		t = &total{}
		r.totals[record] = t
	}
	f := flow{s.local, s.remote, s.ports}
	if r.open[f] != nil {
		return
	}
	t.flows++
	r.open[f] = &question{next: s.next, record: record}
	r.order = append(r.order, f)
}

// run asks in rounds, each twice as long as the one before, until each peer has confirmed that it has no connection, or until the end. Within a
// round it receives after each 32 questions, so that answers do not overflow the socket.
func (r *resetter) run(ctx context.Context, end time.Time) error {
	for wait := firstRound; len(r.open) > 0 && time.Now().Before(end); wait *= 2 {
		for i, f := range r.order {
			if q := r.open[f]; q != nil {
				if err := r.ask(f, q); err != nil {
					return err
				}
			}
			if i%32 == 31 {
				if err := r.receive(); err != nil {
					return err
				}
			}
		}
		for round := time.Now().Add(wait); len(r.open) > 0 && time.Now().Before(round); {
			if err := ctx.Err(); err != nil {
				return err
			}
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}, 10)
			if err := r.receive(); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask sends a reset, and then one byte of old data. A peer that still has the connection answers the data with an acknowledgement, which has the
// number that it expects; one that has none answers with a reset.
func (r *resetter) ask(f flow, q *question) error {
	if err := r.send(f, wire.TCPRst, q.next, nil); err != nil {
		return err
	}
	return r.send(f, wire.TCPAck, q.next-back, []byte{0})
}

// send sends one segment from the ended process's address to its peer. A peer that cannot be reached now is no error.
func (r *resetter) send(f flow, flags wire.TCPFlags, seq uint32, payload []byte) error {
	segment := wire.TCPFields{SourcePort: uint16(f.ports >> 16), TargetPort: uint16(f.ports), Seq: seq, Flags: flags}
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolTCP, Source: f.local, Target: f.remote}
	b, err := ip.Append(r.packet[:0], segment.HeaderLen()+len(payload))
	if err == nil {
		b, err = segment.Append(b, f.local, f.remote, payload)
	}
	if err != nil {
		return fmt.Errorf("flowrecord: a reset: %w", err)
	}
	r.packet = b
	switch err := unix.Sendto(r.fd, b, 0, &unix.SockaddrInet4{Addr: f.remote}); {
	case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR):
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.EINVAL):
		// This peer cannot be reached now: the next round tries again.
	default:
		return fmt.Errorf("flowrecord: sending a reset: %w", err)
	}
	return nil
}

// receive processes the segments that have arrived, at most 4,096. The raw socket gets a copy of each TCP segment of the host.
func (r *resetter) receive() error {
	for range 4096 {
		n, _, err := unix.Recvfrom(r.fd, r.buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOBUFS):
			continue
		case err != nil:
			return fmt.Errorf("flowrecord: receiving answers: %w", err)
		}
		if err := r.answer(r.buffer[:n]); err != nil {
			return err
		}
	}
	return nil
}

// answer processes an IPv4 packet. A reset from the peer of a flow settles the flow. An acknowledgement shows the sequence number that the peer
// expects, and the flow is asked again with it. Other packets are ignored.
func (r *resetter) answer(b []byte) error {
	ip, _, segment, d := wire.ParseIPv4(b)
	if d != wire.Accept {
		return nil
	}
	h, _, _, d := wire.ParseTCP(segment)
	if d != wire.Accept {
		return nil
	}
	f := flow{ip.Target(), ip.Source(), uint32(h.TargetPort())<<16 | uint32(h.SourcePort())}
	q := r.open[f]
	switch flags := h.Flags(); {
	case q == nil:
	case flags&wire.TCPRst != 0:
		r.totals[q.record].reset++
		delete(r.open, f)
	case flags&(wire.TCPAck|wire.TCPSyn) == wire.TCPAck && q.answers < maxAnswers:
		q.answers++
		q.next = binary.BigEndian.Uint32(segment[8:])
		return r.ask(f, q)
	}
	return nil
}
