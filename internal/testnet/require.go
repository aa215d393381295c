package testnet

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// RequireVariable lists, with commas, what tests must find here: "uring", "epoll", "namespaces". A test that misses one of these fails
// instead of skipping. CI sets it where it runs as root.
const RequireVariable = "SOCKETXTREME_TEST_REQUIRE"

// Missing skips a test because something that it needs is missing, with the reason. If SOCKETXTREME_TEST_REQUIRE names it, the test fails
// instead.
func Missing(t testing.TB, what string, why any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(RequireVariable), ","), what) {
		t.Fatalf("missing, and %s insists on it: %s: %v", RequireVariable, what, why)
	}
	t.Skipf("missing: %s: %v", what, why)
}
