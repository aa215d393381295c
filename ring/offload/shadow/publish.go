package shadow

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// Publish tells the watcher the groups that the socket has joined, if it has any, or had. present maps an interface's index at joining to its
// index now.
func (m *Memberships) Publish(w *GroupWatcher, k Key, present func(int) int, joined Groups) {
	if !m.published && isEmpty(joined) {
		return
	}
	j := Joined{Port: m.s.LocalAddr().Port(), Inode: m.kernel.Inode(m.fd), Groups: map[host.GroupOn]int{}}
	fds := m.descriptors()
	type held struct {
		on host.GroupOn
		fd int
	}
	seen := map[held]bool{}
	for g := range joined {
		x := held{g.on(present), m.fd}
		if fd, ok := fds[g]; ok {
			x.fd = fd
		}
		if !seen[x] { // sources of a group on one descriptor are one membership
			seen[x] = true
			j.Groups[x.on]++
		}
	}
	m.published = len(j.Groups) > 0
	w.SetJoined(k, j)
}

// PublishGroup is Publish for one group that was joined or left.
func (m *Memberships) PublishGroup(w *GroupWatcher, k Key, present func(int) int, joined Groups, g Group) {
	if !m.published || isEmpty(joined) {
		m.Publish(w, k, present, joined)
		return
	}
	on := g.on(present)
	var fds []int
	for x := range joined {
		if x.Addr != g.Addr || x.on(present) != on {
			continue
		}
		if fd := m.descriptor(x); !slices.Contains(fds, fd) {
			fds = append(fds, fd)
		}
	}
	w.SetGroup(k, on, len(fds))
}

// isEmpty reports whether there is no group.
func isEmpty(joined Groups) bool {
	for range joined {
		return false
	}
	return true
}

// Withdraw undoes Publish.
func (m *Memberships) Withdraw(w *GroupWatcher, k Key) {
	if m.published {
		m.published = false
		w.SetJoined(k, Joined{})
	}
}

// on is the group with the index that its interface has now.
func (g Group) on(present func(int) int) host.GroupOn {
	return host.GroupOn{Group: g.Addr, Interface: uint32(present(int(g.IfIndex)))}
}

// IsShared reports whether other sockets of the host are members of a group and bound to the port.
func (n *OtherSockets) IsShared(g Group, port uint16, present func(int) int) bool {
	if len(n.Shared) == 0 {
		return false
	}
	_, ok := n.Shared[GroupFlow{g.on(present), port}]
	return ok
}
