package flowrecord

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrFull: the record has no room for one more connection.
var ErrFull = errors.New("flowrecord: the record is full")

// ErrFlow: not a connection over IPv4.
var ErrFlow = errors.New("flowrecord: not a connection over IPv4")

// Config says where records are. The zero value is good.
type Config struct {
	Dir   string // "/run/socketxtreme/flows"
	Flows int    // of Create: the most connections, 65,536
}

// defaults replaces zero values by those that the fields name.
func (c *Config) defaults() {
	if c.Dir == "" {
		c.Dir = "/run/socketxtreme/flows"
	}
	if c.Flows == 0 {
		c.Flows = 1 << 16
	}
}

const maxFlows = 1 << 24

// Slot is a connection's place in a record.
type Slot uint32

// slot is a connection as it lies in the file. It is there if ports is not zero, which is written last and cleared first.
type slot struct {
	local, remote [4]byte
	ports         uint32 // local port, remote port
	next          uint32 // SND.NXT
}

const (
	magic       = "XTFLOWS1"
	headerBytes = 64
	slotBytes   = 16

	newPrefix = ".new-"
	suffix    = ".flows"
)

// header is at the start of the file.
type header struct {
	magic    [8]byte
	capacity uint32
	pid      uint32
	netns    uint64 // inode of the network namespace
	handle   namespaceHandle
}

// Record is the connections of one ring. It belongs to one goroutine.
type Record struct {
	file  *os.File // holds the lock
	path  string
	bytes []byte
	slots []slot
	free  []Slot
	used  Slot // those from here on were never used
}

var created atomic.Uint32 // numbers the records of a process

// Create makes a record and holds it until Close or the end of the process. It makes system calls: it is for the start of a ring.
func Create(c Config) (_ *Record, err error) {
	c.defaults()
	if c.Flows < 1 || c.Flows > maxFlows {
		return nil, fmt.Errorf("flowrecord: Flows is %d, must be 1 to %d", c.Flows, maxFlows)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("flowrecord: %w", err)
	}
	name := fmt.Sprintf("%d-%d", os.Getpid(), created.Add(1))
	early := filepath.Join(c.Dir, newPrefix+name)
	r := &Record{path: filepath.Join(c.Dir, name+suffix)}
	if r.file, err = os.OpenFile(early, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600); err != nil {
		return nil, fmt.Errorf("flowrecord: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(early)
			_ = r.Close()
		}
	}()
	fd := int(r.file.Fd())
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("flowrecord: locking %s: %w", early, err)
	}
	size := headerBytes + c.Flows*slotBytes
	if err := unix.Fallocate(fd, 0, 0, int64(size)); err != nil {
		return nil, fmt.Errorf("flowrecord: %d bytes for %s: %w", size, early, err)
	}
	if r.bytes, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("flowrecord: mapping %s: %w", early, err)
	}
	ns, err := namespace()
	if err != nil {
		return nil, err
	}
	h, slots := layout(r.bytes)
	*h = header{capacity: uint32(c.Flows), pid: uint32(os.Getpid()), netns: ns, handle: currentNamespace()}
	copy(h.magic[:], magic)
	r.slots = slots
	// The file has its name only once it is locked: a reader never finds one that looks as if its process were gone.
	if err := os.Rename(early, r.path); err != nil {
		return nil, fmt.Errorf("flowrecord: %w", err)
	}
	return r, nil
}

// namespace is the inode of the calling thread's network namespace.
func namespace() (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return 0, fmt.Errorf("flowrecord: the network namespace: %w", err)
	}
	return st.Ino, nil
}

// Add writes a connection down, with the sequence number that it sends next. Errors: ErrFull, ErrFlow.
func (r *Record) Add(local, remote netip.AddrPort, next uint32) (Slot, error) {
	if !local.Addr().Unmap().Is4() || !remote.Addr().Unmap().Is4() || local.Port() == 0 || remote.Port() == 0 {
		return 0, fmt.Errorf("%w: %v to %v", ErrFlow, local, remote)
	}
	var at Slot
	switch n := len(r.free); {
	case n > 0:
		at, r.free = r.free[n-1], r.free[:n-1]
	case int(r.used) < len(r.slots):
		at = r.used
		r.used++
	default:
		return 0, fmt.Errorf("%w (%d connections)", ErrFull, len(r.slots))
	}
	s := &r.slots[at]
	s.local, s.remote, s.next = local.Addr().As4(), remote.Addr().As4(), next
	s.ports = uint32(local.Port())<<16 | uint32(remote.Port())
	return at, nil
}

// Advance notes which sequence number a connection sends next. It is one store.
func (r *Record) Advance(at Slot, next uint32) { r.slots[at].next = next }

// Remove forgets a connection. Its slot is given out again.
func (r *Record) Remove(at Slot) {
	r.slots[at].ports = 0
	r.free = append(r.free, at)
}

// Len is how many connections are written down.
func (r *Record) Len() int { return int(r.used) - len(r.free) }

// Close removes the record: the connections have ended in order.
func (r *Record) Close() error {
	if r.file == nil {
		return os.ErrClosed
	}
	var err error
	if r.slots != nil {
		err = os.Remove(r.path) // before the lock goes: a reader that waits for it finds a file without a name
	}
	if r.bytes != nil {
		err = errors.Join(err, unix.Munmap(r.bytes))
	}
	err = errors.Join(err, r.file.Close())
	r.file, r.slots, r.bytes = nil, nil, nil
	return err
}

func isRecord(name string) bool {
	return strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".")
}
