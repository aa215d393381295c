package epoll

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

var noAddr = ring.Completion{}.Source

func newTinyPool(t testing.TB) *buffers.DriverPool {
	t.Helper()
	l := buffers.Layout{SmallSize: 2048, SmallCount: 4, Headroom: 192}
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	return pool
}

func TestNewRefusesBadArguments(t *testing.T) {
	_, err := New(ring.DriverConfig{})
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "pool")
	_, err = New(ring.DriverConfig{Pool: newTinyPool(t), Entries: -3})
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "entries -3")
	for _, entries := range []int{0, 1, 100, 1 << 30} {
		d, err := New(ring.DriverConfig{Pool: newTinyPool(t), Entries: entries})
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
}

func TestCapsAreExplained(t *testing.T) {
	d, err := New(ring.DriverConfig{Pool: newTinyPool(t)})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	require.Equal(t, "epoll", d.Kind())
	want := map[ring.Caps]string{
		ring.CapZeroCopySend:       "epoll.copies_sends",
		ring.CapThreadBound:        "epoll.any_thread",
		ring.CapWindowAtRelease:    "os.kernel_window",
		ring.CapOutPerAck:          "os.no_ack_events",
		ring.CapSharedMulticast:    "os.copy_per_member",
		ring.CapBackgroundProgress: "os.kernel_progress",
		ring.CapLaunchTime:         "os.no_launch_time",
		ring.CapPathChanges:        "os.one_path",
	}
	require.Equal(t, ring.CapTxTimestamps, d.Caps())
	for _, c := range ring.AllCaps() {
		if d.Caps().Has(c) {
			continue
		}
		require.Equal(t, want[c], d.Why(c).Code, "%v", c)
		require.NotEmpty(t, d.Why(c).Text)
	}
}

func TestProbe(t *testing.T) {
	require.NoError(t, Probe())
}

const reexecProbe = "EPOLL_TEST_PROBE"

// TestProbeWithoutDescriptors needs a process that has none left.
func TestProbeWithoutDescriptors(t *testing.T) {
	if os.Getenv(reexecProbe) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProbeWithoutDescriptors$", "-test.v", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), reexecProbe+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestProbeWithoutDescriptors")
		return
	}
	// Whatever number of descriptors is left, Probe says so and leaves none behind.
	before := descriptors(t)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	free, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(free))
	for left := range 3 {
		low := limit
		low.Cur = uint64(free + left)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		err := Probe()
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		require.ErrorIs(t, err, unix.EMFILE)
		require.ErrorIs(t, err, ring.ErrNotSupported)
		var missing *ring.FeatureError
		require.True(t, errors.As(err, &missing))
		require.Equal(t, "epoll.no_descriptors", missing.Code)
	}
	require.Equal(t, before, descriptors(t))
	require.NoError(t, Probe())
	require.Equal(t, before, descriptors(t))
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestMissingNamesTheReason(t *testing.T) {
	for e, code := range map[unix.Errno]string{
		unix.ENOSYS: "epoll.kernel", unix.EPERM: "epoll.no_permission", unix.EACCES: "epoll.no_permission",
		unix.EMFILE: "epoll.no_descriptors", unix.ENFILE: "epoll.no_descriptors", unix.ENOMEM: "epoll.no_memory",
		unix.ENOSPC: "epoll.no_memory", unix.EIO: "epoll.refused",
	} {
		err := featureError(e)
		require.ErrorIs(t, err, e)
		require.ErrorIs(t, err, ring.ErrNotSupported)
		var f *ring.FeatureError
		require.True(t, errors.As(err, &f))
		require.Equal(t, code, f.Code)
	}
}

func TestSocketsThatAreNotAttached(t *testing.T) {
	w := newWorld(t)
	other := w.udp(ring.Config{})
	w.poll(1)
	s := w.socket(ring.KindStream, ring.Config{})
	for _, err := range []error{w.drv.SetReceiving(s, true), w.drv.NotifyWritable(s), w.drv.Transmit(s)} {
		require.ErrorIs(t, err, unix.EINVAL)
	}
	require.NoError(t, w.drv.SetReceiving(s, false), "there is nothing to stop")
	require.True(t, w.drv.Detach(s))
	require.NoError(t, s.Close())
	w.close(other)
}

func TestStaleEventsAreIgnored(t *testing.T) {
	w := newWorld(t)
	l := w.listen(ring.Config{})
	s, _ := w.accept(l)
	h := *ring.HandleOf(s)
	w.close(s)
	again, _ := w.accept(l)
	require.Equal(t, h.Slot, ring.HandleOf(again).Slot)
	require.Same(t, w.drv.table.of(again), w.drv.table.find(h.Slot, ring.HandleOf(again).Gen))
	require.Nil(t, w.drv.table.find(h.Slot, h.Gen))
	require.Nil(t, w.drv.table.find(h.Slot+1, h.Gen), "a slot not used yet")
	require.Nil(t, w.drv.table.find(1<<20, h.Gen), "a slot far beyond")
	require.Nil(t, w.drv.table.of(s))

	// EPOLLOUT of the old socket, while the new one waits for its own.
	r := w.drv.table.of(again)
	r.notify = true
	w.drv.batch[0].Events = unix.EPOLLOUT
	w.drv.batch[0].Fd, w.drv.batch[0].Pad = int32(h.Slot), int32(h.Gen)
	w.drv.next, w.drv.count = 0, 1
	w.poll(1)
	require.True(t, r.notify)
	r.notify = false
}

func TestLazyListIsBounded(t *testing.T) {
	w := newWorld(t)
	l := w.listen(ring.Config{})
	for range 100 {
		s, _ := w.accept(l)
		require.NoError(t, s.Suspend())
		w.close(s)
	}
	require.LessOrEqual(t, len(w.drv.deferred), 2)
}

// TestDuplicateOfAClosedSocket: a duplicate of the descriptor, such as a child has between fork and exec, must not keep reporting.
func TestDuplicateOfAClosedSocket(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	dup, err := unix.Dup(s.ID())
	require.NoError(t, err)
	w.close(s)
	_, err = peer.Write([]byte("nobody reads this"))
	require.NoError(t, err)
	requireRests(t, w)
	require.NoError(t, unix.Close(dup))
}

// TestDescriptorClosedBehindTheRing is a bug of the application: it is reported, once, and the ring goes on.
func TestDescriptorClosedBehindTheRing(t *testing.T) {
	w := newWorld(t)
	u := w.udp(ring.Config{})
	s, peer := w.connected(ring.Config{})
	w.poll(1)
	require.NoError(t, unix.Dup3(s.ID(), u.ID(), unix.O_CLOEXEC)) // u's number is another file now
	require.NoError(t, u.Suspend())
	_, err := w.ring().Arm()
	require.ErrorIs(t, err, unix.ENOENT)
	_, err = w.ring().Arm()
	require.NoError(t, err)
	_, err = peer.Write([]byte("on"))
	require.NoError(t, err)
	require.Equal(t, "on", string(w.bytes(s)))
}

func TestPollDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	u := w.udp(ring.Config{})
	upeer := w.udp(ring.Config{})
	r := w.ring()
	var batch [8]ring.Completion
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = r.Poll(batch[:]) }), "idle")

	message := make([]byte, 64)
	one := func(want *ring.Socket) *ring.Completion {
		for {
			n, err := r.Poll(batch[:])
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 && batch[0].Socket == want {
				return &batch[0]
			}
			if n > 0 {
				t.Fatal("unexpected completion")
			}
		}
	}
	udp := func() {
		_, _ = upeer.SendTo(message, u.LocalAddr())
		c := one(u)
		_, _ = u.SendTo(c.Packet.Bytes(), c.Source)
		_ = c.Packet.Release()
		c = one(upeer)
		_ = c.Packet.Release()
	}
	for range 100 {
		udp()
	}
	require.Zero(t, testing.AllocsPerRun(500, udp), "UDP")

	tcp := func() {
		_, _ = peer.Write(message)
		c := one(s)
		_, _ = s.Send(c.Packet.Bytes())
		_ = c.Packet.Release()
		_, _ = peer.Read(message)
	}
	for range 100 {
		tcp()
	}
	require.Zero(t, testing.AllocsPerRun(500, tcp), "TCP")

	stops := func() {
		_ = u.Suspend()
		_, _ = r.Poll(batch[:])
		_, _ = r.Arm()
		_, _ = r.Poll(batch[:])
		_ = u.Resume()
		_, _ = r.Poll(batch[:])
		_ = r.Wait(0)
	}
	stops()
	require.Zero(t, testing.AllocsPerRun(200, stops), "rest")
}
