package testnet

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// SlowVariable is how many times slower than usual this machine is: scripts/vm.sh measures it in an emulated machine and sets it for the tests.
const SlowVariable = "SOCKETXTREME_SLOW"

// slow is the value of SOCKETXTREME_SLOW, at least 1.
var slow = func() time.Duration {
	n, err := strconv.Atoi(os.Getenv(SlowVariable))
	if err != nil {
		return 1
	}
	return time.Duration(max(n, 1))
}()

// longest is the most that Slow makes of a shorter time: on no machine does what has not happened by then still happen.
const longest = 3 * time.Minute

// Slow returns a time that work of duration d on a usual machine takes on this one: a deadline for what must happen, or a bound of processor
// time.
func Slow(d time.Duration) time.Duration { return max(d, min(d*slow, longest)) }

// IsSlow reports whether this machine is slower than a usual one, as SOCKETXTREME_SLOW says.
func IsSlow() bool { return slow > 1 }

// SkipIfSlow skips a test that judges by times which a slow machine, an emulated one for instance, does not keep.
func SkipIfSlow(t testing.TB) {
	t.Helper()
	if IsSlow() {
		t.Skip("slow machine: its times say nothing")
	}
}
