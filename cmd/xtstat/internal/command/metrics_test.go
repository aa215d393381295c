package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// freePort is a TCP port that was free a moment ago.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// get is what a server on loopback answers.
func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second}
	answer, err := client.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", text)
	return string(text)
}

// A process's counters come by HTTP, also while the process is stopped; the server ends with it.
func TestMetricsOfAProcess(t *testing.T) {
	p := startEcho(t, "epoll")
	port := freePort(t)
	ended := make(chan int, 1)
	go func() {
		ended <- Run([]string{"metrics", "-k", p.dir, "--listen", fmt.Sprintf("127.0.0.1:%d", port)}, io.Discard, io.Discard)
	}()
	address := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	require.Eventually(t, func() bool {
		answer, err := http.Get(address)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	}, 20*time.Second, 20*time.Millisecond)
	require.Contains(t, get(t, address), "socketxtreme_process_up 1\n")
	require.NoError(t, p.command.Process.Signal(syscall.SIGSTOP))
	require.Contains(t, get(t, address), "socketxtreme_ring_polls_total ")
	p.kill()
	require.Equal(t, exitGood, <-ended)
}

// Debian's Prometheus scrapes it, and every query of the dashboard returns data.
func TestPrometheusAndTheDashboard(t *testing.T) {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		testnet.Missing(t, "prometheus", err)
	}
	p := startEcho(t, "epoll")
	dir := t.TempDir()
	port, own := freePort(t), freePort(t)
	go Run([]string{"metrics", "-k", p.dir, "--listen", fmt.Sprintf("127.0.0.1:%d", port)}, io.Discard, io.Discard)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: sx\n  static_configs:\n"+
		"  - targets: ['127.0.0.1:%d']\n", port), 0o600))
	cmd := exec.Command(prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		fmt.Sprintf("--web.listen-address=127.0.0.1:%d", own), "--storage.tsdb.retention.time=1h", "--log.level=error")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	query := func(expression string) (values []string) {
		client := http.Client{Timeout: 20 * time.Second}
		answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/api/v1/query?query=%s", own, url.QueryEscape(expression)))
		if err != nil {
			return nil // it is starting
		}
		defer answer.Body.Close()
		var result struct {
			Status string
			Error  string
			Data   struct {
				Result []struct{ Value []any }
			}
		}
		if answer.StatusCode == http.StatusServiceUnavailable {
			return nil // it is starting still
		}
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&result))
		if result.Status != "success" {
			require.NotContains(t, result.Error, "parse error", expression)
			return nil
		}
		for _, r := range result.Data.Result {
			values = append(values, fmt.Sprint(r.Value[1]))
		}
		return values
	}
	text, err := os.ReadFile("../../../../stats/metrics/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.GreaterOrEqual(t, len(dashboard.Panels), 8)
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			expression := strings.NewReplacer("$__rate_interval", "5s", "$instance", ".*").Replace(target.Expr)
			require.Eventually(t, func() bool { return len(query(expression)) > 0 }, 60*time.Second, 200*time.Millisecond, "%s: %s", panel.Title, expression)
		}
	}
	p.send(50)
	require.Eventually(t, func() bool {
		v := query("socketxtreme_ring_packets_total")
		return len(v) == 1 && v[0] == "50"
	}, 60*time.Second, 200*time.Millisecond, "the sender's count")
}
