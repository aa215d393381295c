package xdp

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// fakeCard is a network card's table of rules.
type fakeCard struct {
	places  map[uint32][specBytes]byte
	size    int
	chooses bool
	fails   error // of the next insertion
	absent  bool
}

func (c *fakeCard) table() (int, bool, error) {
	if c.absent {
		return 0, false, unix.EOPNOTSUPP
	}
	return c.size, c.chooses, nil
}

func (c *fakeCard) locations(int) (all []uint32, err error) {
	for l := range c.places {
		all = append(all, l)
	}
	slices.Sort(all)
	return all, nil
}

func (c *fakeCard) read(l uint32) ([specBytes]byte, error) {
	s, ok := c.places[l]
	if !ok {
		return s, unix.ENOENT
	}
	return s, nil
}

func (c *fakeCard) insert(s [specBytes]byte, l uint32) (uint32, error) {
	if c.fails != nil {
		return l, c.fails
	}
	if l == locationAny {
		for l = 0; c.places[l] != [specBytes]byte{}; l++ {
		}
	}
	c.places[l] = s
	return l, nil
}

func (c *fakeCard) remove(l uint32) error {
	if _, ok := c.places[l]; !ok {
		return unix.ENOENT
	}
	delete(c.places, l)
	return nil
}

func newCard(size int) *fakeCard { return &fakeCard{places: map[uint32][specBytes]byte{}, size: size} }

func flowTo(port string) Flow { return Flow{Protocol: link.UDP, Local: ap("10.0.0.1:" + port)} }

// The bytes that the kernel takes, field by field.
func TestRuleEncoding(t *testing.T) {
	require.EqualValues(t, requestBytes, unsafe.Offsetof(ruleRequest{}.count)+4)
	require.EqualValues(t, 16, unsafe.Offsetof(ruleRequest{}.spec))
	s, err := rule{Flow: Flow{Protocol: link.UDP, VLAN: 5, Local: ap("10.0.0.1:258"), Remote: ap("10.0.0.2:772")}, Queue: 7}.spec()
	require.NoError(t, err)
	want := [specBytes]byte{}
	binary.NativeEndian.PutUint32(want[:], 0x80000002)
	copy(want[4:], []byte{10, 0, 0, 2, 10, 0, 0, 1, 3, 4, 1, 2})
	copy(want[56+10:], []byte{0, 5})
	for i := range 12 {
		want[76+i] = 0xff
	}
	copy(want[128+10:], []byte{0x0f, 0xff})
	binary.NativeEndian.PutUint64(want[152:], 7)
	require.Equal(t, want, s)

	s, err = rule{Flow: Flow{Protocol: link.TCP, Local: ap("0.0.0.0:80")}}.spec()
	require.NoError(t, err)
	want = [specBytes]byte{}
	binary.NativeEndian.PutUint32(want[:], 1)
	copy(want[4+10:], []byte{0, 80})
	copy(want[76+10:], []byte{0xff, 0xff})
	require.Equal(t, want, s)

	_, err = rule{Flow: flowTo("1"), Queue: -1}.spec()
	require.ErrorContains(t, err, "queue -1")
	_, err = rule{}.spec()
	require.ErrorContains(t, err, "Local")
}

func TestRules(t *testing.T) {
	for _, chooses := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "rules")
		c := newCard(4)
		c.chooses = chooses
		admin, err := rule{Flow: flowTo("22"), Queue: 1}.spec()
		require.NoError(t, err)
		c.places[0] = admin
		r, err := openRules(c, dir, "eth0-")
		require.NoError(t, err)
		require.NoError(t, r.steer(flowTo("22"), 1), "it is there")
		require.Len(t, c.places, 1)
		for _, p := range []string{"1", "2", "3"} {
			require.NoError(t, r.steer(flowTo(p), 2))
			require.NoError(t, r.steer(flowTo(p), 2))
		}
		require.Len(t, c.places, 4)
		if !chooses {
			err := r.steer(flowTo("4"), 2)
			refused(t, err, ReasonNoRules)
			require.ErrorIs(t, err, unix.ENOSPC)
		}
		require.NoError(t, r.unsteer(flowTo("2")))
		require.ErrorIs(t, r.unsteer(flowTo("2")), ErrNoClaim)
		require.ErrorIs(t, r.unsteer(flowTo("22")), ErrNoClaim, "somebody else's")
		c.fails = unix.EINVAL
		refused(t, r.steer(flowTo("2"), 2), ReasonNoRules)
		c.fails = nil
		require.NoError(t, r.steer(flowTo("2"), 3))

		// Another process on the same interface leaves the rules of a living one alone.
		other, err := openRules(c, dir, "eth0-")
		require.NoError(t, err)
		require.Len(t, c.places, 4)
		require.NoError(t, other.close())

		delete(c.places, r.ours[0].Location) // the administrator was faster
		require.NoError(t, r.close())
		require.Equal(t, map[uint32][specBytes]byte{0: admin}, c.places)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// What a process that died left in the card is removed by the next: its rules only, wherever they are now.
func TestRulesAfterACrash(t *testing.T) {
	dir := t.TempDir()
	c := newCard(8)
	r, err := openRules(c, dir, "eth0-")
	require.NoError(t, err)
	admin, err := rule{Flow: flowTo("22"), Queue: 1}.spec()
	require.NoError(t, err)
	c.places[7] = admin
	require.NoError(t, r.steer(flowTo("1"), 2))
	require.NoError(t, r.steer(flowTo("2"), 2))
	// The process ends: its lock goes, its file and rules stay. One rule was noted but never inserted, the last line is half written.
	text, err := os.ReadFile(r.name)
	require.NoError(t, err)
	never, err := json.Marshal(rule{Flow: flowTo("3"), Queue: 2})
	require.NoError(t, err)
	text = append(append(text, never...), "\n{\"Flow\":{\"Prot"...)
	require.NoError(t, os.WriteFile(r.name, text, 0o600))
	require.NoError(t, r.file.Close())
	foreign := filepath.Join(dir, "eth1-1")
	require.NoError(t, os.WriteFile(foreign, text, 0o600))
	fresh, old := filepath.Join(dir, "eth0-2.new"), filepath.Join(dir, "eth0-3.new")
	for _, name := range []string{fresh, old} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)))

	_, err = openRules(c, dir, "eth0-")
	require.NoError(t, err)
	require.Equal(t, map[uint32][specBytes]byte{7: admin}, c.places)
	require.NoFileExists(t, r.name)
	require.NoFileExists(t, old)
	require.FileExists(t, foreign, "another interface's")
	require.FileExists(t, fresh)
}

// A veth has no table of rules, and says so through the real interface too.
func TestNoRules(t *testing.T) {
	c := newCard(4)
	c.absent = true
	_, err := openRules(c, t.TempDir(), "x-")
	refused(t, err, ReasonNoRules)
	real, err := newEthtool("lo")
	require.NoError(t, err)
	defer func() { require.NoError(t, real.close()) }()
	_, err = openRules(real, t.TempDir(), "lo-")
	require.True(t, errors.Is(refused(t, err, ReasonNoRules), unix.EOPNOTSUPP), "%v", err)
}
