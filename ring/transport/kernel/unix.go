package kernel

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// BindUnix binds a unix-domain socket to a path, or to an abstract name.
func (t *Transport) BindUnix(s *ring.Socket, name string) (bound string, file ring.UnixFile, err error) {
	if err := unix.Bind(FD(s), &unix.SockaddrUnix{Name: name}); err != nil {
		return "", file, err
	}
	bound, _ = sys.UnixSockName(FD(s))
	if !strings.HasPrefix(bound, "@") {
		file = fileOf(name) // gone again already: nothing to remove
	}
	return bound, file, nil
}

// fileOf identifies the file at a path, zero if there is none.
func fileOf(path string) ring.UnixFile {
	var s unix.Stat_t
	if unix.Lstat(path, &s) != nil {
		return ring.UnixFile{}
	}
	return ring.UnixFile{Device: uint64(s.Dev), Inode: s.Ino}
}

// ConnectUnix connects a unix-domain socket.
func (t *Transport) ConnectUnix(s *ring.Socket, name string) (peer string, err error) {
	if err := unix.Connect(FD(s), &unix.SockaddrUnix{Name: name}); err != nil {
		return "", err
	}
	peer, _ = sys.UnixPeerName(FD(s))
	return peer, nil
}

// AcceptedUnix is the name of a child's peer.
func (t *Transport) AcceptedUnix(s *ring.Socket) string {
	peer, _ := sys.UnixPeerName(FD(s))
	return peer
}

// RemoveUnix removes the file of a name, unless somebody else has removed or replaced it.
func (t *Transport) RemoveUnix(name string, file ring.UnixFile) error {
	if fileOf(name) != file {
		return nil
	}
	if err := unix.Unlink(name); err != nil && err != unix.ENOENT {
		return err
	}
	return nil
}
