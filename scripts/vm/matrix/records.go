package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// record is what came of a package's tests on a kernel.
type record struct {
	Kernel  string         `json:"kernel"` // as scripts/vm.sh names it
	Group   string         `json:"group"`
	Release string         `json:"release"` // as uname names it
	Package string         `json:"package"`
	Result  string         `json:"result"` // pass, fail, or none: the machine ended before
	Passed  int            `json:"passed"`
	Failed  []string       `json:"failed,omitempty"`  // names of tests
	Unended []string       `json:"unended,omitempty"` // names of tests that were running when the time was over
	Skipped map[string]int `json:"skipped,omitempty"` // how many tests, by reason
	Seconds int            `json:"seconds"`
	Slow    int            `json:"slow"` // times slower than the machine it ran on
	Date    string         `json:"date"`
}

// event is a line of test2json.
type event struct{ Action, Package, Test, Output string }

// reasonLine is where a test says why it is skipped: "    file_test.go:12: reason".
var reasonLine = regexp.MustCompile(`^\s*[\w.]+\.go:\d+: (.*)\n?$`)

// readResults reads what scripts/vm.sh has kept of a cell.
func readResults(folder string, c cell, when time.Time) ([]record, error) {
	release, err := readLine(filepath.Join(folder, "release"))
	if err != nil {
		return nil, err
	}
	slow, _ := readLine(filepath.Join(folder, "slow")) // the machine may have ended before
	times, _ := strconv.Atoi(slow)
	list, err := os.ReadFile(filepath.Join(folder, "list"))
	if err != nil {
		return nil, err
	}
	var all []record
	at := map[string]int{}
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		r := record{Kernel: c.kernel, Group: c.group.name, Release: release, Package: f[0], Result: "none", Slow: times,
			Date: when.UTC().Format(time.DateOnly), Skipped: map[string]int{}}
		if code, err := readLine(filepath.Join(folder, f[1]+".code")); err == nil {
			r.Result = map[bool]string{true: "pass", false: "fail"}[code == "0"]
		}
		if s, err := readLine(filepath.Join(folder, f[1]+".seconds")); err == nil {
			r.Seconds, _ = strconv.Atoi(s)
		}
		at[f[0]] = len(all)
		all = append(all, r)
	}
	text, err := os.ReadFile(filepath.Join(folder, "json"))
	if err != nil {
		return nil, err
	}
	return all, count(all, at, text)
}

// count adds what the tests' events say to the records, which at finds by package.
func count(all []record, at map[string]int, events []byte) error {
	last := map[[2]string]string{} // the reason that a test printed last
	running := map[[2]string]int{} // the record that a test belongs to
	in := bufio.NewScanner(bytes.NewReader(events))
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return err
		}
		i, ok := at[folderOf(e.Package)]
		if !ok || e.Test == "" {
			continue
		}
		r, key := &all[i], [2]string{e.Package, e.Test}
		switch e.Action {
		case "run":
			running[key] = i
		case "output":
			if m := reasonLine.FindStringSubmatch(e.Output); m != nil {
				last[key] = m[1]
			}
		case "pass":
			r.Passed++
			delete(running, key)
		case "fail":
			r.Failed = append(r.Failed, e.Test)
			delete(running, key)
		case "skip":
			r.Skipped[brief(last[key])]++
			delete(running, key)
		}
	}
	for key, i := range running {
		all[i].Unended = append(all[i].Unended, key[1])
	}
	for i := range all {
		slices.Sort(all[i].Unended)
	}
	return in.Err()
}

// brief is a reason without what differs between two machines: of "missing: what: why, where" the what.
func brief(reason string) string {
	if what, ok := strings.CutPrefix(reason, "missing: "); ok {
		what, _, _ = strings.Cut(what, ": ")
		return "missing: " + what
	}
	return reason
}

// folderOf is a package's folder in the repository.
func folderOf(importPath string) string {
	parts := strings.SplitN(importPath, "/", 4)
	if len(parts) < 4 {
		return "."
	}
	return parts[3]
}

func readLine(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// replace returns the records with those of a cell in place of its former ones.
func replace(all []record, c cell, found []record) []record {
	all = slices.DeleteFunc(all, func(r record) bool { return r.Kernel == c.kernel && r.Group == c.group.name })
	return append(all, found...)
}

// readRecords reads the file of records; there need be none.
func readRecords(path string) (all []record, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// writeRecords writes the file of records, in an order that does not depend on the runs'.
func writeRecords(path string, all []record) error {
	slices.SortFunc(all, func(a, b record) int {
		return strings.Compare(a.Kernel+" "+a.Group+" "+a.Package, b.Kernel+" "+b.Group+" "+b.Package)
	})
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for _, r := range all {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
