package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/socketxtreme/socketxtreme/stats"
)

// target says which process a command is about. vma_stats' options, by the same letters.
type target struct {
	directory string
	pid       int
	name      string
	find      bool
	keep      bool
	json      bool
}

// flags adds the options that choose the process.
func (t *target) flags(f *pflag.FlagSet) {
	f.StringVarP(&t.directory, "directory", "k", stats.DefaultDirectory(), "the directory of the statistics (VMA_STATS_SHMEM_DIR)")
	f.IntVarP(&t.pid, "pid", "p", 0, "the process with this id, in its own namespace, also one that has ended")
	f.StringVarP(&t.name, "name", "n", "", "the process of this program")
	f.BoolVarP(&t.find, "find_pid", "f", false, "the process that began last to count (the default)")
	f.BoolVarP(&t.keep, "forbid_clean", "F", false, "remove no files of processes that have ended; without it the newest eight stay")
	f.BoolVar(&t.json, "json", false, "print JSON, a line for each cycle")
}

// entries are the files of the directory, the newest first.
func (t *target) entries() ([]stats.Entry, error) {
	if !t.keep {
		_ = stats.Clean(t.directory) // a reader that may not remove files still reads
	}
	return stats.List(t.directory)
}

// open opens the file of the process. Without a choice it is the live one that began last to count.
func (t *target) open() (*stats.Reader, error) {
	list, err := t.entries()
	if err != nil {
		return nil, err
	}
	var live, dead []stats.Entry
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
	switch {
	case t.pid != 0 && len(live) > 1:
		var paths []string
		for _, e := range live {
			paths = append(paths, filepath.Base(e.Path))
		}
		return nil, fmt.Errorf("process %d is running in several namespaces: %s", t.pid, strings.Join(paths, ", "))
	case len(live) > 0:
		return stats.Open(live[0].Path)
	case len(dead) > 0 && (t.pid != 0 || t.name != ""):
		return stats.Open(dead[0].Path)
	}
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
	return nil, errors.New(what)
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
