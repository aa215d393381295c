// Package cure has the commands that cure what keeps sockets from a better path, by the stable code of the reason. Package xtreme writes them
// into an engine's log, the doctor of xtstat into its lines.
package cure

import (
	"cmp"
	"strconv"
	"strings"
)

// Place is where something is to be cured. What is empty is a word in capitals in the command, for a person to fill in.
type Place struct {
	Interface string
	Program   string // its file
	HugePages int    // of 2 MiB, that it needs; 0: not known
}

// LogLevel is the code of a log level that makes a program slow. It is no reason of a path.
const LogLevel = "log.level"

// fewestHugePages is how many are asked for at the least: room for some pollers.
const fewestHugePages = 64

// commands are the cures, by code. IFACE, PROGRAM and PAGES are filled in.
var commands = map[string]string{
	"link.bond_empty":     "ip link set MEMBER down; ip link set MEMBER master IFACE",
	"link.bond_mode":      "ip link set IFACE type bond mode active-backup (while it is down)",
	"link.down":           "ip link set IFACE up",
	"link.tags_apart":     "ethtool -K IFACE rxvlan off",
	LogLevel:              "unset VMA_TRACELEVEL",
	"region.no_hugepages": "sysctl -w vm.nr_hugepages=PAGES",
	"uring.disabled":      "sysctl -w kernel.io_uring_disabled=0",
	"uring.memlock":       "ulimit -l unlimited",
	"xdp.memlock":         "ulimit -l unlimited",
	"xdp.no_capability":   "setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM",
	"xdp.no_jumbo":        "ip link set IFACE mtu 1500, or pollers with larger buffers",
}

// Command is the command for a code, or the empty string where none is known.
func Command(code string, at Place) string {
	return strings.NewReplacer("IFACE", cmp.Or(at.Interface, "IFACE"), "PROGRAM", cmp.Or(at.Program, "PROGRAM"),
		"PAGES", strconv.Itoa(max(fewestHugePages, at.HugePages))).Replace(commands[code])
}

// PageMTU is the largest MTU with which a frame fits into a page of 4 KiB with what XDP keeps beside it. On an interface with a longer one
// xdp.no_jumbo loses frames, on others nothing.
const PageMTU = 3498
