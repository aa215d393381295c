package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/socketxtreme/socketxtreme/stats"
)

// target says which process a command is about. vma_stats' options, by the same letters.
type target struct {
	directory string // or a file
	pid       int
	name      string
	find      bool
	keep      bool
	json      bool
}

// flags adds the options that choose the process.
func (t *target) flags(f *pflag.FlagSet) {
	f.StringVarP(&t.directory, "directory", "k", stats.DefaultDirectory(), "the directory of the statistics (VMA_STATS_SHMEM_DIR), or one file of it")
	f.IntVarP(&t.pid, "pid", "p", 0, "the process with this id, in its own namespace, also one that has ended")
	f.StringVarP(&t.name, "name", "n", "", "the process of this program")
	f.BoolVarP(&t.find, "find_pid", "f", false, "the process that began last to count (the default)")
	f.BoolVarP(&t.keep, "forbid_clean", "F", false, "remove no files of processes that have ended; without it the newest eight stay")
	f.BoolVar(&t.json, "json", false, "print JSON, a line for each cycle")
}

// entries are the files of the directory, the newest first, or the one file that is named in its place.
func (t *target) entries() ([]stats.Entry, error) {
	if t.isFile() {
		return entryOf(t.directory)
	}
	if !t.keep {
		_ = stats.Clean(t.directory) // a reader that may not remove files still reads
	}
	return stats.List(t.directory)
}

// isFile reports whether -k names a file: one of several of a process, or one that was copied.
func (t *target) isFile() bool {
	info, err := os.Stat(t.directory)
	return err == nil && !info.IsDir()
}

// entryOf is the entry of a file, whatever its name is.
func entryOf(path string) ([]stats.Entry, error) {
	r, err := stats.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := r.Process()
	return []stats.Entry{{Path: path, Process: p.ID, Made: p.Started.UnixNano(), Live: p.Live}}, err
}

// open opens the file of the process. Without a choice it is the live one that began last to count. A process may have several files, because
// its engines differ in what a file is made with, and processes of several namespaces may have one number: what is not shown is said on notes.
func (t *target) open(notes io.Writer) (*stats.Reader, error) {
	live, dead, err := t.chosen()
	switch {
	case err != nil:
		return nil, err
	case t.pid != 0 && len(live) > 1:
		return nil, fmt.Errorf("process %d has %d statistics files: its engines differ in VMA_STATS_FD_NUM or SX_STATS_GROUP, or several process namespaces "+
			"have a process %d. One of these chooses:%s", t.pid, len(live), t.pid, choices(live))
	case len(live) > 0:
		noteOthers(notes, live, "has")
		return stats.Open(live[0].Path)
	case len(dead) > 0 && t.isChoice():
		noteOthers(notes, dead, "has left")
		return stats.Open(dead[0].Path)
	}
	return nil, t.notFound(dead)
}

// chosen are the files that the options choose, the newest first: of processes that run, and of those that have ended.
func (t *target) chosen() (live, dead []stats.Entry, err error) {
	list, err := t.entries()
	for _, e := range list {
		if t.pid != 0 && e.Process != t.pid {
			continue
		}
		if t.name != "" && !t.isNamed(e) {
			continue
		}
		if e.Live {
			live = append(live, e)
		} else {
			dead = append(dead, e)
		}
	}
	return live, dead, err
}

// isChoice reports whether an option chooses a process, which may have ended then.
func (t *target) isChoice() bool { return t.pid != 0 || t.name != "" || t.isFile() }

// notFound is the error for options that choose no file. dead are the files of processes that have ended.
func (t *target) notFound(dead []stats.Entry) error {
	what := "no process publishes statistics"
	if t.pid != 0 {
		what = fmt.Sprintf("no process %d publishes statistics", t.pid)
	}
	if t.name != "" {
		what += fmt.Sprintf(" as %q", t.name)
	}
	what += " in " + t.directory
	if len(dead) > 0 {
		what += fmt.Sprintf("; %d have ended: -p %d shows the last of them", len(dead), dead[0].Process)
	}
	return errors.New(what)
}

// noteOthers says that the first file of the list, which is shown, is not the only one of its process, and how the others are shown.
func noteOthers(notes io.Writer, list []stats.Entry, has string) {
	var others []stats.Entry
	for _, e := range list[1:] {
		if e.Process == list[0].Process {
			others = append(others, e)
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(notes, "xtstat: process %d %s %d statistics files, and this is the newest. These show the others:%s\n", list[0].Process, has, 1+len(others),
			choices(others))
	}
}

// choices are the options that choose each file, in lines, with program and time.
func choices(list []stats.Entry) string {
	var text strings.Builder
	for _, e := range list {
		fmt.Fprintf(&text, "\n  -k %s   (", e.Path)
		if r, err := stats.Open(e.Path); err == nil {
			fmt.Fprintf(&text, "%s ", r.Description().Program)
			_ = r.Close()
		}
		fmt.Fprintf(&text, "since %s)", time.Unix(0, e.Made).Format("2006-01-02 15:04:05"))
	}
	return text.String()
}

// isNamed reports whether the file is one of the program that -n names; false also if it cannot be read.
func (t *target) isNamed(e stats.Entry) bool {
	r, err := stats.Open(e.Path)
	if err != nil {
		return false
	}
	defer r.Close()
	return r.Description().Program == t.name
}
