package hoststat

import (
	"bytes"
	"unsafe"

	"golang.org/x/sys/unix"
)

// name asks for the name of an interface (SIOCGIFNAME); nil: it is gone.
func (l *linkStats) name(index uint32) []byte {
	req := struct {
		name  [unix.IFNAMSIZ]byte
		index uint32
		_     [20]byte
	}{index: index}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), unix.SIOCGIFNAME, uintptr(unsafe.Pointer(&req))); e != 0 {
		return nil
	}
	name, _, _ := bytes.Cut(req.name[:], []byte{0})
	return name
}
