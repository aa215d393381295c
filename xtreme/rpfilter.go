package xtreme

import (
	"fmt"
	"os"
	"strings"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// reversePathFilter returns a reason for the paths of an offloaded interface if the kernel has a strict reverse path filter there (rp_filter 1,
// RFC 3704): it drops datagrams whose source has no route by the interface, and our stack does not. As in the kernel (IN_DEV_RPFILTER) the
// larger of the interface's value and that of "all" holds. It reads the files of the calling thread's network namespace.
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
