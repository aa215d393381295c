package flowrecord

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

// A record of a process that has ended can be used in its network namespace alone. When that is gone too, its connections have ended with it,
// and nobody needs the record any more. The kernel has handles of namespaces, which are refused once the namespace is gone (Linux 6.18). A
// record without one stays.

// namespaceHandle is a file handle of a namespace, struct nsfs_file_handle in linux/nsfs.h. The zero value: the kernel gave none.
type namespaceHandle struct {
	kind   uint32
	length uint32
	bytes  [16]byte
}

// nsfsRoot is FD_NSFS_ROOT of linux/fcntl.h: in the place of a descriptor it says that a handle is one of a namespace.
const nsfsRoot = -10003

// currentNamespace is the handle of the calling thread's network namespace.
func currentNamespace() (h namespaceHandle) {
	f, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/proc/thread-self/ns/net", unix.AT_SYMLINK_FOLLOW)
	if err != nil || f.Size() > len(h.bytes) || f.Type() <= 0 {
		return h
	}
	h.kind, h.length = uint32(f.Type()), uint32(f.Size())
	copy(h.bytes[:], f.Bytes())
	return h
}

// isGone reports whether the namespace of a handle exists no longer; false where the kernel does not say.
func (h *namespaceHandle) isGone() bool {
	if h.kind == 0 || h.kind > math.MaxInt32 || h.length > uint32(len(h.bytes)) {
		return false
	}
	fd, err := unix.OpenByHandleAt(nsfsRoot, unix.NewFileHandle(int32(h.kind), h.bytes[:h.length]), unix.O_RDONLY|unix.O_CLOEXEC)
	if err == nil {
		_ = unix.Close(fd) // only looked at
	}
	return errors.Is(err, unix.ESTALE)
}
