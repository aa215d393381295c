package kernel

import (
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// NextReport takes one message off the socket's error queue (Documentation/networking/timestamping.rst of the kernel, 1.3 and 2.1).
func (t *Transport) NextReport(s *ring.Socket) (ring.SendReport, bool, syscall.Errno) {
	x, ok, e := t.reports.Next(FD(s))
	return ring.SendReport{ID: x.ID, Software: x.Software, Hardware: x.Hardware}, ok, e
}

// IsEarlierError: the errors that net/ipv4/icmp.c (icmp_err_convert) and net/ipv6/icmp.c (tab_unreach) make of the network's answers.
func (t *Transport) IsEarlierError(e syscall.Errno) bool {
	switch e {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ENOPROTOOPT, unix.EPROTO, unix.EHOSTDOWN, unix.ENONET, unix.EOPNOTSUPP,
		unix.EACCES:
		return true
	}
	return false
}

// CountsFailures reports whether a refused send uses up one of the kernel's numbers. It did before Linux 6.9 ("net-timestamp: make
// sk_tskey more predictable in error path").
func (t *Transport) CountsFailures() bool { return countsFailures() }

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
