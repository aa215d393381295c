package record

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// newCaptured makes a world whose recorder has a capture. The test ends the capture with endCapture.
func newCaptured(t *testing.T, rc Config, c CaptureConfig) *world {
	t.Helper()
	if c.memory == 0 {
		c.memory = 16 * chunkSize
	}
	w := &world{Assertions: require.New(t), t: t}
	l := buffers.Layout{SmallSize: 2048, SmallCount: 128, Headroom: 64}
	r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	w.NoError(err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	w.pool, err = buffers.New(r.Bytes(), l)
	w.NoError(err)
	rc.Capture, err = OpenCapture(c)
	w.NoError(err)
	w.rec, err = New(rc)
	w.NoError(err)
	return w
}

// countsOf are what became of a link's frames in the capture.
func countsOf(t *Tap) map[string]uint64 {
	counts := map[string]uint64{}
	for _, c := range t.Counters(nil) {
		counts[strings.TrimPrefix(c.Name, "capture.")] = c.Value
	}
	return counts
}

// numbered are frames of so many bytes, with the numbers from first on in front.
func numbered(first, n, size int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%05d", first+i)+strings.Repeat("x", size-5))
	}
	return list
}

// receiveAll records frames in bursts.
func (w *world) receiveAll(t *Tap, list []string) {
	for len(list) > 0 {
		n := min(len(list), maxBatch)
		w.receive(t, list[:n]...)
		list = list[n:]
	}
}

// Every frame from the first one on is in the file: bytes, lengths, directions, in order; the reason of a drop is a comment of its frame. The
// file can be read by its user alone, and by tcpdump.
func TestCapture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all-%d.pcapng")
	w := newCaptured(t, Config{}, CaptureConfig{Path: path})
	path = strings.Replace(path, "%d", fmt.Sprint(os.Getpid()), 1)
	a := w.rec.Scope("main").Tap(&counted{name: "eth0", queue: 2}, w.pool)
	w.True(a.IsOn())
	w.Equal("link.captured", a.Reasons()[0].Code)
	w.Contains(a.Reasons()[0].Text, path)
	sent := numbered(0, 600, 700)
	w.receiveAll(a, sent)
	list := w.frames("dropped")
	a.Received(list, maxBatch)
	a.Dropped(0, wire.UDPBudget)
	a.Commit()
	w.release(list)
	out := w.frames("out 1", "out 2", "not taken", "not taken either")
	a.Sending([]link.Out{{Packet: out[0].Packet}, {Packet: out[1].Packet}, {Packet: out[2].Packet}, {Packet: out[3].Packet}})
	a.Sent(2)
	w.release(out)
	w.receive(a, "last")
	a.Close()
	w.NoError(w.rec.Close())
	w.Equal(map[string]uint64{"written": 604, "no_room": 0, "over_limit": 0, "failed": 0}, countsOf(a))

	file, err := os.Open(path)
	w.NoError(err)
	defer file.Close()
	info, err := file.Stat()
	w.NoError(err)
	w.Equal(os.FileMode(0o600), info.Mode())
	got := readBack(t, file)
	w.Equal(append(sent, "dropped", "out 1", "out 2", "last"), texts(got))
	for i, f := range got {
		w.Equal(uint32(2), f.queue)
		w.Equal("eth0", f.name)
		w.Equal(strings.HasPrefix(f.text, "out"), f.out)
		if f.text == "dropped" {
			w.Len(f.comments, 1)
			w.Contains(f.comments[0], "dropped: udp.budget: ")
		} else {
			w.Empty(f.comments, "frame %d", i)
		}
	}
	if tcpdump, err := exec.LookPath("tcpdump"); err == nil {
		text, err := exec.Command(tcpdump, "-ner", path).CombinedOutput()
		w.NoError(err, "%s", text)
	} else {
		t.Log("tcpdump is not here: read back by pcapgo alone")
	}
}

// One memory serves the recorder and the capture: each reader cuts and chooses as its own settings say.
func TestRecorderBesideACapture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capture")
	tagged := "4 40 0 0 12 21 0 1 33024 6 0 0 262144 6 0 0 0" // tcpdump -ddd -y EN10MB 'ether[12:2] == 0x8100'
	w := newCaptured(t, Config{Memory: 1 << 20, Snap: 20, Filter: tagged}, CaptureConfig{Path: path, Snap: 30})
	main := w.rec.Scope("main")
	a := main.Tap(&counted{name: "eth0"}, w.pool)
	vlan, plain := "0123456789ab\x81\x00 tagged and long, longer than both", "0123456789ab\x08\x00 plain and long, longer than both"
	w.receive(a, vlan)
	time.Sleep(time.Millisecond)
	main.Note("something happened")
	time.Sleep(time.Millisecond)
	w.receive(a, plain, vlan)
	got := w.read(WriteOptions{})
	w.Equal([]string{vlan[:20], vlan[:20]}, texts(got))
	w.Equal(len(vlan), got[0].length)
	w.Equal([]string{"something happened"}, got[1].comments)
	a.Close()
	w.NoError(w.rec.Close())
	file, err := os.Open(path)
	w.NoError(err)
	defer file.Close()
	got = readBack(t, file)
	w.Equal([]string{vlan[:30], plain[:30], vlan[:30]}, texts(got))
	w.Equal([]string{"something happened"}, got[1].comments)
}

// The file does not grow beyond its limit: frames that it would need more for are counted at their own link, and the log has one line.
func TestCaptureLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full")
	var log bytes.Buffer
	w := newCaptured(t, Config{}, CaptureConfig{Path: path, Limit: 20_000, Log: slog.New(slog.NewTextHandler(&log, nil))})
	main := w.rec.Scope("main")
	quiet, busy := main.Tap(&counted{name: "eth0", queue: 0}, w.pool), main.Tap(&counted{name: "eth0", queue: 1}, w.pool)
	w.receive(quiet, "first")
	w.Eventually(func() bool { return countsOf(quiet)["written"] == 1 }, time.Minute, time.Millisecond)
	w.receiveAll(busy, numbered(0, 100, 1400))
	w.Eventually(func() bool { return countsOf(busy)["written"]+countsOf(busy)["over_limit"] == 100 }, time.Minute, time.Millisecond)
	before := countsOf(busy)["written"]
	w.receive(busy, "short") // there would be room for it, behind a hole
	quiet.Close()
	busy.Close()
	w.NoError(w.rec.Close())
	counts := countsOf(busy)
	w.Equal(uint64(101), counts["written"]+counts["over_limit"])
	w.Equal(before, counts["written"])
	w.Greater(counts["written"], uint64(10))
	w.Zero(countsOf(quiet)["over_limit"])
	w.Equal(1, strings.Count(log.String(), "the capture has its size"), log.String())
	file, err := os.Open(path)
	w.NoError(err)
	defer file.Close()
	info, err := file.Stat()
	w.NoError(err)
	w.LessOrEqual(info.Size(), int64(20_000))
	w.Len(readBack(t, file), 1+int(counts["written"]))
}

// fullDisk takes some bytes.
type fullDisk struct{ left int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.left -= len(b); d.left < 0 {
		return 0, unix.ENOSPC
	}
	return len(b), nil
}

// What a full disk did not take is counted, has one line in the log, and is the error of Close.
func TestCaptureOfAFullDisk(t *testing.T) {
	var log bytes.Buffer
	w := newCaptured(t, Config{}, CaptureConfig{out: &fullDisk{left: 300 << 10}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	w.receiveAll(a, numbered(0, 1000, 1400))
	a.Close()
	w.ErrorIs(w.rec.Close(), unix.ENOSPC)
	counts := countsOf(a)
	w.Positive(counts["failed"])
	w.Equal(uint64(1000), counts["written"]+counts["failed"]+counts["no_room"])
	w.Equal(1, strings.Count(log.String(), "cannot be written"), log.String())
}

// slowDisk takes nothing before free is closed.
type slowDisk struct {
	bytes.Buffer
	free chan struct{}
}

func (d *slowDisk) Write(b []byte) (int, error) {
	<-d.free
	return d.Buffer.Write(b)
}

// A disk that is slower than the wire does not hold the link up, nor does the capture take more memory: frames that were written over before
// the capture read them are counted, of links that are closed too, and the file says where they are missing.
func TestCaptureOfASlowDisk(t *testing.T) {
	d := &slowDisk{free: make(chan struct{})}
	w := newCaptured(t, Config{}, CaptureConfig{out: d, memory: 4 * chunkSize})
	main := w.rec.Scope("main")
	ended, stays := main.Tap(&counted{name: "eth0"}, w.pool), main.Tap(&counted{name: "eth1"}, w.pool)
	w.receiveAll(ended, numbered(0, 1000, 1000)) // more than the memory has room for
	ended.Close()
	again := main.Tap(&counted{name: "eth0"}, w.pool) // the link was opened again: the counts of its queue go on
	w.receiveAll(again, numbered(0, 100, 1000))
	again.Close()
	w.receiveAll(stays, numbered(0, 2000, 1000)) // of eth0 nothing is left
	close(d.free)
	stays.Close()
	w.NoError(w.rec.Close())
	for _, x := range []struct {
		tap *Tap
		all uint64
	}{{again, 1100}, {stays, 2000}} {
		counts := countsOf(x.tap)
		w.Equal(x.all, counts["written"]+counts["no_room"], "%s: %v", x.tap.Interface, counts)
		w.Positive(counts["no_room"], x.tap.Interface)
	}
	got := readBack(t, &d.Buffer)
	w.Equal(countsOf(again)["written"]+countsOf(stays)["written"], uint64(len(got)))
	lost := uint64(0) // as the comments say: one for each time that there was no room
	for _, f := range got {
		if f.name != "eth1" {
			continue
		}
		for _, comment := range f.comments {
			var n uint64
			_, err := fmt.Sscanf(comment, "%d frames before this one were written over before they were read", &n)
			w.NoError(err, comment)
			lost += n
		}
	}
	w.Equal(countsOf(stays)["no_room"], lost)
}

// Two captures of one file are refused, a capture without frames is a file all the same, and a path that there is not is an error.
func TestCaptureFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	for range 2 { // once more after it was closed
		w := newCaptured(t, Config{}, CaptureConfig{Path: path})
		_, err := OpenCapture(CaptureConfig{Path: path})
		w.ErrorIs(err, unix.EBUSY)
		w.NoError(w.rec.Close())
		file, err := os.Open(path)
		w.NoError(err)
		w.Empty(readBack(t, file))
		w.NoError(file.Close())
	}
	_, err := OpenCapture(CaptureConfig{Path: filepath.Join(path, "below a file")})
	require.ErrorIs(t, err, unix.ENOTDIR)
	_, err = OpenCapture(CaptureConfig{Path: path, Snap: -1})
	require.ErrorIs(t, err, unix.EINVAL)
	_, err = OpenCapture(CaptureConfig{Path: path, Limit: 1})
	require.ErrorIs(t, err, unix.EINVAL)
}

// newPipe makes a named pipe, as one to Wireshark is.
func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	return path
}

// A reader of a pipe that does not read holds neither the link nor Close: what it did not take is counted.
func TestAReaderThatDoesNotRead(t *testing.T) {
	path := newPipe(t)
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	w := newCaptured(t, Config{}, CaptureConfig{Path: path, patience: 50 * time.Millisecond})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	w.receiveAll(a, numbered(0, 400, 1000)) // more than a pipe and the buffer in front of it hold
	a.Close()
	done := make(chan error, 1)
	go func() { done <- w.rec.Close() }()
	select {
	case err := <-done:
		w.ErrorIs(err, os.ErrDeadlineExceeded)
	case <-time.After(time.Minute):
		t.Fatal("Close waits for a reader that does not read")
	}
	counts := countsOf(a)
	w.Positive(counts["failed"])
	w.Equal(uint64(400), counts["written"]+counts["failed"])
}

// A reader that reads has the frames at once, and one that goes away is an error of writing.
func TestAReaderOfAPipe(t *testing.T) {
	path := newPipe(t)
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	w := newCaptured(t, Config{}, CaptureConfig{Path: path})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	w.receive(a, "a frame for the reader")
	b := make([]byte, 4096)
	var got []byte
	w.NoError(reader.SetReadDeadline(time.Now().Add(time.Minute)))
	for !bytes.Contains(got, []byte("a frame for the reader")) {
		n, err := reader.Read(b)
		w.NoError(err)
		got = append(got, b[:n]...)
	}
	w.Eventually(func() bool { return countsOf(a)["written"] == 1 }, time.Minute, time.Millisecond, "counted after the write")
	w.NoError(reader.Close())
	w.receive(a, "another")
	a.Close()
	w.ErrorIs(w.rec.Close(), unix.EPIPE)
	w.Equal(uint64(1), countsOf(a)["failed"])
}

// A pipe without a reader is refused at once: open(2) would wait for one.
func TestAPipeWithoutAReader(t *testing.T) {
	done := make(chan error, 1)
	path := newPipe(t)
	go func() { _, err := OpenCapture(CaptureConfig{Path: path}); done <- err }()
	select {
	case err := <-done:
		require.ErrorIs(t, err, unix.ENXIO)
		require.ErrorContains(t, err, "start its reader first")
	case <-time.After(time.Minute):
		t.Fatal("Open waits for a reader")
	}
}

// A tap of a recorder without a capture counts nothing for one, and a captured link allocates nothing for a frame.
func TestTapsAndCaptures(t *testing.T) {
	w := newWorld(t, Config{Memory: 1 << 20})
	a := w.rec.Scope("main").Tap(&counted{name: "eth0"}, w.pool)
	w.Empty(a.Counters(nil))
	w.Empty(a.Reasons())
	var none *Tap
	w.Empty(none.Counters(nil))
	w.Empty(none.Reasons())

	x := newCaptured(t, Config{}, CaptureConfig{out: io.Discard})
	b := x.rec.Scope("main").Tap(&counted{name: "eth0"}, x.pool)
	list := x.frames("one", "two", "three")
	b.Received(list, maxBatch)
	x.NoError(x.rec.config.Capture.close(x.rec)) // its goroutine allocates
	x.rec.config.Capture = nil
	x.Zero(testing.AllocsPerRun(2000, func() {
		b.Received(list, maxBatch)
		b.Commit()
	}))
	x.release(list)
	x.NoError(x.rec.Close())
}
