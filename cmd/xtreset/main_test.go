package main

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
)

func command(ctx context.Context, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(ctx, args, &o, &e)
	return code, o.String(), e.String()
}

// A process leaves a connection whose peer has none: the command says so, once and as a watcher.
func TestReset(t *testing.T) {
	if dir := os.Getenv("XTRESET_TEST_VICTIM"); dir != "" {
		r, err := flowrecord.Create(flowrecord.Config{Dir: dir})
		require.NoError(t, err)
		_, err = r.Add(netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:5000"), 7)
		require.NoError(t, err)
		os.Exit(0) // without Close: as if it had crashed
	}
	testnet.New(t, testnet.Pair{})
	for _, args := range [][]string{nil, {"-watch"}} {
		dir := t.TempDir()
		victim := exec.Command(os.Args[0], "-test.run=^TestReset$")
		victim.Env = append(os.Environ(), "XTRESET_TEST_VICTIM="+dir)
		require.NoError(t, victim.Run())
		ctx, stop := context.WithCancel(context.Background())
		go func() {
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if left, _ := os.ReadDir(dir); len(left) == 0 {
					break
				}
			}
			stop()
		}()
		code, out, errs := command(ctx, append([]string{"-dir", dir}, args...)...)
		require.Empty(t, errs)
		require.Zero(t, code)
		require.Regexp(t, `^process \d+: 1 connections, 1 reset, 0 unanswered\n$`, out)
	}
}

func TestWrong(t *testing.T) {
	code, _, errs := command(context.Background(), "now")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "xtreset: now: no arguments but flags")
	code, _, errs = command(context.Background(), "-no")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "-no")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1-1.flows"), []byte("x"), 0o600))
	code, _, errs = command(context.Background(), "-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "left as it is: 1 bytes: not a record")
	code, out, errs := command(context.Background(), "-dir", filepath.Join(dir, "none"))
	require.Zero(t, code)
	require.Empty(t, out+errs)
}

// Who asks for help learns what the command does and what it needs.
func TestHelp(t *testing.T) {
	code, out, errs := command(context.Background(), "-h")
	require.Zero(t, code)
	require.Empty(t, errs)
	for _, want := range []string{"resets the peers of processes that have crashed", "CAP_NET_RAW", "network namespace", "-watch", "-dir"} {
		require.Contains(t, out, want)
	}
}

// A user who may not read the records learns who may.
func TestNotPermitted(t *testing.T) {
	if os.Getuid() != 0 {
		testnet.Missing(t, "root", "records of another user are to be read")
	}
	dir := t.TempDir()
	r, err := flowrecord.Create(flowrecord.Config{Dir: filepath.Join(dir, "flows")})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	for _, mode := range []os.FileMode{0o700, 0o755} { // the directory cannot be read, or a record in it
		require.NoError(t, os.Chmod(filepath.Join(dir, "flows"), mode))
		done := make(chan struct{})
		go func() { // the thread ends with the goroutine
			defer close(done)
			runtime.LockOSThread()
			if err := unix.Setfsuid(65534); err != nil {
				t.Errorf("setfsuid: %v", err)
				return
			}
			code, _, errs := command(context.Background(), "-dir", filepath.Join(dir, "flows"))
			if code != 1 {
				t.Errorf("status %d", code)
			}
			for _, want := range []string{"permission denied", "or as root", "as the user of the process that has ended"} {
				if !bytes.Contains([]byte(errs), []byte(want)) {
					t.Errorf("%q is missing: %s", want, errs)
				}
			}
		}()
		<-done
	}
}
