package offload

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// space is a network namespace: that of the thread which opened an interface first. Opened again, by whichever thread, it is to be the
// same interface.
type space struct{ file *os.File }

// hereSpace is that of the calling thread. Without /proc it is none, and all threads are taken to be in one.
func hereSpace() space {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return space{}
	}
	return space{f}
}

func (s space) close() {
	if s.file != nil {
		_ = s.file.Close() // nothing is written to it
	}
}

// do runs f on a thread that is there. Only a thread that is elsewhere has to go, which takes CAP_SYS_ADMIN.
func (s space) do(f func() error) error {
	if s.file == nil {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var here, there unix.Stat_t
	err := unix.Stat("/proc/thread-self/ns/net", &here)
	if e := unix.Fstat(int(s.file.Fd()), &there); err == nil && e == nil && here.Dev == there.Dev && here.Ino == there.Ino {
		return f()
	}
	return host.InNamespace(int(s.file.Fd()), f)
}
