// Command testlog reads what go test -json writes and prints a line for each package that passed, and what failed tests and packages have
// printed. With -rings it notes on which kinds of ring each test that passed has run: conf's TestFromVMA holds the rows of
// docs/from-vma.md against that. CI and scripts/test-rings.sh run it.
//
// A test has run on a kind of ring if its package is the driver's, if a part of its name is the kind, or if it says so (testing.T.Attr).
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

type event struct{ Action, Package, Test, Output, Key, Value string }

// driverOf are the packages whose tests are of one kind of ring.
var driverOf = map[string]string{"ring/uring": "uring", "ring/epoll": "epoll", "ring/offload": "offload", "ring/link/xdp": "offload",
	"ring/link/capture": "offload", "internal/ip": "offload", "udp": "offload", "simnet": "offload"}

const module = "github.com/socketxtreme/socketxtreme/"

func main() {
	to := flag.String("rings", "", "the `file` to write the kinds of ring of each test to")
	flag.Parse()
	if err := run(*to); err != nil {
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

// run prints what the package's comment says, from the events on standard input. It writes to the file to, unless that is empty, a line for each
// test that passed: its name, and the kinds of ring that it has run on.
func run(to string) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	output := map[[2]string][]string{} // of tests under way
	attrs := map[[2]string][]string{}
	rings := map[string]map[string]bool{}
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
		case "attr":
			if e.Key == "ring" {
				attrs[key] = append(attrs[key], e.Value)
			}
		case "fail":
			fmt.Print(strings.Join(output[key], ""))
			delete(output, key)
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
			if rings[name] == nil {
				rings[name] = map[string]bool{}
			}
			if kind := driverOf[strings.TrimPrefix(e.Package, module)]; kind != "" {
				rings[name][kind] = true
			}
			for _, part := range append(strings.Split(name, "/")[1:], attrs[key]...) {
				if part == "uring" || part == "epoll" || part == "offload" {
					rings[name][part] = true
				}
			}
		}
	}
	if err := in.Err(); err != nil || to == "" {
		return err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rings)) {
		fmt.Fprintf(&b, "%s\t%s\n", name, strings.Join(slices.Sorted(maps.Keys(rings[name])), " "))
	}
	return os.WriteFile(to, []byte(b.String()), 0o644)
}
