package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// counted is a link that has lost frames, as the test says.
type counted struct {
	link.Link
	name  string
	queue int
	lost  uint64
}

func (c *counted) Info() link.Info   { return link.Info{Name: c.name, Queue: c.queue} }
func (c *counted) Stats() link.Stats { return link.Stats{RxLost: c.lost} }

// world is a recorder with frames to record.
type world struct {
	*require.Assertions
	t    testing.TB
	pool *buffers.DriverPool
	rec  *Recorder
}

func newWorld(t testing.TB, c Config) *world {
	t.Helper()
	w := &world{Assertions: require.New(t), t: t}
	l := buffers.Layout{SmallSize: 2048, SmallCount: 128, Headroom: 64}
	r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	w.NoError(err)
	w.pool, err = buffers.New(r.Bytes(), l)
	w.NoError(err)
	w.rec, err = New(c)
	w.NoError(err)
	t.Cleanup(func() {
		require.NoError(t, w.rec.Close())
		require.NoError(t, r.Close())
	})
	return w
}

// frames are received frames with texts.
func (w *world) frames(texts ...string) (list []link.Frame) {
	for _, text := range texts {
		p, err := w.pool.Alloc(len(text))
		w.NoError(err)
		copy(p.Bytes(), text)
		w.NoError(p.SetLen(len(text)))
		list = append(list, link.Frame{Packet: p})
	}
	return list
}

func (w *world) release(list []link.Frame) {
	for _, f := range list {
		w.NoError(f.Packet.Release())
	}
}

// receive records frames as one burst.
func (w *world) receive(t *Tap, texts ...string) {
	list := w.frames(texts...)
	t.Received(list, maxBatch)
	t.Commit()
	w.release(list)
}

// read is what the recorder has, read back from a file.
func (w *world) read(o WriteOptions) []frame {
	var b bytes.Buffer
	_, err := Write(&b, []*Recorder{w.rec}, o)
	w.NoError(err)
	return readBack(w.t, &b)
}

// frame is one as a reader of the format sees it.
type frame struct {
	text     string
	length   int
	at       time.Time
	name     string
	queue    uint32
	out      bool
	lost     uint64
	comments []string
}

func readBack(t testing.TB, in io.Reader) (list []frame) {
	t.Helper()
	r, err := pcapgo.NewNgReader(in, pcapgo.DefaultNgReaderOptions)
	require.NoError(t, err)
	for {
		b, ci, o, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		i, err := r.Interface(ci.InterfaceIndex)
		require.NoError(t, err)
		f := frame{text: string(b), length: ci.Length, at: ci.Timestamp, name: i.Name, out: o.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound,
			comments: o.Comments}
		if o.Queue != nil {
			f.queue = *o.Queue
		}
		if o.DropCount != nil {
			f.lost = *o.DropCount
		}
		list = append(list, f)
	}
}

func texts(list []frame) (all []string) {
	for _, f := range list {
		all = append(all, f.text)
	}
	return all
}

// Frames are there with interface, queue, direction, length and time; the reason of a drop stands at the frame that was dropped.
func TestRecord(t *testing.T) {
	w := newWorld(t, Config{Memory: 1 << 20, Snap: 6})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0", queue: 3}, w.pool)
	before := time.Now()
	list := w.frames("first frame", "second frame", "third frame")
	a.Received(list, maxBatch)
	a.Dropped(1, wire.UDPBudget)
	a.Commit()
	w.release(list)
	out := w.frames("answer", "not taken")
	a.Sending([]link.Out{{Packet: out[0].Packet}, {Packet: out[1].Packet}})
	a.Sent(1)
	w.release(out)
	w.receive(a, "last")
	got := w.read(WriteOptions{})
	w.Equal([]string{"first ", "second", "third ", "answer", "last"}, texts(got))
	for i, f := range got {
		w.Equal("eth0", f.name)
		w.Equal(uint32(3), f.queue)
		w.Equal(i == 3, f.out)
		w.WithinRange(f.at, before.Add(-time.Millisecond), time.Now().Add(time.Millisecond))
		if i == 1 {
			w.Len(f.comments, 1)
			w.Contains(f.comments[0], "dropped: udp.budget: ")
			w.Contains(f.comments[0], "RcvbufErrors")
		} else {
			w.Empty(f.comments, f.text)
		}
	}
	w.Equal(11, got[0].length)
}

// What a link has lost is counted at the next frame: after the ring was emptied, if it was full.
func TestLossesOfAFullRing(t *testing.T) {
	if !clock.HasTicks {
		testnet.Missing(t, "ticks", "a counter of the processor")
	}
	w := newWorld(t, Config{Memory: 1 << 20})
	l := &counted{name: "eth0", lost: 1000}
	a := w.rec.Scope("main").Tap(l, w.pool)
	w.receive(a, "before") // what was lost before the recorder is none of its business
	full := make([]string, maxBatch)
	for i := range full {
		full[i] = fmt.Sprint("full ", i)
	}
	w.receive(a, full...)
	l.lost = 1007
	w.receive(a, "rest of the ring")
	w.receive(a, "behind the gap")
	got := w.read(WriteOptions{})
	var lost uint64
	for _, f := range got[:len(got)-2] {
		w.Zero(f.lost, f.text)
	}
	for _, f := range got[len(got)-2:] { // a slow machine asks after the millisecond: one frame early
		lost += f.lost
	}
	w.Equal(uint64(7), lost)
	w.Equal([]string{"rest of the ring", "behind the gap"}, texts(got[len(got)-2:]))
}

// The memory keeps the last frames: older ones are written over, and a reader that was too slow is told how many it missed.
func TestTheLastFramesStay(t *testing.T) {
	w := newWorld(t, Config{Memory: 4 * chunkSize})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	c := newCursor(w.rec)
	text := strings.Repeat("x", 1000)
	const n = 2000 // four times what there is room for
	read := 0
	for i := range n {
		w.receive(a, fmt.Sprintf("%04d %s", i, text))
		if i == 10 {
			read = len(c.next(false))
		}
	}
	w.Equal(11, read)
	got := w.read(WriteOptions{})
	w.Less(len(got), n/2)
	w.Greater(len(got), 300)
	for i, f := range got {
		w.Equal(fmt.Sprintf("%04d", n-len(got)+i), f.text[:4])
	}
	rest := c.next(true)
	w.Equal(n-11, len(rest)+int(rest[0].Missing))
}

// A reader that comes while a tap goes from one chunk to the next reads the end of the one before the beginning of the other: no frame seems to
// be missing, and none comes twice.
func TestReadWhileRecording(t *testing.T) {
	w := newWorld(t, Config{Memory: 64 * chunkSize})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	c := newCursor(w.rec)
	text := strings.Repeat("x", 1000)
	const n = 20000
	var read atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		for i := range n {
			for int64(i) > read.Load()+3000 { // of about 7,000 that there is room for
				time.Sleep(time.Millisecond)
			}
			w.receive(a, fmt.Sprintf("%05d %s", i, text))
		}
	})
	defer group.Wait()
	defer read.Store(n) // whatever comes, the other goroutine ends
	for next := 0; next < n; {
		for _, r := range c.next(false) {
			w.Zero(r.Missing, "before frame %d", next)
			w.Equal(fmt.Sprintf("%05d", next), string(r.Bytes[:5]))
			next++
		}
		read.Store(int64(next))
	}
}

// A burst whose records lie in two chunks is published by one Commit. A reader that is between the two chunks then reads no record of the newer
// chunk before those of the older one, whichever chunks they are.
func TestCommitWhileChunksAreRead(t *testing.T) {
	const chunks, perChunk = 4, chunkSize / (headSize + 2000)
	for other := range chunks { // chunks that another tap has taken since the older one
		for at := 1; at <= chunks; at++ {
			w := newWorld(t, Config{Memory: chunks * chunkSize})
			a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
			c := newCursor(w.rec)
			sent := 0
			frames := func(n int) []link.Frame {
				list := make([]string, n)
				for i := range list {
					list[i] = fmt.Sprintf("%01992d%08d", 0, sent)
					sent++
				}
				return w.frames(list...)
			}
			list := frames(perChunk - 10)
			a.Received(list, maxBatch)
			a.Commit()
			w.release(list)
			for range other {
				b := w.rec.Scope("main").Tap(&counted{name: "eth1"}, w.pool)
				w.receive(b, "other")
				b.Close()
			}
			list = frames(20)
			a.Received(list, maxBatch)
			left, seen := at, 0
			c.chunkRead = func() {
				if left--; left == 0 {
					a.Commit()
				}
			}
			for range 2 {
				read := c.next(false)
				if left > 0 {
					left = 0
					a.Commit()
				}
				for _, r := range read {
					if r.Interface == "eth0" {
						w.Zero(r.Missing, "before frame %d", seen)
						w.Equal(fmt.Sprintf("%08d", seen), string(r.Bytes[len(r.Bytes)-8:]))
						seen++
					}
				}
			}
			w.Equal(sent, seen, "the Commit after %d chunks, %d of another tap", at, other)
			w.release(list)
		}
	}
}

// A stream may have written the frame before an event when it reads the event: then the next frame gets the comment.
func TestEventsWhoseFrameWasRead(t *testing.T) {
	w := newWorld(t, Config{Memory: 1 << 20})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	c := newCursor(w.rec)
	w.receive(a, "first")
	require.Len(t, c.next(false), 1)
	w.rec.Note("line A: 5 to 7 are missing", false)
	require.Empty(t, c.next(false))
	w.receive(a, "second")
	list := c.next(false)
	require.Len(t, list, 1)
	require.Equal(t, []string{"line A: 5 to 7 are missing"}, list[0].Comments)
}

// Events of a loop are comments of its own next frame; those of the program of the last frame before.
func TestEventsAreComments(t *testing.T) {
	w := newWorld(t, Config{Memory: 1 << 20})
	main, other := w.rec.Scope("main"), w.rec.Scope("other")
	a, b := main.Tap(&counted{name: "eth0"}, w.pool), other.Tap(&counted{name: "eth1"}, w.pool)
	pause := func() { time.Sleep(time.Millisecond) }
	w.receive(a, "a1")
	pause()
	main.Gap(3*time.Millisecond, "garbage collection")
	pause()
	w.receive(b, "b1")
	w.receive(a, "a2")
	pause()
	w.rec.Note("line A: 5 to 7 are missing", false)
	pause()
	w.receive(b, "b2")
	other.Note("path: kernel")
	got := w.read(WriteOptions{})
	w.Equal([]string{"a1", "b1", "a2", "b2"}, texts(got))
	w.Empty(got[0].comments)
	w.Empty(got[1].comments)
	w.Equal([]string{"gap of 3ms between two polls of main: garbage collection", "line A: 5 to 7 are missing"}, got[2].comments)
	w.Equal([]string{"path: kernel (after this frame)"}, got[3].comments)
}

// A stream has each frame once, also when writers fill chunk after chunk meanwhile.
func TestStream(t *testing.T) {
	w := newWorld(t, Config{})
	w.NoError(w.rec.Start(64*chunkSize, 0))
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	in, out, err := os.Pipe()
	w.NoError(err)
	done := make(chan struct{})
	var streamed Written
	var group sync.WaitGroup
	group.Go(func() {
		streamed, err = Stream(out, []*Recorder{w.rec}, WriteOptions{Done: done})
		_ = out.Close()
	})
	var got []frame
	group.Go(func() { got = readBack(t, in) })
	const n = 20000
	for i := range n {
		w.receive(a, fmt.Sprint(i))
		if i%1000 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	close(done)
	group.Wait()
	w.NoError(err)
	w.Zero(streamed.Missing)
	w.Len(got, n)
	for i, f := range got {
		w.Equal(fmt.Sprint(i), f.text)
	}
	w.rec.Stop()
	w.False(a.IsOn())
	_, err = Write(io.Discard, []*Recorder{w.rec}, WriteOptions{})
	w.ErrorIs(err, ErrOff)
}

// A drop writes a file with what was before it and what came after; others that follow are suppressed; old files make room.
func TestAlarms(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, Config{Memory: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Alarm: AlarmConfig{Directory: dir, After: 200 * time.Millisecond, Every: time.Hour, Quota: 8 * chunkSize}})
	old := filepath.Join(dir, "sxrecord.1.20000101T000000.000000000.pcapng")
	w.NoError(os.WriteFile(old, make([]byte, 5*chunkSize), 0o600))
	w.NoError(os.WriteFile(filepath.Join(dir, "another.pcapng"), make([]byte, 5*chunkSize), 0o600))
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	w.receive(a, "before")
	drop := func(text string, d wire.Drop) {
		list := w.frames(text)
		a.Received(list, maxBatch)
		a.Dropped(0, d)
		a.Commit()
		w.release(list)
	}
	drop("for another station", wire.EthernetNotOurs) // nothing lost
	time.Sleep(5 * lookEvery)
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(dir, filePrefix+"*"+fileSuffix))
		w.NoError(err)
		return list
	}
	w.Equal([]string{old}, files())
	drop("lost", wire.UDPSum)
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
		time.Sleep(time.Millisecond)
	}
	w.receive(a, "after")
	w.Eventually(func() bool { n, _ := w.rec.Alarms(); return n == 1 }, 20*time.Second, 5*time.Millisecond)
	list := files()
	w.Len(list, 1, "the old one made room")
	w.NotEqual(old, list[0])
	w.FileExists(filepath.Join(dir, "another.pcapng"), "of somebody else")
	file, err := os.Open(list[0])
	w.NoError(err)
	defer file.Close()
	info, err := file.Stat()
	w.NoError(err)
	w.Equal(os.FileMode(0o600), info.Mode())
	got := readBack(t, file)
	w.Equal([]string{"before", "for another station", "lost", "after"}, texts(got))
	w.Contains(got[2].comments[0], "udp.sum")
	drop("lost again", wire.UDPSum)
	w.Eventually(func() bool { _, n := w.rec.Alarms(); return n == 1 }, 20*time.Second, 5*time.Millisecond)
	w.Len(files(), 1)
}

// The file that a killed process was writing counts for the quota and goes first; one that is being written stays.
func TestFilesOfKilledProcessesMakeRoom(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, Config{Memory: 1 << 20, Log: slog.New(slog.DiscardHandler)})
	alarms := alarms{recorder: w.rec, config: AlarmConfig{Directory: dir, Quota: 8 * chunkSize}}
	name := func(process int) string {
		return filepath.Join(dir, fmt.Sprintf("sxrecord.%d.20000101T000000.000000000.pcapng.new", process))
	}
	w.NoError(os.WriteFile(name(1), make([]byte, 5*chunkSize), 0o600))
	w.NoError(os.WriteFile(name(2), make([]byte, 5*chunkSize), 0o600))
	for _, process := range []int{1, 2} {
		past := time.Now().Add(-2 * draftAge)
		w.NoError(os.Chtimes(name(process), past, past))
	}
	file, err := os.OpenFile(name(2), os.O_WRONLY, 0)
	w.NoError(err)
	defer file.Close()
	w.NoError(lockFile(file)) // as its writer does
	_, _, err = alarms.writeFile("a test", time.Now())
	w.NoError(err)
	w.NoFileExists(name(1), "nobody writes it")
	w.FileExists(name(2), "it is being written")
	w.NoError(file.Close())
	_, _, err = alarms.writeFile("a test", time.Now())
	w.NoError(err)
	w.NoFileExists(name(2))
	list, err := filepath.Glob(filepath.Join(dir, filePrefix+"*"+fileSuffix))
	w.NoError(err)
	w.Len(list, 2)
}

// In a directory of several users, as /var/tmp, the files of others stay, and keep no alarm from being written.
func TestFilesOfOtherUsersKeepNoAlarm(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "root", "the user is changed")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "record") // which that user may enter
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	w := newWorld(t, Config{Memory: 1 << 20, Log: slog.New(slog.DiscardHandler)})
	alarms := alarms{recorder: w.rec, config: AlarmConfig{Directory: dir, Quota: 8 * chunkSize}}
	file := func(process, owner int, suffix string) string {
		path := filepath.Join(dir, fmt.Sprintf("sxrecord.%d.20000101T000000.000000000%s", process, suffix))
		w.NoError(os.WriteFile(path, make([]byte, 9*chunkSize), 0o644))
		w.NoError(os.Chmod(path, 0o644)) // whatever the umask is
		w.NoError(os.Chown(path, owner, owner))
		past := time.Now().Add(-2 * draftAge)
		w.NoError(os.Chtimes(path, past, past))
		return path
	}
	others := []string{file(1, 0, fileSuffix), file(1, 0, fileSuffix+draftSuffix)}
	own := []string{file(2, nobody, fileSuffix), file(2, nobody, fileSuffix+draftSuffix)}
	written := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		err := unix.Setfsuid(nobody)
		if err == nil {
			_, _, err = alarms.writeFile("a test", time.Now())
		}
		written <- err
	}()
	w.NoError(<-written)
	for _, path := range others {
		w.FileExists(path)
	}
	for _, path := range own {
		w.NoFileExists(path)
	}
	list, err := filepath.Glob(filepath.Join(dir, filePrefix+"*"+fileSuffix))
	w.NoError(err)
	w.Len(list, 2, "root's, and the new one")
}

// Events of a loop that has no frames are forgotten like those of the recorder: a capture goes on for as long as its process.
func TestEventsWithoutFramesAreForgotten(t *testing.T) {
	w := newWorld(t, Config{Memory: 1 << 20})
	idle, busy := w.rec.Scope("idle"), w.rec.Scope("busy")
	a := busy.Tap(&counted{name: "eth0"}, w.pool)
	c := newCursor(w.rec)
	for i := range eventMax + 100 {
		idle.Note(fmt.Sprint(i))
		if i%1000 == 0 {
			w.receive(a, "frame")
			c.next(false)
		}
	}
	c.next(false)
	w.LessOrEqual(len(c.waiting), eventMax)
	w.Equal(fmt.Sprint(eventMax+99), c.waiting[len(c.waiting)-1].text, "the newest are kept")
}

func TestBadConfigurations(t *testing.T) {
	for text, c := range map[string]Config{
		"memory of -1 bytes":           {Memory: -1},
		`"x" is no number`:             {Filter: "x"},
		"2 instructions are announced": {Filter: "2,6 0 0 1"},
		"quota 0":                      {Alarm: AlarmConfig{Directory: t.TempDir()}},
		"/nowhere/at all":              {Alarm: AlarmConfig{Directory: "/nowhere/at all", Quota: 1 << 30}},
	} {
		_, err := New(c)
		require.ErrorContains(t, err, text)
	}
	_, err := New(Config{Snap: -1})
	require.ErrorIs(t, err, unix.EINVAL)
}

// A filter keeps what it accepts: here frames of 802.1Q (tcpdump -ddd -y EN10MB 'ether[12:2] == 0x8100').
func TestFilter(t *testing.T) {
	w := newWorld(t, Config{Memory: 1 << 20, Filter: "4\n40 0 0 12\n21 0 1 33024\n6 0 0 262144\n6 0 0 0"})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	tagged, plain := "0123456789ab\x81\x00 tagged", "0123456789ab\x08\x00 plain"
	w.receive(a, plain, tagged, "short", plain)
	w.Equal([]string{tagged}, texts(w.read(WriteOptions{})))
}

// Recording allocates nothing.
func TestRecordingAllocatesNothing(t *testing.T) {
	w := newWorld(t, Config{Memory: 1 << 20, Snap: 128})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	list := w.frames("one", "two", "three")
	out := []link.Out{{Packet: list[0].Packet}}
	w.Zero(testing.AllocsPerRun(20000, func() {
		a.Received(list, maxBatch)
		a.Dropped(1, wire.UDPSum)
		a.Commit()
		a.Sending(out)
		a.Sent(1)
	}))
	w.release(list)
}

// BenchmarkReceived is what a received frame of 200 bytes costs at a snap length, alone or in a burst, beside a recorder that is off.
// least-ns/op is the shortest of many short blocks, which other programs on the machine hardly move.
func BenchmarkReceived(b *testing.B) {
	for _, c := range []struct {
		name         string
		memory, snap int
	}{{"off", 0, 0}, {"snap-128", 32 << 20, 128}, {"whole", 32 << 20, 0}, {"snap-128-small-memory", 1 << 20, 128}} {
		for _, batch := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/batch-%d", c.name, batch), func(b *testing.B) {
				w := newWorld(b, Config{Memory: c.memory, Snap: c.snap})
				a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
				all := make([]string, batch)
				for i := range all {
					all[i] = strings.Repeat("x", 200)
				}
				list := w.frames(all...)
				b.ReportAllocs()
				b.ResetTimer()
				record := func(frames int) {
					for n := 0; n < frames; n += batch {
						if a.IsOn() {
							a.Received(list, maxBatch)
							a.Commit()
						}
					}
				}
				record(b.N)
				b.StopTimer()
				const block = 4096 // frames: so short that other programs leave some blocks alone
				least := time.Hour
				for range 2000 {
					begin := time.Now()
					record(block)
					least = min(least, time.Since(begin))
				}
				b.ReportMetric(float64(least)/block, "least-ns/op")
				w.release(list)
			})
		}
	}
}

// A second Close has nothing to do, with alarms, with a capture, and with neither.
func TestCloseTwice(t *testing.T) {
	alarms := Config{Memory: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Alarm: AlarmConfig{Directory: t.TempDir(), After: time.Second, Every: time.Hour, Quota: 8 * chunkSize}}
	captured := newCaptured(t, Config{Memory: 1 << 20}, CaptureConfig{Path: filepath.Join(t.TempDir(), "capture")})
	for _, r := range []*Recorder{newWorld(t, Config{}).rec, newWorld(t, alarms).rec, captured.rec} {
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
	}
}
