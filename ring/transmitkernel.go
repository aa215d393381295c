package ring

import (
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// countsFailures tells whether a refused send uses up one of the kernel's numbers. It did before Linux 6.9 ("net-timestamp: make
// sk_tskey more predictable in error path").
var countsFailures = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return true
	}
	return olderThan(unix.ByteSliceToString(u.Release[:]), 6, 9)
})

// olderThan compares a kernel's release, such as "6.1.0-13-amd64"; one that cannot be read is old.
func olderThan(release string, major, minor int) bool {
	fields := strings.FieldsFunc(release, func(c rune) bool { return c < '0' || c > '9' })
	if len(fields) < 2 {
		return true
	}
	a, err1 := strconv.Atoi(fields[0])
	b, err2 := strconv.Atoi(fields[1])
	return err1 != nil || err2 != nil || a < major || a == major && b < minor
}
