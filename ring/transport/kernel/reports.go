package kernel

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// NextReport takes one message off the socket's error queue (Documentation/networking/timestamping.rst of the kernel, 1.3 and 2.1).
func (t *Transport) NextReport(s *ring.Socket) (ring.SendReport, bool, syscall.Errno) {
	x, ok, e := t.reports.Next(FD(s))
	return ring.SendReport{ID: x.ID, Software: x.Software, Hardware: x.Hardware}, ok, e
}

// IsEarlierError: the errors that net/ipv4/icmp.c (icmp_err_convert) and net/ipv6/icmp.c (tab_unreach) make of the network's answers, and that
// of an answer with a smaller MTU (net/ipv4/udp.c, net/ipv6/udp.c), which is also that of a datagram that is too long itself.
func (t *Transport) IsEarlierError(e syscall.Errno) bool {
	switch e {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ENOPROTOOPT, unix.EPROTO, unix.EHOSTDOWN, unix.ENONET, unix.EOPNOTSUPP,
		unix.EACCES, unix.EMSGSIZE:
		return true
	}
	return false
}

// CountsFailures reports whether a refused send uses up one of the numbers by which the kernel reports sends. It did before Linux 6.9
// ("net-timestamp: make sk_tskey more predictable in error path").
func (t *Transport) CountsFailures() bool { return countsFailures() }

var countsFailures = sync.OnceValue(func() bool {
	since69, _ := sys.ReleaseAtLeast(sys.KernelRelease(), 6, 9) // a release that cannot be read counts as an old one
	return !since69
})
