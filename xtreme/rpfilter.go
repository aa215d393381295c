package xtreme

import (
	"fmt"
	"os"
	"strings"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// reversePathFilter is the reason for an interface whose datagrams the kernel drops when their source has no route by it (rp_filter 1, of
// RFC 3704): the stack asks no route for what it receives. Of the interface's value and that of all, the larger one holds
// (IN_DEV_RPFILTER). In the calling thread's network namespace.
func reversePathFilter(name string) []link.Reason {
	const dir = "/proc/sys/net/ipv4/conf/"
	most := ""
	for _, of := range []string{"all", name} {
		b, err := os.ReadFile(dir + of + "/rp_filter")
		if err == nil {
			most = max(most, strings.TrimSpace(string(b)))
		}
	}
	if most != "1" { // 2 is loose: some route is enough
		return nil
	}
	return []link.Reason{{Code: "ip.rp_filter", Text: fmt.Sprintf(
		"%s has a strict reverse path filter (rp_filter): what is redirected passes by it, and comes from any source", name)}}
}
