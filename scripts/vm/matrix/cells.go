package main

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// group is packages that run in one machine, and how.
type group struct {
	name     string
	packages []string
	flags    []string // of the test binaries
	env      []string // of scripts/vm.sh
	seconds  int      // after which the machine is ended
}

var short = []string{"-short"}

// groups is all of them; the names are in kernels.
var groups = []group{
	{name: "base", packages: []string{"./buffers", "./conf", "./internal/...", "./stats/...", "./feed/...", "./udp", "./tcp", "./tcp/congestion"}, flags: short, seconds: 900},
	{name: "rings", packages: []string{"./ring", "./ring/epoll", "./ring/uring", "./ring/ringtest/...", "./ring/link/...", "./ring/transport/..."}, flags: short, seconds: 1200},
	{name: "offload", packages: []string{"./ring/offload", "./ring/offload/nic", "./ring/offload/shadow", "./ring/offload/steering",
		"./ring/offload/handoff", "./ring/offload/flowrecord"}, flags: short, seconds: 1200},
	{name: "xtreme", packages: []string{"./xtreme", "./extra_api"}, flags: short, seconds: 1200},
	{name: "reactor", packages: []string{"./reactor/..."}, flags: short, seconds: 1200},
	{name: "programs", packages: []string{"./cmd/...", "./examples/..."}, flags: short, seconds: 1200},
	{name: "virtio", packages: []string{"./ring/offload", "./ring/link/xdp", "./ring/link/guard"}, flags: short,
		env: []string{"SOCKETXTREME_VM_CABLE=ring/offload ring/link/xdp ring/link/guard"}, seconds: 1200},
	{name: "arm", packages: []string{"./buffers", "./ring", "./ring/epoll", "./ring/uring", "./ring/offload"}, flags: short, seconds: 1200},
	{name: "contract", packages: []string{"./ring/epoll", "./ring/uring", "./ring/offload"}, flags: []string{"-short", "-run", "TestContract"}, seconds: 900},
}

// kernels is which groups run on which kernel, the most telling first.
var kernels = []struct {
	name   string
	groups []string
}{
	{"6.12", []string{"rings", "offload", "xtreme", "base", "reactor", "programs", "virtio"}},
	{"6.1", []string{"rings", "offload", "xtreme", "base", "reactor", "programs", "virtio"}},
	{"6.12-arm64", []string{"arm"}},
	{"6.12-rt", []string{"contract"}},
}

// cell is a kernel and a group.
type cell struct {
	kernel string
	group  *group
}

func (c cell) String() string { return c.kernel + "/" + c.group.name }

// file is the name of the cell's mark.
func (c cell) file() string { return strings.ReplaceAll(c.String(), "/", "-") }

// choose returns the cells with these names, which are those of a cell or of a kernel; all of them without any.
func choose(names []string) (chosen []cell, err error) {
	used := map[string]bool{}
	for _, k := range kernels {
		for _, name := range k.groups {
			i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
			c := cell{k.name, &groups[i]}
			for _, n := range []string{c.String(), c.kernel} {
				if slices.Contains(names, n) {
					used[n] = true
				}
			}
			if len(names) == 0 || slices.Contains(names, c.String()) || slices.Contains(names, c.kernel) {
				chosen = append(chosen, c)
			}
		}
	}
	for _, n := range names {
		if !used[n] {
			return nil, fmt.Errorf("%s: no such cell; -list prints them", n)
		}
	}
	return chosen, nil
}

// treeState names the state of the tree, without docs, which the command writes itself.
func treeState() (string, error) {
	sum := sha256.New()
	for _, args := range [][]string{{"ls-files", "-s", "--", ".", ":!docs"}, {"diff", "--", ".", ":!docs"}} {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			return "", fmt.Errorf("git %v: %w", args, err)
		}
		sum.Write(out)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}
