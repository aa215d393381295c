package kernel

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// notRegular is the reason why a file cannot be sent.
var notRegular = &ring.FeatureError{Feature: "sending what is not a regular file", Code: "sendfile.not_regular"}

// OpenFile makes a descriptor of its own: the caller's may be closed, and its number be another file's, while this one is being sent.
func (t *Transport) OpenFile(f *os.File) (ref ring.FileRef, size int64, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, 0, err
	}
	var fd int
	var failed error
	err = raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return -1, 0, fmt.Errorf("%w: %w", os.ErrClosed, err) // Control fails for no other reason
	}
	if failed != nil {
		return -1, 0, failed
	}
	var s unix.Stat_t
	if err = unix.Fstat(fd, &s); err == nil && s.Mode&unix.S_IFMT != unix.S_IFREG {
		err = notRegular
	}
	if err == nil {
		err = readable(fd)
	}
	if err != nil {
		return -1, 0, errors.Join(err, unix.Close(fd))
	}
	return ring.FileRef(fd), s.Size, nil
}

// readable is EBADF for a file that was opened for writing only, as sendfile(2) would say later.
func readable(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_ACCMODE == unix.O_WRONLY {
		err = unix.EBADF
	}
	return err
}

// SendFile is sendfile(2), without its signal: from the page cache, without a copy through user space.
func (t *Transport) SendFile(s *ring.Socket, ref ring.FileRef, off *int64, n int) (int, syscall.Errno) {
	sent, err := sys.Sendfile(FD(s), int(ref), off, n)
	if err != nil {
		return 0, errnoOf(err)
	}
	return sent, 0
}

// CloseFile closes what OpenFile made.
func (t *Transport) CloseFile(ref ring.FileRef) { _ = unix.Close(int(ref)) } // it was only read
