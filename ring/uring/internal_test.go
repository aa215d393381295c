package uring

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		errno             unix.Errno
		release, disabled string
		code, text        string
	}{
		{unix.EPERM, "6.18.44", "2\n", CodeDisabled, "kernel.io_uring_disabled = 2"},
		{unix.EPERM, "6.18.44", "1\n", CodeDisabled, "kernel.io_uring_disabled = 1"},
		{unix.EPERM, "6.18.44", "0\n", CodeNoPermission, "seccomp"},
		{unix.EPERM, "6.1.0", "", CodeNoPermission, "seccomp"},
		{unix.ENOSYS, "6.18.44", "0\n", CodeNoPermission, "hidden by a seccomp filter"},
		{unix.ENOSYS, "4.19.1", "", CodeKernel, "io_uring on Linux 4.19.1 (since Linux 6.1)"},
		{unix.EINVAL, "5.15.0-generic", "", CodeKernel, "IORING_SETUP_DEFER_TASKRUN) on Linux 5.15.0-generic (since Linux 6.1)"},
		{unix.ENOMEM, "6.18.44", "0", CodeMemlock, "RLIMIT_MEMLOCK"},
	} {
		err := explain(os.NewSyscallError("io_uring_setup", c.errno), c.release, c.disabled)
		var f *ring.FeatureError
		require.ErrorAs(t, err, &f)
		require.Equal(t, c.code, f.Code)
		require.ErrorContains(t, err, c.text)
		require.ErrorIs(t, err, c.errno)
		require.ErrorIs(t, err, ring.ErrNotSupported)
	}
	err := explain(os.NewSyscallError("io_uring_setup", unix.EMFILE), "6.18", "0")
	require.ErrorIs(t, err, unix.EMFILE)
	require.NotErrorIs(t, err, ring.ErrNotSupported, "out of descriptors says nothing about io_uring")
}

func TestMissingOperationIsNamed(t *testing.T) {
	u, err := newUring(minEntries)
	require.NoError(t, err)
	defer u.Close()
	require.NoError(t, check(u))
	missing, e := u.Supports(sys.UringOpRecv, 254)
	require.Zero(t, e)
	require.Equal(t, []uint8{254}, missing)
}

func TestEntered(t *testing.T) {
	for _, e := range []unix.Errno{0, unix.EINTR, unix.ETIME, unix.EAGAIN, unix.EBUSY} {
		require.NoError(t, enterError(e))
	}
	require.ErrorIs(t, enterError(unix.EEXIST), ErrThread)
	require.ErrorIs(t, enterError(unix.EBADFD), unix.EBADFD)
}
