package sys

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// KernelRelease is the running kernel's release as uname(2) has it, such as "6.1.0-13-amd64"; "unknown" if the call fails.
func KernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// ReleaseAtLeast reports whether a kernel release is version major.minor or a later one. ok is false, and atLeast too, for a release that
// does not begin with two numbers: each caller decides which of its two cases does less harm then.
func ReleaseAtLeast(release string, major, minor int) (atLeast, ok bool) {
	fields := strings.FieldsFunc(release, func(c rune) bool { return c < '0' || c > '9' })
	if len(fields) < 2 {
		return false, false
	}
	a, err1 := strconv.Atoi(fields[0])
	b, err2 := strconv.Atoi(fields[1])
	if err1 != nil || err2 != nil {
		return false, false
	}
	return a > major || a == major && b >= minor, true
}
