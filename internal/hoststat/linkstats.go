package hoststat

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// linkStats asks the kernel for what it counts of interfaces and has in no file (RTM_GETSTATS, include/uapi/linux/if_link.h): frames that it
// received whole and gave to nothing.
type linkStats struct {
	fd      int
	kernel  unix.SockaddrNetlink // the kernel's address; of this reader alone, because x/sys writes into it at each send
	request []byte
	room    []byte
}

// Messages and attributes of linux/rtnetlink.h and linux/if_link.h.
const (
	rtmNewStats      = 92
	rtmGetStats      = 94
	iflaStatsLink64  = 1
	statsHeader      = unix.SizeofNlMsghdr + 12 // struct if_stats_msg: family, padding, index, filter
	mostStatsReplies = 256                      // of one dump
)

// ofStruct are the counters that are kept of struct rtnl_link_stats64, by their place in it.
var ofStruct = []struct {
	word int
	name string
}{{23, "rx_nohandler"}, {24, "rx_otherhost_dropped"}} // the second since Linux 5.19

func openLinkStats() (*linkStats, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	request := make([]byte, statsHeader)
	binary.NativeEndian.PutUint32(request, statsHeader)
	binary.NativeEndian.PutUint16(request[4:], rtmGetStats)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	binary.NativeEndian.PutUint32(request[statsHeader-4:], 1<<(iflaStatsLink64-1))
	return &linkStats{fd: fd, kernel: unix.SockaddrNetlink{Family: unix.AF_NETLINK}, request: request, room: make([]byte, 32<<10)}, nil
}

func (l *linkStats) close() error { return unix.Close(l.fd) }

// read calls add for each counter that is not zero. The kernel answers a dump inside of the calls that ask for it: nothing is waited for.
func (l *linkStats) read(add func(name []byte, counter string, v uint64)) {
	if unix.Sendto(l.fd, l.request, 0, &l.kernel) != nil {
		return
	}
	for range mostStatsReplies {
		n, err := unix.Read(l.fd, l.room)
		if err != nil || !l.parse(l.room[:n], add) {
			return
		}
	}
}

// parse reads the messages of one reply. It returns false at the end of the dump.
func (l *linkStats) parse(b []byte, add func(name []byte, counter string, v uint64)) bool {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case rtmNewStats:
			if size > statsHeader {
				l.ofInterface(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr+4:]), b[statsHeader:size], add)
			}
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			return false
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return true
}

// ofInterface reads the attributes of one interface.
func (l *linkStats) ofInterface(index uint32, b []byte, add func(name []byte, counter string, v uint64)) {
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return
		}
		if binary.NativeEndian.Uint16(b[2:]) == iflaStatsLink64 {
			words := b[unix.SizeofRtAttr:size]
			for _, c := range ofStruct {
				if 8*c.word+8 > len(words) {
					break
				}
				v := binary.NativeEndian.Uint64(words[8*c.word:])
				if v == 0 { // of nearly all: the name is not asked for
					continue
				}
				if name := l.name(index); name != nil {
					add(name, c.name, v)
				}
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
}
