package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// TestPostgres: pgx, with its pool.
func TestPostgres(t *testing.T) {
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.NoError(t, err)
	in := func(name string) (places []string) {
		for _, dir := range installed {
			places = append(places, filepath.Join(dir, name))
		}
		return append(places, name)
	}
	initdb, postgres := program(t, in("initdb")...), program(t, in("postgres")...)
	dir, err := os.MkdirTemp("", "pg") // the server's user must come there, and t.TempDir is in a folder of ours
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 { // the server refuses to be root's
		nobody, err := user.Lookup("nobody")
		require.NoError(t, err)
		uid, err := strconv.Atoi(nobody.Uid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, uid, -1))
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	command := func(name string, arg ...string) *exec.Cmd {
		c := exec.Command(name, arg...)
		c.SysProcAttr, c.Dir = as, dir
		c.Env = append(os.Environ(), "HOME="+dir, "LC_ALL=C")
		return c
	}
	data := filepath.Join(dir, "data")
	out, err := command(initdb, "-D", data, "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8").CombinedOutput()
	require.NoError(t, err, "%s", out)
	port := freePort(t)
	url := "postgres://test@" + net.JoinHostPort("127.0.0.1", port) + "/postgres?sslmode=disable"
	start(t, command(postgres, "-D", data, "-p", port, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"), func() bool {
		c, err := pgx.Connect(context.Background(), url)
		if err == nil {
			_ = c.Close(context.Background())
		}
		return err == nil
	})
	inEachWorld(t, workers, 0, func(t *testing.T, w world) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		config, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		config.MaxConns = workers
		config.ConnConfig.DialFunc = w.dial
		pool, err := pgxpool.NewWithConfig(ctx, config)
		require.NoError(t, err)
		defer pool.Close()
		fillPool(t, func() (func(), error) {
			c, err := pool.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return c.Release, nil
		})
		table := "t_" + w.name
		_, err = pool.Exec(ctx, "create table "+table+" (worker int, n int)")
		require.NoError(t, err)
		together(t, func(worker int) error {
			for i := range requests / 2 {
				if _, err := pool.Exec(ctx, "insert into "+table+" values ($1, $2)", worker, i); err != nil {
					return err
				}
				var sum int
				if err := pool.QueryRow(ctx, "select sum(n) from "+table+" where worker = $1", worker).Scan(&sum); err != nil {
					return err
				}
				if want := i * (i + 1) / 2; sum != want {
					return fmt.Errorf("sum %d, want %d", sum, want)
				}
			}
			return nil
		})
	})
}
