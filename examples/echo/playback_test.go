package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// sockperf's own client plays messages of all sizes back at the times that a file gives: each is answered, none twice, none out of order.
// What is on its way when it ends it counts as dropped: so the last message comes half a second after the others, and only it may be. More
// runs: scripts/sockperf.sh.
func TestSockperfPlayback(t *testing.T) {
	program, err := exec.LookPath("sockperf")
	if err != nil {
		testnet.Missing(t, "sockperf", err)
	}
	file := filepath.Join(t.TempDir(), "playback.csv")
	const messages = 300
	text := "# seconds, bytes\n"
	for i := 1; i < messages; i++ {
		at := i
		if i > 150 {
			at = i - i%10 // bursts
		}
		text += fmt.Sprintf("%.6f, %d\n", float64(at)*0.001+float64(i%10)*1e-6, 32+i*37%1400)
	}
	text += "0.8, 64\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		host, port, err := net.SplitHostPort(sockperfServer(t, kind))
		require.NoError(t, err)
		argv := []string{"playback", "--data-file", file, "--reply-every", "1", "-i", host, "-p", port}
		if kind == conf.RingEpoll { // sockperf takes some seconds for each
			argv = append(argv, "--tcp")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for attempt := 1; ; attempt++ { // a machine that stands still for half a second is given another
			out, err := exec.CommandContext(ctx, program, argv...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			for _, want := range []string{fmt.Sprintf("SentMessages=%d;", messages), "# duplicated messages = 0", "# out-of-order messages = 0"} {
				require.Contains(t, string(out), want)
			}
			var received int
			_, tail, _ := strings.Cut(string(out), "ReceivedMessages=")
			_, err = fmt.Sscan(tail, &received)
			require.NoError(t, err, "%s", out)
			if received >= messages-1 {
				break
			}
			require.Less(t, attempt, 4, "%s", out)
		}
	})
}
