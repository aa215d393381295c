package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// curl and wrk on the kernel's side, against net/http over our own TCP, which is there by settings alone.
func TestProgramsToOwnTCP(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *testnet.Net, string){
		"curl": func(t *testing.T, n *testnet.Net, url string) {
			for _, version := range []string{"--http1.1", "--http2"} {
				for _, size := range []int{0, 1, 100_000, 20_000_000} {
					said := n.RunInPeer(t, "curl", "-sk", version, "-o", "/dev/null", "-w", "%{http_code} %{size_download}", fmt.Sprintf("%s/bytes/%d", url, size))
					require.Equal(t, fmt.Sprintf("200 %d", size), said)
				}
			}
		},
		"wrk": func(t *testing.T, n *testnet.Net, url string) {
			said := n.RunInPeer(t, "wrk", "-t1", "-c20", "-d1", "--timeout", "20", url+"/bytes/1000")
			require.Contains(t, said, "Requests/sec")
			require.NotContains(t, said, "Socket errors", said)
			require.NotContains(t, said, "Non-2xx", said)
		},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.NeedProgram(t, name)
			n := testnet.New(t, testnet.Pair{})
			at := n.Local(0).String() + ":8443"
			stop := n.OwnTCP(t, asProgram, "bypass xdp v0/0", "-listen", at)
			run(t, n, "https://"+at)
			require.NotContains(t, stop(), "panic")
		})
	}
}
