// Command testlog reads what go test -json writes and prints a line for each package that passed, and what failed tests and packages have
// printed. With -rings it notes on which kinds of ring each test that passed has run: conf's TestFromVMA holds the rows of
// docs/from-vma.md against that. With -failed it writes a line for each test that failed, its package and name, so that CI can run it once more
// with nothing beside it. CI and scripts/test-rings.sh run it.
//
// A test has run on a kind of ring if its package is the driver's, if a part of its name is the kind, or if it says so (testing.T.Attr).
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

type event struct{ Action, Package, Test, Output, Key, Value string }

// driverOf are the packages whose tests are of one kind of ring.
var driverOf = map[string]string{"ring/uring": "uring", "ring/epoll": "epoll", "ring/offload": "offload", "ring/link/xdp": "offload",
	"ring/link/record": "offload", "internal/ip": "offload", "udp": "offload", "simnet": "offload",
	"ring/offload/torture": "offload"}

// wholePackage stands for the name of a test where a package failed and none of its tests was reported: it was killed, ended by itself, did not
// build, or something was printed in front of the report, on its line.
const wholePackage = "*"

const module = "github.com/socketxtreme/socketxtreme/"

func main() {
	to := flag.String("rings", "", "the `file` to add the kinds of ring of each test to")
	failed := flag.String("failed", "", "the `file` to write the tests that failed to")
	flag.Parse()
	if err := run(*to, *failed); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

// noise reports whether a line is of what gnet's servers log, thousands of lines in a run.
func noise(line string) bool { return strings.HasPrefix(line, "[gnet] 2") }

// summary is the last line of a package's own output: that it passed, or has no tests. What its tests printed beside is left out.
func summary(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// run prints what the package's comment says, from the events on standard input. It adds to the file rings, unless that is empty, a line for each
// test that passed: its name, and the kinds of ring that it has run on. It writes to the file failed, unless that is empty, a line for each test
// that failed: its package and its name, which is wholePackage where no test was reported as failed. After a panic or a data race there is no name.
func run(rings, failed string) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	output := map[[2]string][]string{} // of tests under way
	attrs := map[[2]string][]string{}
	ran, err := readKinds(rings)
	if err != nil {
		return err
	}
	failures := map[string][]string{} // by package; an empty name: the package
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text())
			continue
		}
		key := [2]string{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			if e.Package == "" {
				fmt.Print(e.Output)
			} else if !noise(e.Output) {
				output[key] = append(output[key], e.Output)
			}
			if strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ") || strings.Contains(e.Output, "DATA RACE") {
				failures[e.Package] = append(failures[e.Package], "")
			}
		case "attr":
			if e.Key == "ring" {
				attrs[key] = append(attrs[key], e.Value)
			}
		case "fail":
			fmt.Print(strings.Join(output[key], ""))
			delete(output, key)
			test, _, of := strings.Cut(e.Test, "/")
			if test == "" { // the tests whose end was not reported, and what they have printed
				for key, lines := range output {
					if key[0] == e.Package {
						fmt.Print(strings.Join(lines, ""))
						delete(output, key)
					}
				}
				if len(failures[e.Package]) == 0 {
					test = wholePackage
				}
			}
			if !of && test != "" {
				failures[e.Package] = append(failures[e.Package], test)
			}
		case "skip":
			if e.Test == "" {
				fmt.Print(summary(output[key]))
			}
			delete(output, key)
		case "pass":
			if e.Test == "" {
				fmt.Print(summary(output[key]))
				delete(output, key)
				continue
			}
			delete(output, key)
			name := e.Test
			if ran[name] == nil {
				ran[name] = map[string]bool{}
			}
			if kind := driverOf[strings.TrimPrefix(e.Package, module)]; kind != "" {
				ran[name][kind] = true
			}
			for _, part := range append(strings.Split(name, "/")[1:], attrs[key]...) {
				if part == "uring" || part == "epoll" || part == "offload" {
					ran[name][part] = true
				}
			}
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	if err := writeFailed(failed, failures); err != nil {
		return err
	}
	return writeKinds(rings, ran)
}

// readKinds is what an earlier run has written; nothing if there was none.
func readKinds(name string) (map[string]map[string]bool, error) {
	ran := map[string]map[string]bool{}
	text, err := os.ReadFile(name)
	if err != nil && name != "" && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		test, kinds, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		ran[test] = map[string]bool{}
		for _, kind := range strings.Fields(kinds) {
			ran[test][kind] = true
		}
	}
	return ran, nil
}

func writeKinds(name string, ran map[string]map[string]bool) error {
	if name == "" {
		return nil
	}
	var b strings.Builder
	for _, test := range slices.Sorted(maps.Keys(ran)) {
		fmt.Fprintf(&b, "%s\t%s\n", test, strings.Join(slices.Sorted(maps.Keys(ran[test])), " "))
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

func writeFailed(name string, failures map[string][]string) error {
	if name == "" {
		return nil
	}
	var b strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(failures)) {
		if slices.Contains(failures[pkg], "") {
			fmt.Fprintln(&b, pkg)
			continue
		}
		for _, test := range failures[pkg] {
			fmt.Fprintf(&b, "%s %s\n", pkg, test)
		}
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
