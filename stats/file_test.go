package stats

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// newFile makes a file in a directory of the test's.
func newFile(t *testing.T, c Config) *File {
	if c.Directory == "" {
		c.Directory = filepath.Join(t.TempDir(), "stats")
	}
	f, err := Create(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func read(t *testing.T, path string) *Reader {
	r, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// word is where a counter of a section is.
func word(section, name string) int {
	at := 0
	for _, c := range SectionOf(section).Counters {
		if c.Name == name {
			return at
		}
		at += c.Words()
	}
	panic(name)
}

func TestReaderSeesWhatIsStored(t *testing.T) {
	f := newFile(t, Config{Sockets: 3})
	r := read(t, f.Path())
	p := f.Open(Pollers, nil, 1)
	b := f.Open(Rings, p, 7)
	b.SetInfo("kind=uring\nname=a=b\n")
	b.Counters()[word(Rings, "packets")] = 5
	list := r.Blocks(Rings)
	require.Len(t, list, 1)
	require.EqualValues(t, 5, list[0].Value("packets"))
	require.Equal(t, map[string]string{"kind": "uring", "name": "a=b"}, list[0].Info)
	require.EqualValues(t, 7, list[0].ID)
	require.Equal(t, r.Blocks(Pollers)[0].Index, list[0].Parent)
	b.Close()
	require.Empty(t, r.Blocks(Rings))
	closed := r.Closed(Rings)
	require.EqualValues(t, 5, closed.Value("packets"), "what a closed ring has counted is not lost")
	again := f.Open(Rings, p, 8)
	require.Zero(t, r.Blocks(Rings)[0].Value("packets"))
	again.Close()
}

func TestBlocksWithoutRoomAreCounted(t *testing.T) {
	f := newFile(t, Config{Sockets: 2})
	r := read(t, f.Path())
	a, b := f.Open(Sockets, nil, 3), f.Open(Sockets, nil, 4)
	require.Nil(t, f.Open(Sockets, nil, 5))
	require.EqualValues(t, 1, r.Unpublished(Sockets))
	a.Close()
	require.NotNil(t, f.Open(Sockets, nil, 6))
	require.NotNil(t, b)
	require.Len(t, r.Blocks(Sockets), 2)
}

func TestDriversNameTheirCounters(t *testing.T) {
	f := newFile(t, Config{})
	r := read(t, f.Path())
	b := f.Open(Drivers, nil, 1)
	b.SetNamed(0, "eth0.rx_lost", 3)
	b.SetNamed(1, "stack.delivered", 9)
	for i := 2; i < driverWidth+5; i++ {
		b.SetNamed(i, "x"+strconv.Itoa(i), uint64(i))
	}
	b.SetCount(driverWidth + 5)
	v := r.Blocks(Drivers)[0]
	require.EqualValues(t, 3, v.Totals["eth0.rx_lost"])
	require.EqualValues(t, 9, v.Totals["stack.delivered"])
	require.Equal(t, 5, v.Unnamed)
	require.Len(t, v.Names, driverWidth)
	require.Equal(t, "rx_lost", SectionOf(Drivers).Find("eth0/2.rx_lost").Name)
}

// Zero stores a baseline: what is counted goes on.
func TestZeroKeepsTheSources(t *testing.T) {
	f := newFile(t, Config{Sockets: 4, Control: true})
	c, err := f.Serve(nil, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	r := read(t, f.Path())
	a, b := f.Open(Sockets, nil, 3), f.Open(Sockets, nil, 4)
	packets := word(Sockets, "packets")
	a.Counters()[packets], b.Counters()[packets] = 10, 20
	ask(t, r, "zero", ZeroRequest{Sockets: []uint64{3}})
	values := func() (list []uint64) {
		for _, v := range r.Blocks(Sockets) {
			list = append(list, v.Value("packets"), v.Totals["packets"])
		}
		return list
	}
	require.Equal(t, []uint64{0, 10, 20, 20}, values())
	a.Counters()[packets]++
	ask(t, r, "zero", nil)
	b.Counters()[packets]++
	require.Equal(t, []uint64{0, 11, 1, 21}, values())
	require.Equal(t, []string{"zero", "zero"}, kinds(r))
	ask(t, r, "zero", ZeroRequest{Undo: true})
	require.Equal(t, []uint64{11, 11, 21, 21}, values())
}

// A gauge has no baseline, whether the section's table names it or the block does.
func TestZeroLeavesGauges(t *testing.T) {
	f := newFile(t, Config{})
	r := read(t, f.Path())
	b := f.Open(Drivers, nil, 1)
	b.SetNamed(0, "tcp.connections", 3)
	b.SetNamed(1, "eth0.rx_lost", 3)
	b.SetNamed(2, "of_no_table", 3)
	b.SetCount(3)
	f.Zero(ZeroRequest{})
	v := r.Blocks(Drivers)[0]
	require.Equal(t, []uint64{3, 0, 0}, []uint64{v.Value("tcp.connections"), v.Value("eth0.rx_lost"), v.Value("of_no_table")})
}

// The sleep under way at the baseline is subtracted up to there: its owner adds the whole of it when it ends.
func TestZeroInASleep(t *testing.T) {
	f := newFile(t, Config{})
	r := read(t, f.Path())
	poller := f.Open(Pollers, nil, 1).Counters()
	begin := time.Now().Add(-time.Minute)
	poller[word(Pollers, "sleep_time")], poller[word(Pollers, "asleep_since")] = uint64(time.Second), uint64(begin.UnixNano())
	f.Zero(ZeroRequest{})
	zeroed := time.Since(begin)
	poller[word(Pollers, "sleep_time")], poller[word(Pollers, "asleep_since")] = uint64(time.Second+zeroed+3*time.Second), 0
	v := r.Blocks(Pollers)[0]
	require.InDelta(t, 3*time.Second, time.Duration(v.Value("sleep_time")), float64(time.Second))
}

func ask(t *testing.T, r *Reader, do string, with any) string {
	in, err := r.Ask(do, with)
	require.NoError(t, err)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	return string(text)
}

func kinds(r *Reader) (list []string) {
	for _, e := range r.Events() {
		list = append(list, e.Kind)
	}
	return list
}

func TestEightDeadFilesStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	var paths []string
	for range 11 {
		f, err := Create(Config{Directory: dir})
		require.NoError(t, err)
		require.NoError(t, f.Close())
		paths = append(paths, f.Path())
	}
	f := newFile(t, Config{Directory: dir})
	list, err := List(dir)
	require.NoError(t, err)
	require.Len(t, list, 1+keepDead)
	require.Equal(t, Entry{Path: f.Path(), Process: os.Getpid(), Made: list[0].Made, Live: true}, list[0])
	for i, e := range list[1:] {
		require.Equal(t, paths[len(paths)-1-i], e.Path)
		require.False(t, e.Live)
	}
}

// In a directory of several users, root's with the sticky bit, each removes what it may, and publishes. Names of files that are none of
// the library's change nothing.
func TestFilesOfOtherUsersStay(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "root", "the user is changed")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "stats") // which that user may enter
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	past := time.Now().Add(-2 * draftAge)
	dead := func(name string, owner int) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, os.Chmod(path, 0o644)) // whatever the umask is
		require.NoError(t, os.Chown(path, owner, owner))
		require.NoError(t, os.Chtimes(path, past, past))
		return path
	}
	roots, theirs := []string{dead("sxstat.8.1.new", 0)}, []string{dead("sxstat.9.1.new", nobody)}
	for i := range 9 {
		roots = append(roots, dead(fmt.Sprintf("sxstat.8.%d", 100+i), 0))
	}
	for i := range 3 {
		theirs = append(theirs, dead(fmt.Sprintf("sxstat.9.%d", 10+i), nobody))
	}
	others := []string{filepath.Join(dir, "sxstat.8.201"), filepath.Join(dir, "sxstat.8.202"), filepath.Join(dir, "sxstat.8.9")}
	require.NoError(t, os.Symlink("/nothing", others[0]))
	socket, err := net.Listen("unix", others[1])
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t, os.MkdirAll(filepath.Join(others[2], "sub"), 0o755))

	_, path := start(t, "STATS_TEST_VICTIM="+dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
	require.FileExists(t, path, "it publishes")
	for _, path := range theirs {
		require.NoFileExists(t, path)
	}
	for _, path := range roots {
		require.FileExists(t, path)
	}
	require.NoError(t, Clean(dir))
	for _, path := range roots[:2] {
		require.NoFileExists(t, path, "the draft, and the oldest of nine")
	}
	for _, path := range roots[2:] {
		require.FileExists(t, path)
	}
	for _, path := range others {
		_, err := os.Lstat(path)
		require.NoError(t, err)
	}
}

// A directory in which others may make files, and not list them, is published into as well.
func TestDirectoryThatCannotBeListed(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "root", "the user is changed")
	}
	dir, err := os.MkdirTemp("/tmp", "stats")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o733|os.ModeSticky))
	_, path := start(t, "STATS_TEST_VICTIM="+dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	require.FileExists(t, path)
}

// A file that a process was killed over while it made it goes, when it is old enough to be none that is being made.
func TestDraftsOfKilledProcessesGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	require.NoError(t, os.Mkdir(dir, 0o700))
	old, fresh := filepath.Join(dir, "sxstat.7.1.new"), filepath.Join(dir, "sxstat.7.2.new")
	for _, path := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	past := time.Now().Add(-2 * draftAge)
	require.NoError(t, os.Chtimes(old, past, past))
	require.NoError(t, Clean(dir))
	require.NoFileExists(t, old)
	require.FileExists(t, fresh)
}

func TestModesOfFileAndDirectory(t *testing.T) {
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	f := newFile(t, Config{Control: true})
	require.Equal(t, os.FileMode(0o600), mode(f.Path()))
	require.Equal(t, os.FileMode(0o700), mode(filepath.Dir(f.Path())))
	g := newFile(t, Config{Group: strconv.Itoa(os.Getegid())})
	require.Equal(t, os.FileMode(0o640), mode(g.Path()))
	require.Equal(t, os.FileMode(0o750), mode(filepath.Dir(g.Path())))

	for _, none := range []string{"4294967295", "4294967296", "-1"} { // chown(2) takes the first for "leave it as it is"
		_, err := Create(Config{Directory: filepath.Join(t.TempDir(), "stats"), Group: none})
		require.ErrorContains(t, err, "group "+none)
	}

	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o777))
	_, err := Create(Config{Directory: open})
	require.ErrorContains(t, err, "writable for others")
	_, err = Create(Config{Directory: filepath.Join(open, "a"), Group: "no such group"})
	require.ErrorContains(t, err, "no such group")
	_, err = Create(Config{Directory: f.Path()})
	require.ErrorContains(t, err, "no directory")
	link := filepath.Join(open, "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	_, err = Create(Config{Directory: link})
	require.ErrorContains(t, err, "no directory")
}

// A directory that was made for its owner alone is opened for the group that is to read; one that is open to another group is refused, since the
// group could not read in it.
func TestTheGroupIsLetIntoADirectoryThatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	newFile(t, Config{Directory: dir})
	newFile(t, Config{Directory: dir, Group: strconv.Itoa(os.Getegid())})
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode().Perm())
	require.EqualValues(t, os.Getegid(), info.Sys().(*syscall.Stat_t).Gid)
	const other = 424242
	_, err = Create(Config{Directory: dir, Group: strconv.Itoa(other)})
	require.ErrorIs(t, err, syscall.EPERM)
	require.ErrorContains(t, err, "is closed to group 424242, which is to read there")
	require.NoError(t, os.Chmod(dir, 0o755))
	if os.Geteuid() == 0 { // who may give files to any group
		newFile(t, Config{Directory: dir, Group: strconv.Itoa(other)})
	}
}

func TestOtherLayoutsAreRefused(t *testing.T) {
	f := newFile(t, Config{})
	whole, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "x")
	for _, test := range []struct {
		name  string
		spoil func([]byte) []byte
		want  string
	}{
		{"empty", func(b []byte) []byte { return nil }, "0 bytes"},
		{"magic", func(b []byte) []byte { b[0]++; return b }, "begins with"},
		{"layout", func(b []byte) []byte { b[8*headLayout] = LayoutVersion + 1; return b }, "layout 2"},
		{"cut", func(b []byte) []byte { return b[:len(b)/2] }, "bytes of"},
		{"description", func(b []byte) []byte { b[8*pageWords] = 'x'; return b }, "description"},
		{"outside", func(b []byte) []byte { b[8*headDescription+6] = 1; return b }, "description of"},
		{"blocks", func(b []byte) []byte {
			text := strings.Replace(string(b), `"blocks":65`, `"blocks":99999999999`, 1)
			n := len(text) - len(b)
			b = []byte(text)[:len(b)]
			length := b[8*headDescriptionLength:]
			binary.NativeEndian.PutUint64(length, binary.NativeEndian.Uint64(length)+uint64(n))
			return b
		}, "outside a file"},
	} {
		require.NoError(t, os.WriteFile(path, test.spoil(slices.Clone(whole)), 0o600))
		_, err := Open(path)
		require.ErrorIs(t, err, ErrLayout, test.name)
		require.ErrorContains(t, err, test.want, test.name)
	}
}

// TestMain runs the tests, or, in a process that a test has started, what that test asks for: victim counts in a file until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STATS_TEST_VICTIM"); dir != "" {
		victim(dir)
	}
	if path := os.Getenv("STATS_TEST_READER"); path != "" {
		readOther(path)
	}
	os.Exit(m.Run())
}

func victim(dir string) {
	f, err := Create(Config{Directory: dir, Control: true})
	if err == nil {
		_, err = f.Serve(nil, nil)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b := f.Open(Rings, nil, 1)
	b.Counters()[word(Rings, "packets")] = 41
	f.Note(EventNote, b, 2, "before the end")
	b.Counters()[word(Rings, "packets")]++ // the last thing it does
	fmt.Println(f.Path())
	select {}
}

// start runs this test's binary as another process and returns the line that it prints first.
func start(t *testing.T, environment string, attr *syscall.SysProcAttr) (*exec.Cmd, string) {
	c := exec.Command("/proc/self/exe")
	c.Env, c.SysProcAttr, c.Stderr = append(os.Environ(), environment), attr, os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	line := make([]byte, 4096)
	n, err := out.Read(line)
	require.NoError(t, err)
	return c, strings.TrimSpace(string(line[:n]))
}

func TestKilledProcessIsReadAsItWas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	c, path := start(t, "STATS_TEST_VICTIM="+dir, nil)
	r := read(t, path)
	live, err := r.Live()
	require.NoError(t, err)
	require.True(t, live)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	p, err := r.Process()
	require.NoError(t, err)
	require.False(t, p.Live)
	require.False(t, p.Closed, "it had no time to")
	require.WithinDuration(t, time.Now(), p.Last, time.Minute)
	require.EqualValues(t, 42, r.Blocks(Rings)[0].Value("packets"))
	require.Equal(t, "before the end", r.Events()[0].Text)
	_, err = r.Ask("zero", nil)
	require.ErrorContains(t, err, "ended")
}

// readOther is a process that reads another one's file, and prints what it finds.
func readOther(path string) {
	r, err := Open(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(0)
	}
	p, err := r.Process()
	fmt.Println(os.Getpid(), p.Live, r.Blocks(Rings)[0].Value("packets"), err)
	os.Exit(0)
}

func TestReaderInAnotherProcessNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "namespaces", "they are for root")
	}
	dir := filepath.Join(t.TempDir(), "stats")
	_, path := start(t, "STATS_TEST_VICTIM="+dir, nil)
	_, line := start(t, "STATS_TEST_READER="+path, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	require.Equal(t, "1 true 42 <nil>", line, "process 1 of its namespace finds the other one alive")

	// And the other way round: the writer is process 1 of a namespace, and process 1 here is another one.
	inner := filepath.Join(t.TempDir(), "stats")
	c, path := start(t, "STATS_TEST_VICTIM="+inner, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	r := read(t, path)
	p, err := r.Process()
	require.NoError(t, err)
	require.True(t, p.Live)
	require.Equal(t, 1, p.ID)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	p, err = r.Process()
	require.NoError(t, err)
	require.False(t, p.Live)
}

// In a directory with the sticky bit its owner may still remove and replace files, as root may in every directory.
func TestStickyDirectoryOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "root", "the owner is changed")
	}
	dir := t.TempDir() + "/stats"
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	require.NoError(t, makeDirectory(dir, -1), "root's, as /tmp")
	require.NoError(t, os.Chown(dir, 65534, 65534))
	require.ErrorContains(t, makeDirectory(dir, -1), "belongs to user 65534")
}

// A directory that is opened for a group stays as safe as it was, and the members of the group may list it in any case.
func TestDirectoryIsOpenedForGroup(t *testing.T) {
	group := os.Getegid()
	for _, x := range []struct{ is, want os.FileMode }{
		{0o700, 0o750},
		{0o730 | os.ModeSticky, 0o770 | os.ModeSticky}, // without the bit others of the group could replace files
		{0o705, 0o755}, // the kernel looks at a member's bits of the group, not at those of others
	} {
		dir := filepath.Join(t.TempDir(), "stats")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chown(dir, -1, group))
		require.NoError(t, os.Chmod(dir, x.is))
		for range 2 { // the second time nothing is left to do
			require.NoError(t, makeDirectory(dir, group), x.is)
			info, err := os.Stat(dir)
			require.NoError(t, err)
			require.Equal(t, x.want, info.Mode()&^os.ModeDir, x.is)
		}
	}
}

// A directory that has other things than statistics, such as a home directory, is not opened for a group.
func TestDirectoryOfOtherThingsIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letters"), nil, 0o600))
	_, err := Create(Config{Directory: dir, Group: strconv.Itoa(os.Getegid())})
	require.ErrorIs(t, err, syscall.EPERM)
	require.ErrorContains(t, err, "letters")
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// A directory that cannot be given to the group stays as it was: a later start, with the rights, makes or opens it.
func TestDirectoryOfAGroupThatOneIsNotIn(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root gives a directory to any group")
	}
	const roots = 0
	made := filepath.Join(t.TempDir(), "made")
	require.ErrorIs(t, makeDirectory(made, roots), fs.ErrPermission)
	require.NoDirExists(t, made)
	there := filepath.Join(t.TempDir(), "there")
	require.NoError(t, os.Mkdir(there, 0o700))
	require.ErrorIs(t, makeDirectory(there, roots), fs.ErrPermission)
	info, err := os.Stat(there)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "root", "the user is changed")
	}
	// A directory that everybody may enter: the file and the socket themselves refuse.
	dir, err := os.MkdirTemp("/tmp", "stats")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	f := newFile(t, Config{Directory: dir, Control: true})
	refused := make(chan error, 1)
	c, err := f.Serve(nil, func(err error) { refused <- err })
	require.NoError(t, err)
	defer c.Close()
	_, line := start(t, "STATS_TEST_READER="+f.Path(), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	require.Contains(t, line, "permission denied")

	// Even with the file modes opened by hand the socket looks at who asks.
	require.NoError(t, os.Chmod(f.Path(), 0o644))
	require.NoError(t, os.Chmod(f.Path()+controlSuffix, 0o666))
	_, line = start(t, "STATS_TEST_ASKER="+f.Path(), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	require.Contains(t, line, "user 65534 may not control a process of user 0")
	require.ErrorContains(t, <-refused, "65534")
}

func init() {
	path := os.Getenv("STATS_TEST_ASKER")
	if path == "" {
		return
	}
	r, err := Open(path)
	if err == nil {
		_, err = r.Ask("zero", nil)
	}
	fmt.Println(err)
	os.Exit(0)
}

func TestRequestsThatAreNoneGetAnError(t *testing.T) {
	f := newFile(t, Config{Control: true})
	c, err := f.Serve(nil, nil)
	require.NoError(t, err)
	defer c.Close()
	r := read(t, f.Path())
	_, err = r.Ask("nonsense", nil)
	require.ErrorContains(t, err, "nonsense")
	_, err = r.Ask("zero", "text")
	require.ErrorContains(t, err, "zero")
}

// A directory may be so deep that the path of the socket in it does not fit in an address of unix(7).
func TestControlSocketInALongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "stats")
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	f := newFile(t, Config{Directory: dir, Control: true})
	c, err := f.Serve(nil, nil)
	require.NoError(t, err)
	r := read(t, f.Path())
	_, err = r.Ask("zero", nil)
	require.NoError(t, err)
	require.FileExists(t, f.Path()+controlSuffix)
	require.NoError(t, c.Close())
	require.NoFileExists(t, f.Path()+controlSuffix)
}

// Numbers of a description that are so large that sums and products of them overflow are refused, too.
func TestDescriptionThatOverflows(t *testing.T) {
	for name, change := range map[string]func(d *Description, host *SectionLayout){
		"offset of a section": func(_ *Description, h *SectionLayout) { h.Offset = math.MaxInt },
		"info of a section":   func(_ *Description, h *SectionLayout) { h.Info = math.MaxInt },
		"names of a section":  func(_ *Description, h *SectionLayout) { h.Names = math.MaxInt/h.Width + 1 },
		"offset of samples":   func(d *Description, _ *SectionLayout) { d.Samples.Offset = math.MaxInt },
		"counters of samples": func(d *Description, _ *SectionLayout) { d.Host = math.MaxInt },
		"offset of events":    func(d *Description, _ *SectionLayout) { d.Journal.Offset = math.MaxInt },
	} {
		d, words := describe(4)
		require.NoError(t, d.check(words))
		change(&d, &d.Sections[slices.IndexFunc(d.Sections, func(s SectionLayout) bool { return s.Name == Host })])
		require.Error(t, d.check(words), name)
	}
}
