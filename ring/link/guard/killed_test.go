package guard

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A process that is killed does not leave the port dark: a link ends with it, a filter passes everything when its time is old, and the next
// guard removes it.
func TestKilled(t *testing.T) {
	if index := os.Getenv("GUARD_TEST_VICTIM"); index != "" {
		victim(t, index)
	}
	modes(t, func(t *testing.T, c Config) {
		w := newWorld(t)
		process := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		process.Env = append(os.Environ(), fmt.Sprintf("GUARD_TEST_VICTIM=%d", w.index), fmt.Sprintf("GUARD_TEST_CLSACT=%v", c.Clsact))
		out, err := process.StdoutPipe()
		w.NoError(err)
		w.NoError(process.Start())
		b := make([]byte, 100)
		n, err := out.Read(b)
		w.NoError(err)
		w.True(bytes.HasPrefix(b[:n], []byte("ready")), "%s", b[:n])
		w.listen()
		dark := w.dial(ap(ours + ":4000"))
		time.Sleep(50 * time.Millisecond)
		w.False(w.ready(dark))
		w.NoError(process.Process.Kill())
		w.Error(process.Wait())
		killed := time.Now()
		l, err := netlink.LinkByIndex(w.index)
		w.NoError(err)
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		w.NoError(err)
		defer h.Close()
		if c.Clsact {
			w.Len(w.guards(h, l), 1, "it outlives the process")
			early := w.dial(ap(ours + ":4000"))
			if ready := w.ready(early); time.Since(killed) < 500*time.Millisecond {
				w.False(ready, "the time is not old yet")
			}
			time.Sleep(time.Until(killed.Add(1200 * time.Millisecond)))
		}
		fd := w.dial(ap(ours + ":4000"))
		w.until("the kernel accepts", func() bool { return w.ready(fd) })
		w.Less(time.Since(killed), patience)
		w.NoError(w.state(fd))
		// The next guard clears away what is left, and works.
		g := w.guarded(c)
		w.Len(w.guards(h, l), map[bool]int{true: 1, false: 0}[c.Clsact])
		w.NoError(g.Claim(port4000))
		w.dial(ap(ours + ":4000"))
		w.until("it drops", func() bool { return w.count(g, "guard.syn") > 0 })
		w.NoError(g.Close())
		w.Empty(w.guards(h, l))
		w.False(w.hasQdisc(h, l))
	})
}

// listen has the kernel listen on our port.
func (w *world) listen() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	w.NoError(err)
	w.t.Cleanup(func() { _ = unix.Close(fd) })
	w.NoError(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 1}, Port: 4000}))
	w.NoError(unix.Listen(fd, 10))
}

func victim(t *testing.T, index string) {
	n, err := strconv.Atoi(index)
	require.NoError(t, err)
	g, err := Open(Config{Index: n, Clsact: os.Getenv("GUARD_TEST_CLSACT") == "true"})
	require.NoError(t, err)
	require.NoError(t, g.Claim(port4000))
	fmt.Println("ready")
	time.Sleep(time.Minute)
	t.Fatal("nobody killed this process")
}

// A process that starts again at once does not take the filter of the one before for a live guard's: it waits until it knows.
func TestStaleSoon(t *testing.T) {
	w := newWorld(t)
	g := w.guarded(Config{Clsact: true})
	w.NoError(g.Claim(port4000))
	killed := g.attachment.(*clsact)
	close(killed.stop) // as if it had been killed: the time is not renewed any more
	killed.stopped.Wait()
	killed.stop = make(chan struct{}) // Close closes it
	l, err := netlink.LinkByIndex(w.index)
	w.NoError(err)
	next := w.guarded(Config{})
	for _, f := range w.guards(killed.handle, l) { // the next one has a filter too where there is no TCX
		w.NotEqual(int(killed.program), f.Id)
	}
	w.NoError(next.Close())
}
