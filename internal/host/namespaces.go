package host

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// namespaces gives the network namespaces of this machine an id here, without which the kernel does not list their links (RTM_GETLINK with
// IFLA_TARGET_NETNSID): those of processes, and those that `ip netns` keeps. An id is what the kernel itself gives when an interface moves; it
// changes nothing else. Those that may not be opened are left out.
type namespaces struct {
	known     map[string]bool // as the links in /proc name them: "net:[4026531840]"
	permitted bool
}

// identify gives an id to each namespace that was not there at the last call.
func (a *remoteChildren) identify() {
	s := &a.namespaces
	if !s.permitted {
		return
	}
	seen := make(map[string]bool, len(s.known))
	each := func(pattern string, name func(path string) string) {
		paths, _ := filepath.Glob(pattern) // the pattern is right
		for _, path := range paths {
			n := name(path)
			if n == "" || seen[n] || !s.permitted || a.isEnded() {
				continue
			}
			if seen[n] = true; !s.known[n] && !a.giveID(path) {
				delete(seen, n) // tried again
			}
		}
	}
	each("/proc/[0-9]*/ns/net", func(path string) string {
		to, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(to, "net:") {
			return ""
		}
		return to
	})
	each("/run/netns/*", func(path string) string { return path })
	s.known = seen
}

// giveID makes the kernel give an id to the namespace of a file; one that has an id keeps it. False: it could not be done.
func (a *remoteChildren) giveID(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	r := nl.NewNetlinkRequest(unix.RTM_NEWNSID, unix.NLM_F_ACK)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: a.ask}
	body := append(make([]byte, 4), nl.NewRtAttr(netnsaFD, nl.Uint32Attr(uint32(f.Fd()))).Serialize()...)
	r.AddRawData(append(body, nl.NewRtAttr(netnsaID, nl.Uint32Attr(^uint32(0))).Serialize()...)) // whichever id is free
	switch _, err = r.Execute(unix.NETLINK_ROUTE, 0); err {
	case nil, unix.EEXIST:
		return true
	case unix.EPERM:
		a.namespaces.permitted = false // nor will it be permitted for others
	}
	return false
}
