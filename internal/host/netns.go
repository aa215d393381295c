package host

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// InNamespace runs f on a thread that is in the network namespace of fd; sockets that f opens belong to it for good. With fd -1 f
// runs where the caller is. Entering needs CAP_SYS_ADMIN in the namespace's user namespace. Any goroutine.
func InNamespace(fd int, f func() error) error {
	if fd == -1 {
		return f()
	}
	result := make(chan error)
	// A goroutine of its own, so that a thread that cannot go back is thrown away: the runtime ends a thread whose
	// goroutine ends locked.
	go func() {
		runtime.LockOSThread()
		back, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("host: current network namespace: %w", err)
			return
		}
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("host: entering the network namespace of descriptor %d: %w", fd, err)
		} else {
			err = f()
		}
		if unix.Setns(int(back.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		_ = back.Close()
		result <- err
	}()
	return <-result
}

// Netns is a network namespace that goroutines on any thread can enter again, to open what must be in the same one as before.
type Netns struct{ file *os.File }

// CurrentNetns is that of the calling thread. Without /proc it is none, and all threads are taken to be in one.
func CurrentNetns() Netns {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return Netns{}
	}
	return Netns{f}
}

// Close closes its descriptor.
func (n Netns) Close() {
	if n.file != nil {
		_ = n.file.Close() // nothing is written to it
	}
}

// Do runs f on a thread that is in the namespace. Only a thread that is elsewhere has to enter it, which takes CAP_SYS_ADMIN.
func (n Netns) Do(f func() error) error {
	if n.file == nil {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var here, there unix.Stat_t
	err := unix.Stat("/proc/thread-self/ns/net", &here)
	if e := unix.Fstat(int(n.file.Fd()), &there); err == nil && e == nil && here.Dev == there.Dev && here.Ino == there.Ino {
		return f()
	}
	return InNamespace(int(n.file.Fd()), f)
}
