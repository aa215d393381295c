// Command matrix runs the suite in virtual machines, cell by cell (a kernel and a group of packages), and writes what came of it into
// docs/platforms.md. make vm-matrix runs it, from the root of the repository.
//
//	go run ./scripts/vm/matrix                    every cell that has not passed with this state of the tree
//	go run ./scripts/vm/matrix 6.1/kernel 6.12    these cells, and all cells of this kernel
//	go run ./scripts/vm/matrix -render            docs/platforms.md again, from the records
//	go run ./scripts/vm/matrix -list              the cells
//
// A cell's record (docs/platforms.jsonl: one line for each package) is written when the cell ends, so that a run that was stopped goes on where
// it stopped. Cells that passed are kept in a folder of the cache, by the state of the tree; so is what each cell's last run printed.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	recordsPath = "docs/platforms.jsonl"
	docsPath    = "docs/platforms.md"
)

func main() {
	list := flag.Bool("list", false, "print the cells and end")
	render := flag.Bool("render", false, "write docs/platforms.md from the records and end")
	again := flag.Bool("again", false, "run cells that have passed with this tree, too")
	limit := flag.Duration("limit", time.Hour, "begin no cell later than this")
	flag.Parse()
	failed, err := run(*list, *render, *again, *limit, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
	if failed {
		os.Exit(1)
	}
}

// run does what main's comment says and reports whether a cell failed or was not begun.
func run(list, render, again bool, limit time.Duration, names []string) (failed bool, err error) {
	chosen, err := choose(names)
	if err != nil {
		return false, err
	}
	if list {
		for _, c := range chosen {
			fmt.Printf("%-18s %v %v\n", c, c.group.packages, c.group.flags)
		}
		return false, nil
	}
	if !render {
		if failed, err = runCells(chosen, again, limit); err != nil {
			return failed, err
		}
	}
	records, err := readRecords(recordsPath)
	if err != nil {
		return failed, err
	}
	return failed, writeDocs(docsPath, records)
}

// runCells runs the cells one after the other, those left out that have passed with this tree.
func runCells(chosen []cell, again bool, limit time.Duration) (failed bool, err error) {
	state, err := treeState()
	if err != nil {
		return false, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return false, err
	}
	cache = filepath.Join(cache, "socketxtreme-vm")
	passed := filepath.Join(cache, "passed", state)
	if err := os.MkdirAll(passed, 0o755); err != nil {
		return false, err
	}
	for begin, i := time.Now(), 0; i < len(chosen); i++ {
		c := chosen[i]
		mark := filepath.Join(passed, c.file())
		if _, err := os.Stat(mark); err == nil && !again {
			fmt.Printf("matrix: %s has passed\n", c)
			continue
		}
		if time.Since(begin) > limit {
			fmt.Printf("matrix: %v are over: %s and what follows is not run\n", limit, c)
			return true, nil
		}
		start := time.Now()
		results := filepath.Join(cache, "results", c.file())
		ok, err := runCell(c, results)
		if err != nil {
			return true, err
		}
		fmt.Printf("matrix: %s: %s in %v, see %s\n", c, map[bool]string{true: "pass", false: "FAIL"}[ok], time.Since(start).Round(time.Second), results)
		if !ok {
			failed = true
		} else if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return true, err
		}
	}
	return failed, nil
}

// runCell runs a cell, leaves what it printed in a folder, and records what came of it.
func runCell(c cell, results string) (ok bool, err error) {
	if err := os.RemoveAll(results); err != nil {
		return false, err
	}
	cmd := exec.Command("scripts/vm.sh", append(append([]string{c.kernel}, c.group.packages...), append([]string{"--"}, c.group.flags...)...)...)
	cmd.Env = append(os.Environ(), "SOCKETXTREME_VM_RESULTS="+results, "SOCKETXTREME_VM_LIMIT="+strconv.Itoa(c.group.seconds), "SOCKETXTREME_VM_JOBS=2")
	cmd.Env = append(cmd.Env, c.group.env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	runErr := cmd.Run()
	found, err := readResults(results, c, time.Now())
	if err != nil {
		return false, fmt.Errorf("%s: %w (scripts/vm.sh: %w)", c, err, runErr)
	}
	all, err := readRecords(recordsPath)
	if err != nil {
		return false, err
	}
	return runErr == nil, writeRecords(recordsPath, replace(all, c, found))
}
