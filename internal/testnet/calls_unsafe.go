package testnet

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Calls counts system calls of one thread, exactly: a seccomp filter reports each before it is made (SECCOMP_RET_USER_NOTIF), and another
// goroutine notes it and lets it go on.
//
//	the traced thread            the listener
//	bpf(…) ──► filter ──► waits ────► notes it
//	made  ◄───────────────────────── CONTINUE
//
// A raw call waits without telling the Go scheduler, so the garbage collector is off meanwhile: it would wait for the traced thread, and the
// listener for it.
type Calls struct {
	t      testing.TB
	fd     int
	ended  chan struct{}
	mu     sync.Mutex
	counts map[string]int
}

// configuring are the calls that may wait for a lock of the kernel's configuration (rtnl_lock), as far as a ring has any reason to make them:
// bpf(2), which asks for a link's interface under it, ioctl(2), setsockopt(2), which joins groups under it, and what makes and binds sockets.
// Requests by netlink are told from other sends by their socket, and bpf(2) on the entries of maps, which takes no such lock, from its other
// commands: see note.
var configuring = map[uint32]string{unix.SYS_BPF: "bpf", unix.SYS_IOCTL: "ioctl", unix.SYS_SETSOCKOPT: "setsockopt", unix.SYS_SOCKET: "socket",
	unix.SYS_BIND: "bind", unix.SYS_SENDTO: "netlink", unix.SYS_SENDMSG: "netlink"}

// ConfigurationCalls counts the calls of the calling goroutine's thread that configure the kernel's network, by name, from now on. The
// goroutine is locked to its thread, which ends with it: the filter cannot be taken off. A kernel without such filters skips the test.
func ConfigurationCalls(t testing.TB) *Calls { return trace(t, configuring) }

// CountCalls counts a system call of the calling goroutine's thread, as ConfigurationCalls.
func CountCalls(t testing.TB, number uint32, name string) *Calls {
	return trace(t, map[uint32]string{number: name})
}

// trace counts system calls of the calling goroutine's thread, by a seccomp filter that reports them and lets them continue.
func trace(t testing.TB, names map[uint32]string) *Calls {
	t.Helper()
	runtime.LockOSThread() // and never unlocked
	// A garbage collection stops every processor that runs Go code, and takes one in a call that the scheduler does not know of for such: it
	// would wait for the call, and the call for the goroutine that lets it continue. One that is under way ends first.
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	runtime.GC()
	filter := program(slices.Sorted(maps.Keys(names)))
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	const setModeFilter = 1
	var fd uintptr
	var e unix.Errno
	for _, more := range []uintptr{unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0} { // Linux 5.19: a signal does not repeat the call
		fd, _, e = unix.Syscall(unix.SYS_SECCOMP, setModeFilter, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|more, uintptr(unsafe.Pointer(&prog)))
		if e == 0 {
			break
		}
	}
	if e != 0 {
		Missing(t, "seccomp", fmt.Sprintf("filters with a listener (Linux 5.5), which count system calls: %v", e))
	}
	c := &Calls{t: t, fd: int(fd), ended: make(chan struct{}), counts: map[string]int{}}
	stop := make(chan struct{})
	go c.listen(names, stop)
	t.Cleanup(func() {
		close(stop)
		<-c.ended
		_ = unix.Close(c.fd) // what the thread calls now fails with ENOSYS: it makes none any more
	})
	return c
}

// program returns the seccomp filter. A send without data is not reported: that is how an AF_XDP socket is made to send, and not netlink.
func program(numbers []uint32) (list []unix.SockFilter) {
	const nr, args = 0, 16 // offsets in struct seccomp_data
	load := func(at uint32) {
		list = append(list, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
	}
	equal := func(k uint32, yes, no uint8) {
		list = append(list, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no})
	}
	ret := func(k uint32) { list = append(list, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}) }
	load(nr)
	for _, n := range numbers {
		if n != unix.SYS_SENDTO {
			equal(n, 0, 1)
			ret(unix.SECCOMP_RET_USER_NOTIF)
			continue
		}
		equal(n, 0, 6)
		load(args + 8) // the data's address, in two words of either order
		equal(0, 0, 3)
		load(args + 12)
		equal(0, 0, 1)
		ret(unix.SECCOMP_RET_ALLOW)
		ret(unix.SECCOMP_RET_USER_NOTIF)
	}
	ret(unix.SECCOMP_RET_ALLOW)
	return list
}

// notification is struct seccomp_notif, with its struct seccomp_data; response struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         uint32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id           uint64
	val          int64
	error, flags int32
}

// listen receives the filter's reports, counts each, and lets the call continue, until stop is closed or the thread ends.
func (c *Calls) listen(names map[uint32]string, stop chan struct{}) {
	defer close(c.ended)
	for {
		list := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(list, 20)
		select {
		case <-stop:
			return
		default:
		}
		if n == 0 || err != nil || list[0].Revents&unix.POLLIN == 0 {
			if list[0].Revents&unix.POLLHUP != 0 { // the thread has ended
				return
			}
			continue
		}
		var x notification
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&x))); e != 0 {
			continue // withdrawn by a signal
		}
		c.note(names[x.nr], &x)
		r := response{id: x.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
	}
}

// note counts one call.
func (c *Calls) note(name string, x *notification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "netlink" {
		domain, err := unix.GetsockoptInt(int(int32(x.args[0])), unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil || domain != unix.AF_NETLINK {
			return
		}
	}
	if name == "bpf" {
		if x.args[0] >= unix.BPF_MAP_LOOKUP_ELEM && x.args[0] <= unix.BPF_MAP_GET_NEXT_KEY {
			return
		}
		name = fmt.Sprintf("bpf command %d", x.args[0])
	}
	c.counts[name]++
}

// Total is how many calls were counted; String names them.
func (c *Calls) Total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.counts {
		n += k
	}
	return n
}

// String lists the calls, for a failed test.
func (c *Calls) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.counts)) {
		fmt.Fprintf(&b, "%s %d times; ", name, c.counts[name])
	}
	return b.String()
}
