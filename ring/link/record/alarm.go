package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// AlarmConfig says what a recorder writes by itself when something is lost: what its memory has, which is from before the alarm, and what comes
// in the time after it.
type AlarmConfig struct {
	Directory string        // of the files; it must exist. Empty: nothing is written by itself
	After     time.Duration // how long frames are written after the alarm
	Every     time.Duration // the least time between two files
	Quota     int64         // bytes of all files of recorders in the directory: the oldest that this user may remove go. A file has half at most
	Gap       time.Duration // a gap between two polls that is an alarm; 0: none is
}

// alarms writes a file for an alarm, on a goroutine of its own. Others that come meanwhile, or too early after it, are counted.
type alarms struct {
	recorder   *Recorder
	config     AlarmConfig
	why        atomic.Pointer[string] // what was raised and not looked at
	suppressed atomic.Uint64
	written    atomic.Uint64
	stop       chan struct{}
	done       sync.WaitGroup
}

const (
	filePrefix  = "sxrecord."
	fileSuffix  = ".pcapng"
	draftSuffix = ".new" // of a file that is being written, which its writer has locked
	// lookEvery is how often the goroutine looks for an alarm: owners of rings wake nobody.
	lookEvery = 10 * time.Millisecond
)

// open checks the configuration and starts the goroutine.
func (a *alarms) open(r *Recorder, c AlarmConfig) error {
	a.recorder, a.config = r, c
	if c.Directory == "" {
		return nil
	}
	if c.After < 0 || c.Every < 0 || c.Quota < 4*chunkSize || c.Gap < 0 {
		return fmt.Errorf("alarms: after %v, every %v, quota %d, gap %v: %w", c.After, c.Every, c.Quota, c.Gap, unix.EINVAL)
	}
	info, err := os.Stat(c.Directory)
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		return fmt.Errorf("alarms: directory %s: %w", c.Directory, err)
	}
	a.stop = make(chan struct{})
	a.done.Go(a.run)
	return nil
}

// raise asks for a file. Any goroutine; it neither blocks nor wakes.
func (a *alarms) raise(why *string) {
	if a.stop != nil && a.why.Load() == nil {
		a.why.Store(why)
	}
}

// close ends the goroutine. A file that is being written ends with what has come until now.
func (a *alarms) close() error {
	if a.stop == nil {
		return nil
	}
	close(a.stop)
	a.done.Wait()
	return nil
}

// run is the goroutine that writes the files of alarms, at most one in Config.Every. An alarm that comes earlier is only counted.
func (a *alarms) run() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last time.Time
	for ended := false; !ended; {
		select {
		case <-a.stop:
			ended = true // an alarm of just now is still written
		case <-tick.C:
		}
		why := a.why.Swap(nil)
		switch {
		case why == nil:
		case !last.IsZero() && time.Since(last) < a.config.Every:
			a.suppressed.Add(1)
		default:
			last = time.Now()
			a.write(*why, last)
		}
	}
}

// write writes the file of an alarm.
func (a *alarms) write(why string, at time.Time) {
	log := a.recorder.config.Log
	path, w, err := a.writeFile(why, at)
	switch {
	case errors.Is(err, ErrOff):
	case err != nil:
		log.Warn("the frames before an alarm could not be written", "alarm", why, "error", err)
	default:
		a.written.Add(1)
		log.Warn("something was lost: the frames before and after it are in a file", "alarm", why, "file", path, "frames", w.Frames,
			"left_out", w.Left, "overwritten", w.Missing)
	}
}

// writeFile makes room for a file and writes it under another name until it is complete.
func (a *alarms) writeFile(why string, at time.Time) (path string, w Written, err error) {
	limit := a.config.Quota / 2
	if err := a.makeRoom(limit); err != nil {
		return "", w, err
	}
	path = filepath.Join(a.config.Directory, fmt.Sprintf("%s%d.%s%s", filePrefix, os.Getpid(), at.UTC().Format("20060102T150405.000000000"), fileSuffix))
	draft := path + draftSuffix
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", w, err
	}
	if err = lockFile(file); err != nil { // so that other recorders see that it is being written
		return "", w, errors.Join(err, file.Close(), os.Remove(draft))
	}
	o := WriteOptions{Limit: limit, Done: a.stop, For: a.config.After, Why: "alarm: " + why}
	if a.config.After > 0 {
		w, err = Stream(file, []*Recorder{a.recorder}, o)
	} else {
		w, err = Write(file, []*Recorder{a.recorder}, o)
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		return "", w, errors.Join(err, os.Remove(draft))
	}
	return path, w, nil
}

// makeRoom removes the drafts of processes that were killed, and then the oldest files of recorders in the directory until so many bytes more
// are within the quota. Files that this user may not remove stay.
func (a *alarms) makeRoom(bytes int64) error {
	entries, err := os.ReadDir(a.config.Directory)
	if err != nil {
		return err
	}
	type old struct {
		path string
		at   time.Time
		size int64
	}
	var list []old
	total := bytes
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(e.Name(), filePrefix) {
			continue
		}
		path := filepath.Join(a.config.Directory, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), fileSuffix):
			list = append(list, old{path, info.ModTime(), info.Size()})
			total += info.Size()
		case strings.HasSuffix(e.Name(), fileSuffix+draftSuffix):
			if err := removeAbandoned(path, info); err != nil {
				return fmt.Errorf("make room for %d bytes: %w", bytes, err)
			}
		}
	}
	slices.SortFunc(list, func(x, y old) int { return x.at.Compare(y.at) })
	for _, o := range list {
		if total <= a.config.Quota {
			break
		}
		if err := remove(o.path); err != nil {
			return fmt.Errorf("make room for %d bytes: %w", bytes, err)
		}
		total -= o.size // also of a file that another user keeps: it must not use up this user's quota
	}
	return nil
}

// draftAge is how old a draft without a lock must be to count as abandoned: its writer makes it a moment before it locks it.
const draftAge = time.Minute

// removeAbandoned removes a draft that nobody writes: the kernel has released the lock of its writer, which was killed.
func removeAbandoned(path string, info fs.FileInfo) error {
	if time.Since(info.ModTime()) < draftAge {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // complete meanwhile, or of another user
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if err := lockFile(file); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil // it is being written
		}
		return err
	}
	return remove(path)
}

// remove removes a file. One that is gone, or that this user may not remove, is no error.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// lockFile locks the file of a capture or a draft, without File.Fd, which would make writes to a pipe wait in the kernel.
func lockFile(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = raw.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	return errors.Join(err, locked)
}

// Alarms are how many files were written by themselves, and how many alarms came too early for one (AlarmConfig.Every).
func (r *Recorder) Alarms() (written, suppressed uint64) {
	return r.alarms.written.Load(), r.alarms.suppressed.Load()
}
