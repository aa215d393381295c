package flowrecord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Result is what became of one record.
type Result struct {
	File       string
	Process    int    // that has ended
	Flows      int    // connections that it had
	Reset      int    // of which the peer has none any more: it said so
	Unanswered int    // whose peer said nothing in time
	Gone       bool   // its network namespace is gone, and the connections with it
	Skipped    string // why the record was left as it is; empty otherwise
}

// most is how long peers are asked at the most.
const most = 2 * time.Second

// ResetDead resets the peers of all records whose process has ended, and removes those records. It waits at most two seconds for answers.
// Records of live processes are left alone. It must be called in the network namespace of the processes, before claims are made. Records of
// network namespaces that are gone are removed, where the kernel tells (Linux 6.18).
func ResetDead(ctx context.Context, c Config) (results []Result, err error) {
	c.defaults()
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("flowrecord: %w", cure(err))
	}
	var dead []*deadRecord
	var removed error // of records of namespaces that are gone
	defer func() {
		err = errors.Join(err, removed)
		for _, d := range dead {
			_ = d.file.Close()
		}
	}()
	for _, e := range entries {
		path := filepath.Join(c.Dir, e.Name())
		if strings.HasPrefix(e.Name(), newPrefix) {
			removeUnfinished(path)
		}
		if !isRecord(e.Name()) {
			continue
		}
		d, why, err := openDead(path)
		switch {
		case err != nil:
			results = append(results, Result{File: path, Skipped: cure(err).Error()})
		case why != "":
			results = append(results, Result{File: path, Skipped: why})
		case d != nil && d.isGone:
			results = append(results, Result{File: path, Process: d.process, Flows: d.flows(), Gone: true})
			removed = errors.Join(removed, os.Remove(path), d.file.Close())
		case d != nil:
			dead = append(dead, d)
		}
	}
	if len(dead) == 0 {
		return results, nil
	}
	r, err := newResetter()
	if err != nil {
		return results, err
	}
	defer r.close()
	for i, d := range dead {
		for _, s := range d.slots {
			if s.ports != 0 {
				r.add(s, i)
			}
		}
	}
	if err := r.run(ctx, time.Now().Add(most)); err != nil {
		return results, err // the records stay for another try
	}
	for i, d := range dead {
		var t total
		if r.totals[i] != nil {
			t = *r.totals[i]
		}
		results = append(results, Result{File: d.path, Process: d.process, Flows: t.flows, Reset: t.reset, Unanswered: t.flows - t.reset})
		err = errors.Join(err, os.Remove(d.path))
	}
	return results, err
}

// cure adds to an error of reading records what helps against it.
func cure(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: records are read as the user of the process that has ended, or as root", err)
	}
	return err
}

// Watch resets the peers of processes that end, until the context is done. report is called with each record that was read, and each error.
func Watch(ctx context.Context, c Config, report func(Result, error)) error {
	const every = 200 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	skipped := map[string]bool{} // reported once
	for {
		results, err := ResetDead(ctx, c)
		for _, r := range results {
			if r.Skipped == "" || !skipped[r.File] {
				report(r, nil)
			}
			skipped[r.File] = r.Skipped != ""
		}
		if err != nil && ctx.Err() == nil {
			report(Result{}, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// deadRecord is a record whose process has ended. The file is locked by the reader.
type deadRecord struct {
	file    *os.File
	path    string
	process int
	slots   []slot
	isGone  bool // its network namespace is gone
}

// flows counts the connections.
func (d *deadRecord) flows() (n int) {
	for i := range d.slots {
		if d.slots[i].ports != 0 {
			n++
		}
	}
	return n
}

// openDead opens, locks and reads a record whose process has ended. It returns nil for one whose process lives or that was removed meanwhile;
// why says why another file is left alone: it is no record, or one of another network namespace.
func openDead(path string) (_ *deadRecord, why string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	keep := false
	defer func() {
		if !keep {
			_ = f.Close()
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, "", nil // its process lives, or another reader has it
		}
		return nil, "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, "", err
	}
	if st.Nlink == 0 {
		return nil, "", nil // it was removed meanwhile
	}
	if st.Size < headerBytes || st.Size > headerBytes+maxFlows*slotBytes {
		return nil, fmt.Sprintf("%d bytes: not a record", st.Size), nil
	}
	b := make([]byte, st.Size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, "", err
	}
	h, slots := layout(b)
	if string(h.magic[:]) != magic || int(h.capacity) != len(slots) {
		return nil, "not a record, or of another version", nil
	}
	ns, err := namespace()
	if err != nil {
		return nil, "", err
	}
	isGone := h.netns != ns && h.handle.isGone()
	if h.netns != ns && !isGone {
		return nil, fmt.Sprintf("of another network namespace (net:[%d])", h.netns), nil
	}
	keep = true
	return &deadRecord{f, path, int(h.pid), slots, isGone}, "", nil
}

// removeUnfinished removes a file that is older than a minute and still has the prefix of one that is being made: its process ended within
// Create.
func removeUnfinished(path string) {
	info, err := os.Lstat(path)
	if err == nil && time.Since(info.ModTime()) > time.Minute {
		_ = os.Remove(path)
	}
}
