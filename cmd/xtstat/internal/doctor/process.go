package doctor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/socketxtreme/socketxtreme/conf"
	curing "github.com/socketxtreme/socketxtreme/internal/cure"
)

// kernelVersion: 5.9 is what AF_XDP rings need, 6.1 what io_uring rings do.
func kernelVersion(s *System) []Result {
	release, err := s.read("proc/sys/kernel/osrelease")
	if err != nil {
		return unknown(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return unknown(fmt.Errorf("release %q: %w", release, err))
	}
	switch v := major*1000 + minor; {
	case v < 5009:
		return cure("upgrade to Linux 6.1 or newer", "Linux %s: offloaded rings need 5.9 (xdp.no_kernel)", release)
	case v < 6001:
		return cure("upgrade to Linux 6.1 or newer", "Linux %s: io_uring rings need 6.1; TCP is on epoll rings", release)
	}
	return good("Linux %s", release)
}

// The capabilities that offloaded rings need, by their bits.
var needed = []struct {
	bit  int
	name string
}{{13, "CAP_NET_RAW"}, {12, "CAP_NET_ADMIN"}, {39, "CAP_BPF"}}

const capSysAdmin = 21 // has what CAP_BPF allows

// capabilities are those of the caller: a program that it starts has them too, unless files or services say otherwise.
func capabilities(s *System) []Result {
	text, err := field(s, "proc/self/status", "CapEff:")
	if err != nil {
		return unknown(err)
	}
	has, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return unknown(err)
	}
	var missing []string
	for _, c := range needed {
		if has>>c.bit&1 == 0 && !(c.name == "CAP_BPF" && has>>capSysAdmin&1 == 1) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		return cure(curing.Command("xdp.no_capability", curing.Place{}), "%s missing: sockets are not offloaded (xdp.no_capability)", strings.Join(missing, ", "))
	}
	return good("CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF")
}

// unprivilegedBPF concerns a program with capabilities not at all; 0 lets every user load programs.
func unprivilegedBPF(s *System) []Result {
	n, err := s.number(sysctl("kernel.unprivileged_bpf_disabled"))
	switch {
	case err != nil:
		return unknown(err)
	case n == 0:
		return cure("sysctl -w kernel.unprivileged_bpf_disabled=2", "kernel.unprivileged_bpf_disabled = 0: every user may load BPF programs, which offloaded rings do not need")
	}
	return good("kernel.unprivileged_bpf_disabled = %d: offloaded rings need CAP_BPF", n)
}

// ioUring is off for all, or for those without CAP_SYS_ADMIN or a group, where this setting says so.
func ioUring(s *System) []Result {
	n, err := s.number(sysctl("kernel.io_uring_disabled"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // before Linux 6.6
		return good("no setting disables io_uring")
	case err != nil:
		return unknown(err)
	case n == 0:
		return good("kernel.io_uring_disabled = 0")
	}
	return cure(curing.Command("uring.disabled", curing.Place{}), "kernel.io_uring_disabled = %d: kernel rings are epoll's where it is refused (uring.disabled)", n)
}

// lockedMemory is what the buffers of offloaded rings and the rings of io_uring count against, without CAP_IPC_LOCK.
func lockedMemory(s *System) []Result {
	const least = 64 << 20
	if text, err := field(s, "proc/self/status", "CapEff:"); err == nil {
		if has, err := strconv.ParseUint(text, 16, 64); err == nil && has>>14&1 == 1 {
			return good("CAP_IPC_LOCK: no limit")
		}
	}
	n, text, err := limit(s, "Max locked memory")
	switch {
	case err != nil:
		return unknown(err)
	case n >= 0 && n < least:
		return cure(curing.Command("xdp.memlock", curing.Place{}), "locked memory is limited to %s bytes: buffers of offloaded rings are %d MiB and more (xdp.memlock)", text, least>>20)
	}
	return good("locked memory: %s", text)
}

// openFiles is one for each socket, and more for groups and interfaces.
func openFiles(s *System) []Result {
	n, text, err := limit(s, "Max open files")
	switch {
	case err != nil:
		return unknown(err)
	case n >= 0 && n < 4096:
		return cure("ulimit -n 65536", "open files are limited to %s: each socket takes one, each 20 groups one more", text)
	}
	return good("open files: %s", text)
}

// hugePages are what zero-copy needs, and what saves misses of the processor's page cache.
func hugePages(s *System) []Result {
	total, err := field(s, "proc/meminfo", "HugePages_Total:")
	if err != nil {
		return unknown(err)
	}
	free, err := field(s, "proc/meminfo", "HugePages_Free:")
	if err != nil {
		return unknown(err)
	}
	size, err := field(s, "proc/meminfo", "Hugepagesize:")
	if err != nil {
		return unknown(err)
	}
	if free == "0" {
		return cure(curing.Command("region.no_hugepages", curing.Place{}), "%s huge pages of %s, %s free: buffers lie in small pages, and zero-copy is not tried", total, size, free)
	}
	return good("%s huge pages of %s, %s free", total, size, free)
}

// logLevel is that of the environment: what programs started from here get.
func logLevel(s *System) []Result {
	level := s.Getenv("VMA_TRACELEVEL")
	if l, err := conf.ParseLogLevel(level); err == nil && l.Includes(conf.LogDebug) { // programs leave a word out that is none of the levels
		return cure(curing.Command(curing.LogLevel, curing.Place{}), "VMA_TRACELEVEL=%s: a high log level makes programs slower", level)
	}
	if s.Getenv("SX_BUFFER_DEBUG") == "1" {
		return cure("unset SX_BUFFER_DEBUG", "SX_BUFFER_DEBUG=1: each buffer's holder is recorded, which is slow")
	}
	return good("the environment asks for no details")
}

// field is what stands behind a name at the beginning of a line.
func field(s *System, path, name string) (string, error) {
	text, err := s.read(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("/%s has no %s", path, name)
}

// limit is the soft limit of a name; -1: none.
func limit(s *System, name string) (int, string, error) {
	text, err := s.read("proc/self/limits")
	if err != nil {
		return 0, "", err
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		if fields[0] == "unlimited" {
			return -1, fields[0], nil
		}
		n, err := strconv.Atoi(fields[0])
		return n, fields[0], err
	}
	return 0, "", fmt.Errorf("/proc/self/limits has no %s", name)
}
