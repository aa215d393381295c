package sys

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const sysfsRoot = "/sys"

// maxNodes is the longest node mask that kernels are built for (CONFIG_NODES_SHIFT 10).
const maxNodes = 1024

// interfaceNode finds the NUMA node of an interface's device, or reports why there is none. A virtio device has no node of
// its own; the PCI function above it has, so the search climbs.
func interfaceNode(root, name string) (node int, why string) {
	device, err := filepath.EvalSymlinks(filepath.Join(root, "class/net", name, "device"))
	if err != nil {
		return 0, fmt.Sprintf("%s has no device, so no node", name)
	}
	top, err := filepath.EvalSymlinks(filepath.Join(root, "devices"))
	if err != nil {
		return 0, fmt.Sprintf("the node of %s is unknown (%v)", name, err)
	}
	for ; strings.HasPrefix(device, top+"/"); device = filepath.Dir(device) {
		text, err := os.ReadFile(filepath.Join(device, "numa_node"))
		if err != nil {
			continue
		}
		node, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || node < 0 || node >= maxNodes {
			return 0, fmt.Sprintf("the node of %s is unknown (numa_node says %q)", name, strings.TrimSpace(string(text)))
		}
		return node, ""
	}
	return 0, fmt.Sprintf("the node of %s is unknown (its device tells none)", name)
}

// hugePageSizes lists the sizes of huge pages that the system can reserve for mappings, smallest first, because a region
// is rounded up to them.
func hugePageSizes(root string) []int {
	var sizes []int
	dirs, _ := filepath.Glob(filepath.Join(root, "kernel/mm/hugepages/hugepages-*kB")) // errors only on a bad pattern
	for _, dir := range dirs {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), "hugepages-"), "kB")
		kib, err := strconv.Atoi(name)
		if err == nil && kib > 0 && kib&(kib-1) == 0 {
			sizes = append(sizes, kib<<10)
		}
	}
	slices.Sort(sizes)
	return sizes
}

// freeHugePages says in words how many huge pages of a size the system has free, for a note.
func freeHugePages(root string, size int) string {
	file := filepath.Join(root, fmt.Sprintf("kernel/mm/hugepages/hugepages-%dkB/free_hugepages", size>>10))
	text, err := os.ReadFile(file)
	if err != nil {
		return "an unknown number free"
	}
	return strings.TrimSpace(string(text)) + " free"
}

// transparent says in words what the system's policy for transparent huge pages is, for a note: it decides whether the request has an effect.
func transparent(root string) string {
	text, err := os.ReadFile(filepath.Join(root, "kernel/mm/transparent_hugepage/enabled"))
	if err != nil {
		return "policy unknown"
	}
	return "policy " + strings.TrimSpace(string(text))
}

// asked words a request: "256 huge pages of 2 MiB asked".
func asked(n, size int) string {
	unit, per := "KiB", 1<<10
	if size >= 1<<20 {
		unit, per = "MiB", 1<<20
	}
	return fmt.Sprintf("%d huge pages of %d %s asked", (n+size-1)/size, size/per, unit)
}
