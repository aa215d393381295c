package repair

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// getsockopt reads an option of any length, and returns how much of b there is.
func getsockopt(fd, level, name int, b []byte) (int, error) {
	n := uint32(len(b))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&b[0])),
		uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// repairWindow is struct tcp_repair_window.
type repairWindow struct{ sndWL1, sndWnd, maxWindow, rcvWnd, rcvWup uint32 }

// getWindow reads the windows of a socket in repair mode (TCP_REPAIR_WINDOW).
func getWindow(fd int) (w repairWindow, err error) {
	_, err = getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_WINDOW, unsafe.Slice((*byte)(unsafe.Pointer(&w)), unsafe.Sizeof(w)))
	return w, err
}

// setWindow sets the windows of a socket in repair mode.
func setWindow(fd int, w repairWindow) error {
	_, _, e := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR_WINDOW, uintptr(unsafe.Pointer(&w)),
		unsafe.Sizeof(w), 0)
	if e != 0 {
		return e
	}
	return nil
}
