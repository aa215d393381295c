package shadow

import (
	"errors"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// Tie is what one socket's descriptor is to have of an interface that was deleted and made again: to be bound to it, or to be a member of a
// group on it. Binding and joining take the lock of the kernel's configuration, so a job does it, on a descriptor of its own: the socket
// may be closed meanwhile.
type Tie struct {
	Socket *ring.Socket
	Err    error // after Make
	kernel Kernel
	fd     int
	group  Group // with the index that the interface has now; zero: the device
	former Group // as it was joined
}

// newTie makes a tie, on a duplicate of the descriptor.
func newTie(k Kernel, s *ring.Socket, fd int) Tie {
	t := Tie{Socket: s, kernel: k}
	t.fd, t.Err = k.Duplicate(fd)
	return t
}

// DeviceTie is the tie of a socket that is bound to the interface (SO_BINDTODEVICE).
func DeviceTie(k Kernel, s *ring.Socket) Tie { return newTie(k, s, kernel.FD(s)) }

// Ties appends a tie for each membership on an interface that was deleted and made again, and notes its new index.
func (m *Memberships) Ties(dst []Tie, joined Groups, oldIndex, newIndex int) []Tie {
	for g := range joined {
		if g.IfIndex != uint32(oldIndex) {
			continue
		}
		i, at := m.findSocket(g)
		t := newTie(m.kernel, m.s, m.descriptor(g))
		t.group, t.former = g, g
		t.group.IfIndex = uint32(newIndex)
		dst = append(dst, t)
		if i >= 0 {
			m.sockets[i].held[at].IfIndex = uint32(newIndex)
		}
	}
	return dst
}

// Make binds or joins again, and closes the tie's descriptor; Err has the result. It runs in a job, because it may wait for the kernel's
// configuration lock.
func (t *Tie) Make(ifName string) {
	if t.Err != nil {
		return
	}
	if t.group == (Group{}) {
		t.Err = t.kernel.BindToDevice(t.fd, ifName)
	} else {
		_ = leaveGroup(t.kernel, t.fd, t.former) // the kernel keeps the entry of an interface that is gone, and it counts
		t.Err = joinGroup(t.kernel, t.fd, t.group)
	}
	t.Err = errors.Join(t.Err, t.kernel.Close(t.fd))
}
