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
	label    string // of its rows, beside the package: a group that runs packages otherwise than on veth and whole
	packages []string
	flags    []string // of the test binaries
	env      []string // of scripts/vm.sh
	seconds  int      // after which the machine is ended
}

var short = []string{"-short"}

// contracts are the tests of ring/offload that run ring/ringtest over some kind of link: most of the package's time. onBonds are those
// that need a bond of the kernel.
const (
	contracts = "^Test(Stream)?Contract"
	onBonds   = "^Test(ContractOverBond|BondFailsOver)$"
)

// groups is all of them; the names are in kernels.
var groups = []group{
	{name: "base", packages: []string{"./buffers", "./conf", "./internal/clock", "./internal/host", "./internal/hoststat", "./internal/ip",
		"./internal/pace/...", "./internal/phc", "./internal/sys", "./internal/testnet", "./internal/wheel", "./internal/wire", "./stats/...", "./udp"}, flags: short,
		seconds: 450},
	{name: "tcp", packages: []string{"./tcp", "./tcp/congestion", "./internal/packetdrill"}, flags: short, seconds: 450},
	{name: "feed", packages: []string{"./feed/...", "./examples/feedhandler/..."}, flags: short, seconds: 450},
	{name: "kernel", packages: []string{"./ring", "./ring/epoll", "./ring/uring", "./ring/ringtest/..."}, flags: short, seconds: 450},
	{name: "link", packages: []string{"./ring/link/..."}, flags: short, seconds: 450},
	{name: "transport", packages: []string{"./ring/transport/..."}, flags: short, seconds: 450},
	{name: "offload", packages: []string{"./ring/offload"}, flags: []string{"-short", "-skip", contracts + "|" + onBonds}, seconds: 450},
	{name: "contracts", label: "the contract of datagrams", packages: []string{"./ring/offload"},
		flags: []string{"-short", "-run", "^TestContract", "-skip", onBonds}, seconds: 600},
	{name: "streams", label: "the contract of streams", packages: []string{"./ring/offload"}, flags: []string{"-short", "-run", "^TestStreamContract"}, seconds: 600},
	{name: "bond", label: "over a bond", packages: []string{"./ring/offload"}, flags: []string{"-short", "-run", onBonds}, seconds: 450},
	{name: "rooms", packages: []string{"./ring/offload/nic", "./ring/offload/shadow", "./ring/offload/steering", "./ring/offload/handoff",
		"./ring/offload/flowrecord"}, flags: short, seconds: 300},
	{name: "xtreme", packages: []string{"./xtreme"}, flags: short, seconds: 450},
	{name: "extra", packages: []string{"./extra_api"}, flags: short, seconds: 450},
	{name: "reactor", packages: []string{"./reactor", "./reactor/gnetrun", "./reactor/netconn"}, flags: short, seconds: 450},
	{name: "gnet", packages: []string{"./reactor/gnet"}, flags: short, seconds: 450},
	{name: "programs", packages: []string{"./cmd/...", "./examples/echo", "./examples/framed", "./examples/https", "./examples/proxy", "./examples/resp/...",
		"./examples/rules", "./examples/receive-callback", "./examples/zero-copy-receive", "./examples/warm-send"}, flags: short, seconds: 450},
	{name: "virtio", label: "over virtio-net", packages: []string{"./ring/link/guard", "./examples/echo", "./examples/feedhandler/live"}, flags: short,
		env: []string{"SOCKETXTREME_VM_CABLE=ring/link/guard examples/echo examples/feedhandler/live", "SOCKETXTREME_VM_PROGRAMS=sockperf"}, seconds: 450},
	{name: "cable", label: "over virtio-net", packages: []string{"./ring/offload"},
		flags: []string{"-short", "-run", "^(TestContractOverVeth|TestStreamContractOverVeth|TestUnplugged)$"},
		env:   []string{"SOCKETXTREME_VM_CABLE=ring/offload"}, seconds: 600},
	{name: "arm", packages: []string{"./buffers", "./ring", "./ring/epoll", "./ring/uring"}, flags: short, seconds: 450},
	{name: "contract", label: "the contract", packages: []string{"./ring/epoll", "./ring/uring"}, flags: []string{"-short", "-run", "^TestContract$"}, seconds: 450},
}

// kernels is which groups run on which kernel, the most telling first.
var kernels = []struct {
	name   string
	groups []string
}{
	{"6.1", usual},
	{"6.12", usual},
	{"6.12-arm64", []string{"arm", "contracts", "streams", "offload"}},
	{"6.12-rt", []string{"contract", "link"}},
}

// usual is every group on veth, and what runs over virtio-net.
var usual = []string{"kernel", "link", "base", "tcp", "xtreme", "offload", "contracts", "streams", "bond", "rooms", "transport", "feed", "extra", "reactor", "gnet",
	"programs", "virtio", "cable"}

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
