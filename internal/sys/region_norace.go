//go:build !race

package sys

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// makeMemory maps the region: huge pages if asked for and to be had, else ordinary ones. The node is chosen before any
// page is touched, because a page that exists stays where it is.
func (r *Region) makeMemory(c RegionConfig) error {
	if !c.HugePages {
		m, err := mapMemory(c.Bytes, os.Getpagesize())
		if err != nil {
			return err
		}
		r.useMapping(m, c)
		return nil
	}
	sizes := hugePageSizes(sysfsRoot)
	refusals := []string{"this kernel has no huge pages for mappings"}
	for i, size := range sizes {
		if i > 0 && size > c.Bytes {
			break // a page larger than the region would be mostly waste
		}
		why := r.makeHuge(c, size)
		if why == "" {
			return nil
		}
		refusals = append(refusals[:i], why)
	}
	align := os.Getpagesize()
	if len(sizes) > 0 {
		align = max(align, sizes[0])
	}
	return r.makeOrdinary(c, align, strings.Join(refusals, "; "))
}

// makeHuge maps huge pages of one size from the system's reserve, or reports why not.
func (r *Region) makeHuge(c RegionConfig, huge int) (why string) {
	m, err := mapHuge(c.Bytes, huge)
	if err != nil {
		return fmt.Sprintf("%s, %s (%v)", asked(c.Bytes, huge), freeHugePages(sysfsRoot, huge), err)
	}
	numa := bindTo(m, c.Interface)
	// The mapping has its pages reserved, but a cgroup or cpuset may still deny them, by SIGBUS at first touch. Touched
	// here by the kernel (since Linux 5.14; EINVAL before) that is an error instead.
	if err := unix.Madvise(m.bytes(), unix.MADV_POPULATE_WRITE); err != nil && !errors.Is(err, unix.EINVAL) {
		_ = m.unmap() // ordinary pages follow; an address range that stays reserved harms nothing
		return fmt.Sprintf("%s, denied (%v)", asked(c.Bytes, huge), err)
	}
	r.setMapping(m, c.Bytes, numa)
	r.whole = c.Bytes <= huge
	return ""
}

// makeOrdinary maps ordinary pages where huge ones were asked for, aligned so that the kernel may join them.
func (r *Region) makeOrdinary(c RegionConfig, align int, why string) error {
	m, err := mapMemory(c.Bytes, align)
	if err != nil {
		return err
	}
	if err := unix.Madvise(m.bytes(), unix.MADV_HUGEPAGE); err != nil {
		r.addNote(NoteNoHugePages, "%s: ordinary pages, transparent huge pages refused (%v)", why, err)
	} else {
		r.addNote(NoteNoHugePages, "%s: ordinary pages, transparent huge pages requested (%s)", why, transparent(sysfsRoot))
	}
	r.useMapping(m, c)
	return nil
}

// useMapping makes a new mapping the region's memory, on the NUMA node of the interface if one was named.
func (r *Region) useMapping(m mapping, c RegionConfig) {
	r.setMapping(m, c.Bytes, bindTo(m, c.Interface))
}

// setMapping makes the first n bytes of a mapping the region's memory. numa says why its NUMA node could not be chosen; "": it could, or none
// was asked for.
func (r *Region) setMapping(m mapping, n int, numa string) {
	r.bytes, r.unmap = m.bytes()[:n:n], m.unmap
	if numa != "" {
		r.addNote(NoteNUMA, "%s: the memory may be on any node", numa)
	}
}

// bindTo asks the kernel to take the pages of a mapping, none of which has been touched, from the NUMA node of an interface. It returns why it
// cannot; "" if it can, or if no interface is named.
func bindTo(m mapping, name string) (why string) {
	if name == "" {
		return ""
	}
	node, why := interfaceNode(sysfsRoot, name)
	if why != "" {
		return why
	}
	if err := m.prefer(node); err != nil {
		return fmt.Sprintf("node %d of %s refused (%v)", node, name, err)
	}
	return ""
}
