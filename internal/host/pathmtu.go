package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// pathMTUs are the path MTUs that the kernel has learned (RFC 1191), its routing exceptions. The kernel does not report them, and sends of an
// offloaded socket never ask it. A raw socket receives the ICMP messages "fragmentation needed" that the kernel receives; each is a reason to
// ask the kernel about the destination that it quotes. The message itself is not believed: the kernel checks whether a socket of its own, the
// shadow among them, has sent what is quoted.
//
//	ICMP message ──► run ──RTM_GETROUTE──► kernel        mirror ──fetch──► current
//	                  └── current, then kernel.next answers partPathMTUs ──┘
type pathMTUs struct {
	icmp       *os.File // nil without CAP_NET_RAW: only what was known at Open holds
	ask        *nl.SocketHandle
	learned    map[netip.Addr]learnedMTU // of run
	current    atomic.Pointer[map[netip.Addr]int]
	changed    atomic.Bool // current is another than the mirror has seen
	recheckAll atomic.Bool // the routes have changed: the kernel may have forgotten all
	ended      atomic.Bool
	done       chan struct{}
}

type learnedMTU struct {
	mtu   int
	until time.Time // when the kernel forgets it
}

const (
	pathMTUMax   = 1024                  // destinations; more are not followed
	pathMTUBurst = 64                    // questions in a row
	icmpSettles  = time.Millisecond      // raw sockets get a message before the kernel acts on it
	icmpPause    = 20 * time.Millisecond // between two bursts, however many messages come
	kernelHZ     = 100                   // USER_HZ: unit of rta_expires
	icmpTooBig   = 3<<8 | 4              // type and code
	icmpQuoted   = 20 + 8 + 20           // least length of a message: IP, ICMP, the quoted IP header
	neverExpires = 10 * 365 * 24 * time.Hour
)

// openPathMTUs reads what is known and starts to follow it, in the namespace where it is called. changed is called when current has changed.
func openPathMTUs(changed func()) (p *pathMTUs, err error) {
	p = &pathMTUs{learned: map[netip.Addr]learnedMTU{}, done: make(chan struct{})}
	p.current.Store(&map[netip.Addr]int{})
	s, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("host: netlink socket: %w", err)
	}
	p.ask = &nl.SocketHandle{Socket: s}
	if err = s.SetReceiveTimeout(&unix.Timeval{Sec: 10}); err != nil {
		p.ask.Close()
		return nil, fmt.Errorf("host: netlink time-out: %w", err)
	}
	if p.icmp, err = openICMP(); err != nil && !errors.Is(err, unix.EPERM) {
		p.ask.Close()
		return nil, err
	}
	p.dump()
	p.publish()
	if p.icmp == nil {
		close(p.done)
		return p, nil
	}
	go p.run(changed)
	return p, nil
}

// openICMP opens a raw socket that receives destination unreachable, fragmentation needed, and nothing else.
func openICMP() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP)
	if err != nil {
		return nil, fmt.Errorf("host: ICMP socket: %w", err)
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0}, // X: length of the IP header
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 0},  // type and code
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: icmpTooBig, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	if err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("host: filter of the ICMP socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "ICMP messages"), nil
}

// run is the goroutine: it asks the kernel about each destination that an ICMP message quotes, whose entry has expired, or, after a change of
// routes, about all, and calls changed when the result is another.
func (p *pathMTUs) run(changed func()) {
	defer close(p.done)
	buffer := make([]byte, 2048)
	for {
		if p.icmp.SetReadDeadline(p.deadline()) != nil || p.ended.Load() {
			return
		}
		wanted := map[netip.Addr]struct{}{}
		if !p.recheckAll.Load() { // else the deadline that says so may have been replaced just now
			n, err := p.icmp.Read(buffer)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			if to, ok := quotedTarget(buffer[:max(n, 0)]); ok {
				wanted[to] = struct{}{}
				p.readReports(buffer, wanted)
			}
		}
		now, all := time.Now(), p.recheckAll.Swap(false)
		for to, l := range p.learned {
			if all || !now.Before(l.until) {
				wanted[to] = struct{}{}
			}
		}
		for to := range wanted {
			p.askKernel(to)
		}
		if p.publish() {
			changed()
		}
		time.Sleep(icmpPause)
	}
}

// readReports reads the ICMP messages that follow the first closely, adds their destinations to wanted, and waits until the kernel has acted
// on them.
func (p *pathMTUs) readReports(buffer []byte, wanted map[netip.Addr]struct{}) {
	_ = p.icmp.SetReadDeadline(time.Now().Add(icmpSettles)) // fails when it is closed, as Read does then
	last := time.Now()
	for len(wanted) < pathMTUBurst {
		n, err := p.icmp.Read(buffer)
		if err != nil {
			return
		}
		if to, ok := quotedTarget(buffer[:n]); ok {
			wanted[to] = struct{}{}
		}
		last = time.Now()
	}
	time.Sleep(time.Until(last.Add(icmpSettles)))
}

// deadline is when the first learned MTU expires; a time in the past when all are to be asked about again.
func (p *pathMTUs) deadline() (first time.Time) {
	if p.recheckAll.Load() {
		return time.Unix(1, 0)
	}
	for _, l := range p.learned {
		if first.IsZero() || l.until.Before(first) {
			first = l.until
		}
	}
	return first
}

// quotedTarget is the destination of the packet that an ICMP message quotes.
func quotedTarget(b []byte) (netip.Addr, bool) {
	if len(b) < icmpQuoted {
		return netip.Addr{}, false
	}
	quoted := int(b[0]&15)*4 + 8
	if len(b) < quoted+20 || b[quoted]>>4 != 4 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[quoted+16:])), true
}

// askKernel asks the kernel for its path MTU of a destination, and keeps the answer or forgets the old one.
func (p *pathMTUs) askKernel(to netip.Addr) {
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Dst_len: 32}})
	request.AddData(nl.NewRtAttr(unix.RTA_DST, to.AsSlice()))
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: p.ask}
	answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	delete(p.learned, to)
	if err != nil { // no route any more
		return
	}
	for _, b := range answers {
		if _, mtu, left, ok := decodeLearned(b); ok && len(p.learned) < pathMTUMax {
			p.learned[to] = learnedMTU{mtu, time.Now().Add(left)}
		}
	}
}

// dump reads the exceptions that the kernel has used since it learned them. Without any nothing is lost: the next message tells.
func (p *pathMTUs) dump() {
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Flags: unix.RTM_F_CLONED}})
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: p.ask}
	answers, _ := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	for _, b := range answers {
		if to, mtu, left, ok := decodeLearned(b); ok && len(p.learned) < pathMTUMax {
			p.learned[to] = learnedMTU{mtu, time.Now().Add(left)}
		}
	}
}

// decodeLearned reads a route that is an exception with a path MTU: one that runs out. A route's own MTU does not.
func decodeLearned(b []byte) (to netip.Addr, mtu int, left time.Duration, ok bool) {
	if len(b) < unix.SizeofRtMsg || b[0] != unix.AF_INET || binary.NativeEndian.Uint32(b[8:])&unix.RTM_F_CLONED == 0 {
		return to, 0, 0, false
	}
	err := attributes(b[unix.SizeofRtMsg:], func(typ uint16, v []byte) error {
		switch typ {
		case unix.RTA_DST:
			return address(v, &to)
		case unix.RTA_METRICS:
			return attributes(v, func(typ uint16, v []byte) error {
				if typ == unix.RTAX_MTU {
					return number(v, &mtu)
				}
				return nil
			})
		case unix.RTA_CACHEINFO: // struct rta_cacheinfo: rta_expires is the third field
			if len(v) >= 12 {
				left = time.Duration(int32(binary.NativeEndian.Uint32(v[8:]))) * time.Second / kernelHZ
			}
		}
		return nil
	})
	return to, mtu, min(left, neverExpires), err == nil && to.IsValid() && mtu > 0 && left > 0
}

// publish stores the learned MTUs in current, and reports whether they have changed.
func (p *pathMTUs) publish() bool {
	next := make(map[netip.Addr]int, len(p.learned))
	for to, l := range p.learned {
		next[to] = l.mtu
	}
	if maps.Equal(next, *p.current.Load()) {
		return false
	}
	p.current.Store(&next)
	p.changed.Store(true)
	return true
}

// recheck makes run ask about all learned MTUs again. Any goroutine.
func (p *pathMTUs) recheck() {
	if p.icmp != nil {
		p.recheckAll.Store(true)
		_ = p.icmp.SetReadDeadline(time.Unix(1, 0)) // fails when it is closed
	}
}

// close ends the goroutine and closes the sockets.
func (p *pathMTUs) close() {
	p.ended.Store(true)
	if p.icmp != nil {
		_ = p.icmp.Close() // ends run's reading
	}
	<-p.done
	p.ask.Close()
}
