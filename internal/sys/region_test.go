package sys

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

func TestRegionIsZeroWritableAndExact(t *testing.T) {
	page := os.Getpagesize()
	for _, n := range []int{1, page - 1, page, page + 1, 3<<20 + 5} {
		r, err := NewRegion(RegionConfig{Bytes: n})
		require.NoError(t, err)
		b := r.Bytes()
		require.Len(t, b, n)
		require.Equal(t, n, cap(b), "append must not reach what lies behind")
		require.Zero(t, uintptr(unsafe.Pointer(&b[0]))%uintptr(page))
		require.True(t, bytes.Equal(b, make([]byte, n)), "zero")
		b[0], b[n-1] = 1, 2
		require.NoError(t, r.Close())
	}
}

func TestRegionRefusesBadConfigurations(t *testing.T) {
	for _, test := range []struct {
		name string
		c    RegionConfig
		says []string
	}{
		{"no bytes", RegionConfig{}, []string{"Bytes 0"}},
		{"negative bytes", RegionConfig{Bytes: -7}, []string{"Bytes -7"}},
		{"bytes beyond any address space", RegionConfig{Bytes: math.MaxInt}, []string{fmt.Sprint("Bytes ", math.MaxInt)}},
		{"memory too short", RegionConfig{Bytes: 11, Memory: make([]byte, 10)}, []string{"10 bytes", "Bytes 11"}},
		{"memory empty", RegionConfig{Bytes: 11, Memory: []byte{}}, []string{"0 bytes", "Bytes 11"}},
		{"unknown interface", RegionConfig{Bytes: 1, Interface: "nosuch0"}, []string{`Interface "nosuch0"`}},
		{"interface that is a path", RegionConfig{Bytes: 1, Interface: "../lo"}, []string{`Interface "../lo"`}},
		{"interface checked with memory", RegionConfig{Bytes: 1, Memory: make([]byte, 1), Interface: "nosuch0"},
			[]string{`Interface "nosuch0"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := NewRegion(test.c)
			require.Nil(t, r)
			for _, s := range test.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
}

func TestRegionKeepsErrnoWhenMemoryIsRefused(t *testing.T) {
	policy, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	require.NoError(t, err)
	if strings.TrimSpace(string(policy)) == "1" {
		testnet.Missing(t, "overcommit", "a kernel that refuses absurd mappings: vm.overcommit_memory is 1")
	}
	if math.MaxInt == math.MaxInt32 {
		testnet.Missing(t, "64 bits", "an int that holds a size which any machine refuses")
	}
	for _, huge := range []bool{false, true} {
		_, err = NewRegion(RegionConfig{Bytes: int(maxRegionBytes), HugePages: huge})
		require.ErrorIs(t, err, unix.ENOMEM)
		require.ErrorContains(t, err, "region of 70368744177664 bytes")
	}
}

func TestRegionOverCallerMemory(t *testing.T) {
	memory := []byte{1, 2, 3, 4, 5}
	r, err := NewRegion(RegionConfig{Bytes: 3, Memory: memory})
	require.NoError(t, err)
	require.Empty(t, r.Notes())
	require.Equal(t, []byte{1, 2, 3}, r.Bytes())
	require.Equal(t, 3, cap(r.Bytes()))
	require.Same(t, &memory[0], &r.Bytes()[0])
	r.Prefault()
	require.NoError(t, r.Close())
	require.Equal(t, []byte{1, 2, 3, 4, 5}, memory, "the caller's memory is left alone")

	r, err = NewRegion(RegionConfig{Bytes: 3, Memory: memory, HugePages: true, Interface: "lo"})
	require.NoError(t, err)
	require.Equal(t, []string{NoteCallerMemory}, codes(r))
	require.NoError(t, r.Close())
}

func TestRegionClosesOnce(t *testing.T) {
	for _, memory := range [][]byte{nil, make([]byte, 8)} {
		r, err := NewRegion(RegionConfig{Bytes: 8, Memory: memory})
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Nil(t, r.Bytes())
		r.Prefault() // of nothing
		require.ErrorIs(t, r.Close(), os.ErrClosed)
	}
}

func TestRegionPrefaultKeepsContents(t *testing.T) {
	page := os.Getpagesize()
	r, err := NewRegion(RegionConfig{Bytes: 9*page + 1})
	require.NoError(t, err)
	b := r.Bytes()
	for i := range b {
		b[i] = byte(i)
	}
	r.Prefault()
	for i := range b {
		if b[i] != byte(i) {
			t.Fatalf("byte %d changed to %d", i, b[i])
		}
	}
	require.NoError(t, r.Close())
}

func TestInterfaceNode(t *testing.T) {
	root := t.TempDir()
	device := func(path, node string) {
		require.NoError(t, os.MkdirAll(root+"/devices/"+path, 0o755))
		if node != "" {
			require.NoError(t, os.WriteFile(root+"/devices/"+path+"/numa_node", []byte(node), 0o644))
		}
	}
	device("pci0000:00", "7\n")
	device("pci0000:00/0000:00:03.0", "1\n")
	device("pci0000:00/0000:00:03.0/virtio2", "")
	device("pci0000:00/0000:00:04.0", "-1\n")
	device("pci0000:00/0000:00:05.0", "many\n")
	device("pci0000:00/0000:00:06.0", "1024\n")
	device("platform/eth", "")
	for name, path := range map[string]string{
		"direct": "pci0000:00/0000:00:03.0", "climbs": "pci0000:00/0000:00:03.0/virtio2", "minus": "pci0000:00/0000:00:04.0",
		"words": "pci0000:00/0000:00:05.0", "beyond": "pci0000:00/0000:00:06.0", "none": "platform/eth",
	} {
		require.NoError(t, os.MkdirAll(root+"/class/net/"+name, 0o755))
		require.NoError(t, os.Symlink(root+"/devices/"+path, root+"/class/net/"+name+"/device"))
	}
	require.NoError(t, os.MkdirAll(root+"/class/net/virtual", 0o755))

	for _, name := range []string{"direct", "climbs"} {
		node, why := interfaceNode(root, name)
		require.Empty(t, why, name)
		require.Equal(t, 1, node, name)
	}
	for name, says := range map[string]string{
		"minus": `numa_node says "-1"`, "words": `numa_node says "many"`, "beyond": `numa_node says "1024"`,
		"none": "its device tells none", "virtual": "virtual has no device", "absent": "absent has no device",
	} {
		_, why := interfaceNode(root, name)
		require.Contains(t, why, says)
	}
}

func TestHugePageSizes(t *testing.T) {
	root := t.TempDir()
	require.Empty(t, hugePageSizes(root))
	for _, name := range []string{"hugepages-1048576kB", "hugepages-2048kB", "hugepages-3kB", "hugepages-xkB"} {
		require.NoError(t, os.MkdirAll(root+"/kernel/mm/hugepages/"+name, 0o755))
	}
	require.Equal(t, []int{2 << 20, 1 << 30}, hugePageSizes(root))
	require.Equal(t, unix.MAP_HUGETLB|unix.MAP_HUGE_2MB, hugeFlags(2<<20))
	require.Equal(t, unix.MAP_HUGETLB|unix.MAP_HUGE_1GB, hugeFlags(1<<30))
	require.Equal(t, "256 huge pages of 2 MiB asked", asked(511<<20+1, 2<<20))
	require.Equal(t, "1 huge pages of 64 KiB asked", asked(1, 64<<10))
	require.Equal(t, "an unknown number free", freeHugePages(root, 2<<20))
	require.Equal(t, "policy unknown", transparent(root))
}

// A region in use must survive the start of a child process and be the parent's alone.
func TestRegionAcrossFork(t *testing.T) {
	r, err := NewRegion(RegionConfig{Bytes: 1 << 20})
	require.NoError(t, err)
	r.Bytes()[0] = 42
	require.NoError(t, exec.Command("/proc/self/exe", "-test.run", "^$").Run())
	require.Equal(t, byte(42), r.Bytes()[0])
	require.NoError(t, r.Close())
}

func codes(r *Region) []string {
	var all []string
	for _, n := range r.Notes() {
		all = append(all, n.Code)
	}
	return all
}

func TestRegionsOverlap(t *testing.T) {
	page := os.Getpagesize()
	memory := make([]byte, 4*page)
	region := func(from, n int) *Region {
		r, err := NewRegion(RegionConfig{Bytes: n, Memory: memory[from:]})
		require.NoError(t, err)
		return r
	}
	middle := region(page, page)
	for _, x := range []struct {
		from, n int
		want    bool
	}{{0, page, false}, {0, page + 1, true}, {0, 3 * page, true}, {page, page, true}, {page + 8, 8, true}, {2*page - 1, page, true}, {2 * page, page, false}} {
		require.Equal(t, x.want, middle.Overlaps(region(x.from, x.n)), x)
		require.Equal(t, x.want, region(x.from, x.n).Overlaps(middle), x)
	}
}
