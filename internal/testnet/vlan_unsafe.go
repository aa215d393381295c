package testnet

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Values of include/uapi/linux/ethtool.h.
const (
	ethtoolGetFlags = 0x25
	ethtoolSetFlags = 0x26
	flagTxVLAN      = 1 << 7
	flagRxVLAN      = 1 << 8
)

// TakeTagsOut makes an interface of the present namespace take 802.1Q tags out of the frames that it receives, and put those of frames to send
// in by itself (ethtool -K rxvlan, txvlan). With false the tags stay in the frames.
func TakeTagsOut(t testing.TB, name string, on bool) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	value := struct{ cmd, data uint32 }{cmd: ethtoolGetFlags}
	require.Zero(t, ethtool(fd, name, unsafe.Pointer(&value)), "the flags of %s", name)
	value.cmd = ethtoolSetFlags
	if value.data &^= flagRxVLAN | flagTxVLAN; on {
		value.data |= flagRxVLAN | flagTxVLAN
	}
	require.Zero(t, ethtool(fd, name, unsafe.Pointer(&value)), "flags of %s: VLAN tags taken out: %v", name, on)
}

// ethtool makes the ioctl SIOCETHTOOL for an interface; data is the command's struct.
func ethtool(fd int, name string, data unsafe.Pointer) unix.Errno {
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the rest of struct ifreq
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	request.data = data
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	return e
}
