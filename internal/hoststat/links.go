package hoststat

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Links notices changes of the interfaces of a network namespace. One goroutine at a time.
type Links struct {
	fd    int
	known map[int]linkState // by index
	room  []byte
}

// linkState is what Links compares of an interface.
type linkState struct {
	name    string
	up      bool // by its administrator
	carrier bool
	program uint32 // the XDP program's id; 0: none
	mtu     int
}

// LinkChange is a change of an interface.
type LinkChange struct {
	Interface string // its name; empty: of any
	What      LinkChangeKind
	Text      string // in words, with the name
}

// LinkChangeKind is what has changed of an interface.
type LinkChangeKind uint8

// The changes.
const (
	LinkCame LinkChangeKind = iota
	LinkDeleted
	LinkRenamed
	LinkDown
	LinkUp
	LinkCarrierLost
	LinkCarrierBack
	LinkProgramOn  // an XDP program, where none was
	LinkProgramOff // the program that was there is gone, or another one is there
	LinkMTU
	LinkMissed // so many changes came that some were lost
	NumLinkChanges
)

// OpenLinks subscribes to changes of interfaces in the calling thread's network namespace, and lists those that it has.
func OpenLinks() (*Links, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("hoststat: netlink: %w", err)
	}
	l := &Links{fd: fd, known: map[int]linkState{}, room: make([]byte, 64<<10)}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("hoststat: netlink: %w", err)
	}
	if err := l.list(func(LinkChange) {}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("hoststat: interfaces: %w", err)
	}
	return l, nil
}

// Close ends it.
func (l *Links) Close() error { return unix.Close(l.fd) }

// mostLists is how often the list of interfaces is asked for while they change.
const mostLists = 10

// Interfaces lists the interfaces of the calling thread's network namespace. It asks again if they have changed meanwhile. Of interfaces that
// never cease to change it returns the last list, in which some may be missing.
func Interfaces() (list []netlink.Link, err error) {
	for range mostLists {
		if list, err = netlink.LinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
	}
	return list, nil
}

// list compares all interfaces with what is known, and calls changed for each difference. An interface that is missing in the list comes with a
// notification: the socket has subscribed before.
func (l *Links) list(changed func(LinkChange)) error {
	all, err := Interfaces()
	if err != nil {
		return err
	}
	for _, x := range all {
		l.update(x, changed)
	}
	return nil
}

// Changes calls changed for each change since the last call. It waits for nothing.
func (l *Links) Changes(changed func(LinkChange)) {
	for range 64 {
		// Usually nothing has changed. The look ahead finds that without the allocation that each call of Recvfrom makes.
		switch _, e := sys.Recv(l.fd, nil, unix.MSG_PEEK); e {
		case 0:
		case unix.ENOBUFS:
			changed(LinkChange{What: LinkMissed, Text: "so many changes of interfaces came at once that some are missing here"})
			continue
		default:
			return
		}
		n, from, err := unix.Recvfrom(l.fd, l.room, unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
			continue // not from the kernel
		}
		list, err := syscall.ParseNetlinkMessage(l.room[:n])
		if err != nil {
			continue
		}
		for _, m := range list {
			if m.Header.Type != unix.RTM_NEWLINK && m.Header.Type != unix.RTM_DELLINK {
				continue
			}
			header := unix.NlMsghdr(m.Header)
			x, err := netlink.LinkDeserialize(&header, m.Data)
			if err != nil {
				continue
			}
			if m.Header.Type == unix.RTM_NEWLINK {
				l.update(x, changed)
			} else if _, ok := l.known[x.Attrs().Index]; ok {
				delete(l.known, x.Attrs().Index)
				changed(describeLink(x.Attrs().Name, LinkDeleted, "the interface was deleted, or moved to another namespace"))
			}
		}
	}
}

// update compares an interface with what is known of it.
func (l *Links) update(x netlink.Link, changed func(LinkChange)) {
	a := x.Attrs()
	now := linkState{name: a.Name, up: a.RawFlags&unix.IFF_UP != 0, carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, mtu: a.MTU}
	if a.Xdp != nil && a.Xdp.Attached {
		now.program = a.Xdp.ProgId
	}
	was, ok := l.known[a.Index]
	l.known[a.Index] = now
	if !ok {
		changed(describeLink(a.Name, LinkCame, "the interface came"))
		return
	}
	if was.name != now.name {
		changed(describeLink(was.name, LinkRenamed, "the interface is called "+now.name+" now"))
	}
	switch {
	case was.up && !now.up:
		changed(describeLink(a.Name, LinkDown, "the interface was set down"))
	case !was.up && now.up:
		changed(describeLink(a.Name, LinkUp, "the interface was set up"))
	}
	switch {
	case was.carrier && !now.carrier:
		changed(describeLink(a.Name, LinkCarrierLost, "the carrier was lost"))
	case !was.carrier && now.carrier:
		changed(describeLink(a.Name, LinkCarrierBack, "the carrier is there"))
	}
	if was.program != now.program {
		changed(describeProgram(a.Name, was.program, now.program))
	}
	if was.mtu != now.mtu {
		changed(describeLink(a.Name, LinkMTU, fmt.Sprintf("the MTU was %d and is %d", was.mtu, now.mtu)))
	}
}

// describeLink is a change with its text.
func describeLink(name string, what LinkChangeKind, text string) LinkChange {
	return LinkChange{name, what, name + ": " + text}
}

// describeProgram is a change of an interface's XDP program, given by its id; 0: none. The kernel does not tell of one that is attached by a BPF
// link, which is found with the next change of the interface.
func describeProgram(name string, was, now uint32) LinkChange {
	switch {
	case was == 0:
		return describeLink(name, LinkProgramOn, fmt.Sprintf("an XDP program (%d) is on the interface, which had none when the kernel last told of it", now))
	case now == 0:
		return describeLink(name, LinkProgramOff, fmt.Sprintf("the XDP program %d was taken off", was))
	}
	return describeLink(name, LinkProgramOff, fmt.Sprintf("the XDP program %d was replaced by %d", was, now))
}
