package xtreme_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/uring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestForcedKinds(t *testing.T) {
	for kind, want := range map[conf.RingKind][]string{
		conf.RingUring: {"offload.not_asked"},
		conf.RingEpoll: {"offload.not_asked", "uring.not_asked"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			needKind(t, kind)
			w := newWorld(t, kind)
			u := w.udp(loopback)
			w.Equal(string(kind), u.Ring().Kind())
			p := u.Path()
			w.Equal("kernel", p.Tier)
			w.Equal(string(kind), p.Kind)
			w.Equal(want, codes(p))
			for _, r := range p.Reasons {
				w.NotEmpty(r.Text, r.Code)
				w.Contains(p.Explain(), r.Text+" ["+r.Code+"]")
			}
			w.Equal("kernel "+string(kind), p.String(), "bypass was not asked for, so nothing is lost")
			bare, err := w.poller.NewTCP(xtreme.IPv4, xtreme.TCPConfig{})
			w.NoError(err)
			w.Equal(p, bare.Path(), "a socket that has no ring yet knows which it will be")
			w.close(bare)
		})
	}
}

// Auto takes the better ring that works, and gives the reason of the one that does not.
func TestAutoExplainsItself(t *testing.T) {
	w := newWorld(t, conf.RingAuto)
	p := w.udp(loopback).Path()
	err := uring.Probe()
	if err == nil {
		w.Equal("uring", p.Kind)
		w.Equal([]string{"offload.not_asked"}, codes(p))
		return
	}
	var f *ring.FeatureError
	w.ErrorAs(err, &f)
	w.Equal("epoll", p.Kind)
	w.Equal([]string{"offload.not_asked", f.Code}, codes(p))
	w.Contains(p.Explain(), f.Error())
	w.Equal("kernel epoll (uring lost: "+f.Code+")", p.String())
}

func TestPollerOverridesTheKind(t *testing.T) {
	w := newWorld(t, conf.RingAuto, xtreme.PollerConfig{RingKind: conf.RingEpoll})
	w.Equal("epoll", w.udp(loopback).Path().Kind)
	w.Equal(conf.RingAuto, w.engine.Settings().Ring)
}

func TestUnknownKind(t *testing.T) {
	s := conf.Default()
	s.Ring = "dpdk"
	_, err := xtreme.New(s)
	require.ErrorContains(t, err, "Ring")
	require.ErrorContains(t, err, "dpdk")
	require.ErrorContains(t, err, "auto, uring, epoll or offload")
}

// A child process forbids itself io_uring by a seccomp filter, as containers do: with EPERM, or as if the kernel had none.
func TestWithoutUring(t *testing.T) {
	if code := os.Getenv("XTREME_WITHOUT_URING"); code != "" {
		withoutUring(t, code)
		return
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the filter of this test is written for little-endian 64-bit machines")
	}
	for _, code := range []string{"EPERM", "ENOSYS"} {
		t.Run(code, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutUring$", "-test.v", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), "XTREME_WITHOUT_URING="+code)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			if strings.Contains(string(out), "--- SKIP") {
				t.Skipf("the child process: %s", out)
			}
			require.Contains(t, string(out), "PASS")
		})
	}
}

func withoutUring(t *testing.T, code string) {
	errno := map[string]uint32{"EPERM": uint32(unix.EPERM), "ENOSYS": uint32(unix.ENOSYS)}[code]
	const loadWord, jumpEqual, ret = 0x20, 0x15, 0x06
	filter := []unix.SockFilter{
		{Code: loadWord, K: 0}, // seccomp_data.nr
		{Code: jumpEqual, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// The filter is for every thread (TSYNC), and each must have given up privileges first; no_new_privs is copied with it.
	runtime.LockOSThread()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	if e == unix.ENOSYS || e == unix.EINVAL {
		testnet.Missing(t, "seccomp", e)
	}
	require.Zero(t, e)
	runtime.UnlockOSThread()

	w := newWorld(t, conf.RingAuto)
	u := w.udp(loopback)
	p := u.Path()
	w.Equal("epoll", p.Kind)
	var f *ring.FeatureError
	w.ErrorAs(uring.Probe(), &f)
	w.Contains([]string{uring.CodeNoPermission, uring.CodeKernel, uring.CodeDisabled}, f.Code)
	w.Equal([]string{"offload.not_asked", f.Code}, codes(p))
	w.write(w.peer(u.LocalAddr()), "works")
	w.Equal("works", w.text(u))

	forced := newEngine(t, conf.RingUring)
	for range 2 { // the refusal is not forgotten, and not turned into another
		_, err := forced.NewPoller("forced", xtreme.PollerConfig{})
		w.ErrorIs(err, xtreme.ErrNotSupported)
		w.ErrorIs(err, unix.Errno(errno))
		w.ErrorContains(err, "ring kind uring")
		w.Error(forced.Start())
	}
}

// Out of descriptors is no verdict on a kind of ring: with descriptors again the best is had.
func TestOutOfDescriptorsIsNotRemembered(t *testing.T) {
	e := newEngine(t, conf.RingAuto)
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}))
	_, err := e.NewPoller("starved", xtreme.PollerConfig{})
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	require.ErrorContains(t, err, unix.EMFILE.Error())

	p, err := e.NewPoller("fed", xtreme.PollerConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	want := "uring"
	if errors.Is(uring.Probe(), ring.ErrNotSupported) {
		want = "epoll"
	}
	require.Equal(t, want, p.Rings()[0].Kind())
}
