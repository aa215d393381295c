//go:build !race

package sys

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

func TestRegionHasNoNotesWhenNothingWasAsked(t *testing.T) {
	r, err := NewRegion(RegionConfig{Bytes: 4096})
	require.NoError(t, err)
	require.Empty(t, r.Notes())
	require.NoError(t, r.Close())
}

// Prefault is only worth its name if the kernel agrees that every page is there.
func TestRegionPrefaultTouchesEveryPage(t *testing.T) {
	page := os.Getpagesize()
	r, err := NewRegion(RegionConfig{Bytes: 100*page + 1})
	require.NoError(t, err)
	require.Zero(t, resident(t, r), "nothing is touched before")
	r.Prefault()
	require.Equal(t, 101, resident(t, r))
	require.NoError(t, r.Close())
}

func TestRegionUnmapsWhenClosed(t *testing.T) {
	r, err := NewRegion(RegionConfig{Bytes: 1 << 20, HugePages: true})
	require.NoError(t, err)
	start := uintptr(unsafe.Pointer(&r.Bytes()[0]))
	require.NotEmpty(t, smaps(t, start))
	require.NoError(t, r.Close())
	require.Empty(t, smaps(t, start))
}

// Either the pages are huge, or a note says why not: never silently less.
func TestRegionHugePagesOrReason(t *testing.T) {
	r, err := NewRegion(RegionConfig{Bytes: 3<<20 + 1, HugePages: true})
	require.NoError(t, err)
	r.Prefault()
	b := r.Bytes()
	b[len(b)-1] = 1
	area := smaps(t, uintptr(unsafe.Pointer(&b[0])))
	kernelPage, err := strconv.Atoi(strings.Fields(area["KernelPageSize:"])[0])
	require.NoError(t, err)
	if len(r.Notes()) == 0 {
		require.Greater(t, kernelPage<<10, os.Getpagesize())
		require.Equal(t, kernelPage<<10 >= len(b), r.Contiguous())
	} else {
		require.False(t, r.Contiguous())
		require.Equal(t, []string{NoteNoHugePages}, codes(r))
		require.Equal(t, os.Getpagesize(), kernelPage<<10)
		text := r.Notes()[0].Text
		require.Contains(t, text, "ordinary pages")
		if sizes := hugePageSizes(sysfsRoot); len(sizes) > 0 {
			require.Contains(t, text, asked(3<<20+1, sizes[0]))
			require.Zero(t, uintptr(unsafe.Pointer(&b[0]))%uintptr(sizes[0]), "laid out for transparent huge pages")
		}
	}
	t.Log(r.Notes())
	require.NoError(t, r.Close())
}

func TestRegionNodeOfVirtualInterfaceIsNoted(t *testing.T) {
	for _, huge := range []bool{false, true} {
		r, err := NewRegion(RegionConfig{Bytes: 4096, Interface: "lo", HugePages: huge})
		require.NoError(t, err)
		require.Contains(t, r.Notes(), Note{NoteNUMA, "lo has no device, so no node: the memory may be on any node"})
		require.NoError(t, r.Close())
	}
}

// Node 0 exists everywhere that has nodes. What the kernel recorded is asked back.
func TestMappingPrefersNode(t *testing.T) {
	m, err := mapMemory(1<<20, os.Getpagesize())
	require.NoError(t, err)
	defer func() { require.NoError(t, m.unmap()) }()
	if err := m.prefer(0); err != nil {
		require.True(t, errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM), "%v", err)
		testnet.Missing(t, "numa", err)
	}
	var mode int32
	var mask [maxNodes / 64]uint64
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask)),
		maxNodes+1, uintptr(m.start), unix.MPOL_F_ADDR, 0)
	require.Zero(t, errno)
	require.EqualValues(t, unix.MPOL_PREFERRED, mode)
	require.EqualValues(t, 1, mask[0])

	require.Error(t, m.prefer(maxNodes-1), "a node that does not exist")
}

// resident counts the region's pages in memory (mincore).
func resident(t *testing.T, r *Region) int {
	t.Helper()
	b, page := r.Bytes(), os.Getpagesize()
	state := make([]byte, (len(b)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(unsafe.Pointer(&state[0])))
	require.Zero(t, errno)
	n := 0
	for _, s := range state {
		n += int(s & 1)
	}
	return n
}

// smaps returns what the kernel says of the memory area that contains the address; empty if there is none.
func smaps(t *testing.T, address uintptr) map[string]string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer f.Close()
	area, inside := map[string]string{}, false
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &from, &to); n == 2 {
			inside = from <= address && address < to
			continue
		}
		if key, value, ok := strings.Cut(s.Text(), " "); ok && inside {
			area[key] = strings.TrimSpace(value)
		}
	}
	return area
}
