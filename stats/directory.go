package stats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	filePrefix = "sxstat."
	keepDead   = 8 // files of processes that have ended

	draftSuffix = ".new" // of a file that is being made
	draftAge    = time.Minute
)

// DefaultDirectory is where the files of this user's processes are: /run/socketxtreme for root, else in $XDG_RUNTIME_DIR, or in the directory
// for temporary files ($TMPDIR, else /tmp), with the user's number.
func DefaultDirectory() string {
	if os.Geteuid() == 0 {
		return "/run/socketxtreme"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "socketxtreme")
	}
	return filepath.Join(os.TempDir(), "socketxtreme-"+strconv.Itoa(os.Geteuid()))
}

// groupNumber is the number of a group, by its name or number; -1 for an empty name.
func groupNumber(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < math.MaxUint32 { // which chown(2) takes for none
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// makeDirectory makes the directory, for its owner alone or for a group to read (-1: none). One that is there already must not be a symbolic
// link, and must belong to this user, or to root with the sticky bit, as /tmp: then others can neither remove nor replace files in it.
func makeDirectory(path string, group int) error {
	mode := os.FileMode(0o700)
	if group >= 0 {
		mode = 0o750
	}
	err := os.Mkdir(path, 0o700) // its own group is not to read there
	switch {
	case err == nil:
		if group >= 0 {
			err = os.Chown(path, -1, group)
		}
		if err == nil {
			err = os.Chmod(path, mode) // whatever the umask is
		}
		if err != nil {
			return errors.Join(err, os.Remove(path))
		}
		return nil
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no directory: %w", path, unix.ENOTDIR)
	case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("%s is writable for others, who could replace files in it: %w", path, unix.EPERM)
	case int(owner) != os.Geteuid() && (owner != 0 || info.Mode()&fs.ModeSticky == 0): // a directory's owner is not bound by its sticky bit
		return fmt.Errorf("%s belongs to user %d: %w", path, owner, unix.EPERM)
	case group >= 0:
		return letGroupIn(path, info, group)
	}
	return nil
}

// hasStatisticsOnly is an error for a directory that has other files than those of statistics. DefaultDirectory is the library's own, whatever
// it has.
func hasStatisticsOnly(path string) error {
	if path == DefaultDirectory() {
		return nil
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), filePrefix) {
			return fmt.Errorf("%s has other files than statistics, such as %s: it is not opened for a group: %w", path, e.Name(), unix.EPERM)
		}
	}
	return nil
}

// letGroupIn makes sure that the members of a group may enter and list a directory that is there already. One that was for its owner alone is
// opened for the group, if it has statistics only; the sticky bit stays. One that is open to another group stays as it is, which is an error.
func letGroupIn(path string, info fs.FileInfo, group int) error {
	stat, mode := info.Sys().(*syscall.Stat_t), info.Mode()
	isGroups := int(stat.Gid) == group
	bits := os.FileMode(0o005) // the kernel looks at the bits of the group for its members, for all others at the last ones
	if isGroups {
		bits = 0o050
	}
	switch {
	case mode&bits == bits:
		return nil
	case int(stat.Uid) == os.Geteuid() && (isGroups || mode&0o070 == 0):
		if err := hasStatisticsOnly(path); err != nil {
			return err
		}
		if err := os.Chown(path, -1, group); err != nil {
			return err
		}
		return os.Chmod(path, mode&(fs.ModePerm|fs.ModeSticky|fs.ModeSetgid)|0o050)
	}
	return fmt.Errorf("%s is closed to group %d, which is to read there: %w", path, group, unix.EPERM)
}

// Entry is a file of a process.
type Entry struct {
	Path    string
	Process int   // id, in the process's own namespace
	Made    int64 // wall-clock nanoseconds
	Live    bool
}

// List finds the files in a directory, the newest first. A directory that is not there has none.
func List(directory string) ([]Entry, error) {
	names, err := os.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, n := range names {
		e, ok := parseName(n.Name())
		if !ok || !n.Type().IsRegular() {
			continue
		}
		e.Path = filepath.Join(directory, n.Name())
		if e.Live, err = isLive(e.Path); err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue // removed meanwhile, or of another user
			}
			return nil, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(b.Made, a.Made) })
	return list, nil
}

func fileName(process int, made int64) string {
	return filePrefix + strconv.Itoa(process) + "." + strconv.FormatInt(made, 10)
}

// parseName reads process and time of a file's name; false: the name is not one of fileName.
func parseName(name string) (Entry, bool) {
	rest, ok := strings.CutPrefix(name, filePrefix)
	process, made, found := strings.Cut(rest, ".")
	if !ok || !found {
		return Entry{}, false
	}
	p, err := strconv.Atoi(process)
	m, err2 := strconv.ParseInt(made, 10, 64)
	return Entry{Process: p, Made: m}, err == nil && err2 == nil
}

// isLive reports whether the writer of a file holds its lock, and so runs. It opens the file, and takes no lock itself: several readers may ask
// at the same time.
func isLive(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return isLocked(f)
}

// isLocked asks the kernel whether another open file has a write lock on f.
func isLocked(f *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("lock of %s: %w", f.Name(), err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// lock takes the write lock, which lasts until f is closed or the process ends.
func lock(f *os.File) error {
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// Clean removes the files of processes that have ended, and what belongs to them, all but the newest eight. Files that this user may not list or
// remove, because they are another user's, stay.
func Clean(directory string) error {
	list, err := List(directory)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	err = errors.Join(err, cleanDrafts(directory))
	dead := 0
	for _, e := range list {
		if e.Live {
			continue
		}
		if dead++; dead > keepDead {
			err = errors.Join(err, removeOwn(e.Path), removeOwn(e.Path+controlSuffix))
		}
	}
	return err
}

// cleanDrafts removes the unfinished files of processes that were killed while they made them: unlocked and older than draftAge.
func cleanDrafts(directory string) error {
	drafts, err := filepath.Glob(filepath.Join(directory, filePrefix+"*"+draftSuffix))
	for _, path := range drafts {
		info, e := os.Lstat(path)
		if e != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < draftAge {
			continue // gone, none of ours, or being made
		}
		if live, e := isLive(path); e == nil && !live {
			err = errors.Join(err, removeOwn(path))
		}
	}
	return err
}

// removeOwn removes a file, unless it is one that this user may not remove (EPERM, EACCES).
func removeOwn(path string) error {
	if err := remove(path); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// remove removes a file. One that is gone already is no error.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
