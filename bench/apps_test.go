package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

// One point of each application and the datagrams, on every server there is for them.
func TestQuickRunOfTheApps(t *testing.T) {
	needGCC(t)
	file := filepath.Join(t.TempDir(), "out.json")
	code, stdout, stderr := run(t, "-quick", "-json", file, "-run", "^echo-1-64B/|^echo-100-1024B-x16/|^resp-1-1024B-x16/|^resp-100-64B/|^udp-echo-100/")
	require.Zero(t, code, "%s\n%s", stdout, stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report harness.Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Rows, 4*16+8)
	for _, row := range report.Rows {
		if row.Status == harness.NotRun {
			require.Contains(t, row.Name, "uring", row.Reason) // the one kind of ring that a machine may refuse
			continue
		}
		require.Equal(t, harness.Measured, row.Status, row.Name)
		require.Positive(t, row.Ours.P99, row.Name)
		require.Positive(t, row.Ours.MedianWindowRate, row.Name)
		require.Positive(t, row.Ours.PeakRSSBytes, row.Name)
		if row.Name == "udp-echo-100/mallocs/swap-epoll/gnet" {
			require.Greater(t, row.Peer.Value, 1.0, "gnet makes a connection of each datagram")
		}
	}
}

// A stream in which one byte is wrong, missing or too many fails the row, as do commands that are answered wrongly.
func TestSpoiledStreamsAreNoticed(t *testing.T) {
	needGCC(t)
	for name, want := range map[string]string{
		"tcp-corrupting": "a wrong answer",
		"tcp-swallowing": "no answer within",
		"tcp-adding":     "bytes", // too many, or that nobody asked for
		"tcp-closing":    "the server closed connection",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // one of them waits for seconds
			code, stdout, stderr := run(t, "-quick", "-ours", name, "-run", "^echo-1-1024B-x16/rate/.*/net$")
			require.Equal(t, 1, code, "%s\n%s", stdout, stderr)
			require.Contains(t, stderr, want)
		})
	}
	code, stdout, stderr := run(t, "-quick", "-ours", "tcp-answering", "-run", "^resp-1-64B/rate/.*/net$")
	require.Equal(t, 1, code, "%s\n%s", stdout, stderr)
	require.Contains(t, stderr, "a wrong answer")
}

// A command that comes in pieces is answered once, by every server that speaks the protocol.
func TestRESPInPieces(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"swap-epoll", "gnet", "net", "netpoll"} {
		s, err := registry.Find(name)
		require.NoError(t, err)
		p, err := harness.StartServer(s, s.ServerCommand(harness.Programs{Self: self}, workload(t, "resp-1-64B")), harness.Place{CPU: -1}, 1)
		require.NoError(t, err, name)
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.Port))
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		large := strings.Repeat("v", 100_000)
		for _, piece := range []string{"*3\r\n$3\r\nSE", "T\r\n$1\r\nk\r\n$100000\r\n", large[:50_000], large[50_000:] + "\r\n*2\r\n$3\r\nGET\r\n$1\r", "\nk\r\n"} {
			_, err := c.Write([]byte(piece))
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		want := "+OK\r\n$100000\r\n" + large + "\r\n"
		got := make([]byte, len(want))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err, name)
		require.True(t, want == string(got), "%s answers %.60q", name, got)
		_, err = c.Write([]byte("QUIT\r\n"))
		require.NoError(t, err)
		rest, err := io.ReadAll(c)
		require.NoError(t, err, name)
		require.Equal(t, "+OK\r\n", string(rest), name)
		require.NoError(t, c.Close())
		require.NoError(t, p.Stop(), name)
		require.True(t, p.HasMallocs, name)
	}
}
