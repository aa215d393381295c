package interop

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestRedis: go-redis peeks at a pooled connection before each use (internal/pool/conn_check.go).
func TestRedis(t *testing.T) {
	host, port := "127.0.0.1", freePort(t)
	if own != nil {
		host = own.peer
	}
	address := net.JoinHostPort(host, port)
	start(t, exec.Command(program(t, "redis-server"), "--bind", host, "--port", port, "--save", "", "--appendonly", "no",
		"--protected-mode", "no", "--dir", t.TempDir()), func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	inEachWorld(t, workers, 0, func(t *testing.T, w world) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		client := redis.NewClient(&redis.Options{Addr: address, PoolSize: workers, Dialer: w.dial})
		defer client.Close()
		work := func() {
			together(t, func(worker int) error {
				for i := range requests {
					key, value := fmt.Sprint(w.name, worker), fmt.Sprint(i)
					if err := client.Set(ctx, key, value, 0).Err(); err != nil {
						return err
					}
					if got, err := client.Get(ctx, key).Result(); err != nil || got != value {
						return fmt.Errorf("get %s: %q, %w", key, got, err)
					}
				}
				return nil
			})
		}
		fillPool(t, func() (func(), error) {
			c := client.Conn()
			return func() { _ = c.Close() }, c.Ping(ctx).Err()
		})
		work()
		require.EqualValues(t, workers, w.dials.Load())

		// The server closes every connection: they are found dead, and dialled again once.
		before := w.dials.Load()
		admin := redis.NewClient(&redis.Options{Addr: address})
		defer admin.Close()
		require.NoError(t, admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
		work()
		require.Greater(t, w.dials.Load(), before, "the dead connections were found")
		require.LessOrEqual(t, w.dials.Load()-before, int64(workers))
		w.dials.Store(before) // what was dialled again does not count
	})
}
