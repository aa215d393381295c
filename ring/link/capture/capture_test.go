package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/linktest"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
)

// world is a memory link, one end of it captured.
type world struct {
	*require.Assertions
	pools [2]*buffers.DriverPool
	ends  [2]link.Link
	dst   [64]link.Frame
	done  [64]link.Done
}

func newWorld(t *testing.T, f *File) *world {
	t.Helper()
	w := &world{Assertions: require.New(t)}
	for i := range w.pools {
		l := buffers.Layout{SmallSize: 2048, SmallCount: 128, Headroom: 64}
		r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
		w.NoError(err)
		w.pools[i], err = buffers.New(r.Bytes(), l)
		w.NoError(err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
	}
	a, b, err := memory.Pair(w.pools[0], w.pools[1], memory.Config{MTU: 4000})
	w.NoError(err)
	w.ends[0], w.ends[1] = f.Link(a), b
	t.Cleanup(func() {
		for i, e := range w.ends {
			if err := e.Close(); err != nil {
				require.ErrorIs(t, err, link.ErrClosed)
			}
			l := w.pools[i].Ledger()
			require.Equal(t, l.Total, l.Free, "end %d: %v", i, l)
		}
	})
	return w
}

// send sends a frame from one end, which the other drops.
func (w *world) send(from int, frame []byte) {
	p, err := w.pools[from].Alloc(min(len(frame), 1500))
	w.NoError(err)
	copy(p.Bytes(), frame)
	for rest := frame[p.Len():]; len(rest) > 0; {
		q, err := w.pools[from].Alloc(min(len(rest), 1500))
		w.NoError(err)
		copy(q.Bytes(), rest)
		rest = rest[q.Len():]
		p = w.pools[from].Append(p, q)
	}
	p, err = w.pools[from].Transmit(p)
	w.NoError(err)
	w.Equal(1, w.ends[from].Send([]link.Out{{Packet: p}}))
	w.NoError(w.ends[from].Flush())
	w.ends[from].Complete(w.done[:])
	n := w.ends[1-from].Receive(w.dst[:])
	for i := range n {
		w.NoError(w.dst[i].Packet.Release())
	}
	w.Equal(1, n)
}

// counts are the counters of an end's capture.
func (w *world) counts(end int) map[string]uint64 {
	counts := map[string]uint64{}
	for _, c := range w.ends[end].Counters(nil) {
		counts[c.Name] = c.Value
	}
	return counts
}

// frame is one as read back from a file.
type frame struct {
	bytes  []byte
	length int
	at     time.Time
	name   string // of its interface
	out    bool
}

func readBack(t *testing.T, path string) (list []frame, drops map[string]uint64) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	drops = map[string]uint64{}
	r, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
	require.NoError(t, err)
	for {
		b, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		i, err := r.Interface(ci.InterfaceIndex)
		require.NoError(t, err)
		require.NotNil(t, opts.Flags)
		list = append(list, frame{bytes.Clone(b), ci.Length, ci.Timestamp, i.Name, opts.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound})
	}
	for i := range r.NInterfaces() {
		x, err := r.Interface(i)
		require.NoError(t, err)
		drops[x.Name] = x.Statistics.PacketsDropped
	}
	return list, drops
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// Everything that a link sends and receives is in the file: bytes, lengths, directions, in order, at its time.
func TestCapture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all-%d.pcapng")
	f, err := Open(Config{Path: path})
	require.NoError(t, err)
	path = strings.Replace(path, "%d", fmt.Sprint(os.Getpid()), 1)
	w := newWorld(t, f)
	begin := time.Now()
	var sent [][]byte
	for i := range 3000 {
		b := random(14 + rand.IntN(4000-14))
		sent = append(sent, b)
		w.send(i%2, b)
		if i%500 == 499 {
			time.Sleep(collectEvery) // more than the tap holds goes through it
		}
	}
	w.True(w.ends[0].Path().Has("link.captured"), w.ends[0].Path())
	w.NoError(w.ends[0].Close())
	w.NoError(f.Close())
	w.ErrorIs(f.Close(), link.ErrClosed)
	w.Equal(Stats{Frames: 3000, Bytes: f.Stats().Bytes}, f.Stats())
	got, drops := readBack(t, path)
	name := fmt.Sprintf("%s queue %d", w.ends[0].Info().Name, w.ends[0].Info().Queue)
	w.Equal(map[string]uint64{name: 0}, drops)
	w.Len(got, len(sent))
	for i, b := range sent {
		g := got[i]
		w.True(bytes.Equal(b, g.bytes), "frame %d", i)
		w.Equal(len(b), g.length)
		w.Equal(i%2 == 0, g.out)
		w.Equal(name, g.name)
		w.False(g.at.Before(begin.Truncate(0)) || g.at.After(time.Now()), "%v", g.at)
	}
	s, err := os.Stat(path)
	w.NoError(err)
	w.Equal(os.FileMode(0o600), s.Mode().Perm())

	tcpdump, err := exec.LookPath("tcpdump")
	if err != nil {
		t.Log("tcpdump is not here: read back by pcapgo alone")
		return
	}
	list, err := exec.Command(tcpdump, "-ner", path).CombinedOutput()
	w.NoError(err, "%s", list)
	w.GreaterOrEqual(strings.Count(string(list), "length"), len(sent))
}

// With a snap length the file has the beginning of each frame, and knows how long it was.
func TestSnapLength(t *testing.T) {
	path := filepath.Join(t.TempDir(), "short")
	f, err := Open(Config{Path: path, Snap: 100})
	require.NoError(t, err)
	w := newWorld(t, f)
	long, short := random(3500), random(60)
	w.send(0, long)
	w.send(1, short)
	w.NoError(f.Close())
	got, _ := readBack(t, path)
	w.Len(got, 2)
	w.Equal(long[:100], got[0].bytes)
	w.Equal(3500, got[0].length)
	w.Equal(short, got[1].bytes)
}

// The file does not grow beyond its limit: frames that it would need more for are counted, and it is told once. What is in it can be read.
func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full")
	var log bytes.Buffer
	f, err := Open(Config{Path: path, Limit: 20_000, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	w := newWorld(t, f)
	for range 100 {
		w.send(0, random(1000))
	}
	w.NoError(f.Close())
	s := f.Stats()
	w.Equal(uint64(100), s.Frames+s.OverLimit)
	w.Greater(s.Frames, uint64(10))
	size, err := os.Stat(path)
	w.NoError(err)
	w.LessOrEqual(size.Size(), int64(20_000))
	w.Equal(1, strings.Count(log.String(), "the capture has its size"), log.String())
	got, _ := readBack(t, path)
	w.Len(got, int(s.Frames))
	counts := w.counts(0)
	w.Equal(s.OverLimit, counts["capture.over_limit"])
	w.Equal(s.Frames, counts["capture.frames"], "and not those that the file had no room for")
	w.Equal(s.Frames, counts["capture.written"])
}

// Counters are of one link's frames: what another of the file lost is none of its.
func TestCountersOfTwoLinks(t *testing.T) {
	f, err := Open(Config{Path: filepath.Join(t.TempDir(), "two"), Limit: 20_000})
	require.NoError(t, err)
	busy, quiet := newWorld(t, f), newWorld(t, f)
	quiet.send(0, random(100))
	quiet.Eventually(func() bool { return quiet.counts(0)["capture.written"] == 1 }, 20*time.Second, time.Millisecond)
	for range 100 {
		busy.send(0, random(1000))
	}
	quiet.NoError(f.Close())
	quiet.Positive(f.Stats().OverLimit)
	quiet.Equal(f.Stats().OverLimit, busy.counts(0)["capture.over_limit"])
	quiet.Zero(quiet.counts(0)["capture.over_limit"])
	quiet.Equal(f.Stats().Frames, busy.counts(0)["capture.written"]+quiet.counts(0)["capture.written"])
}

// The statistics of an interface are those of all links that it had, one after the other.
func TestStatisticsOfALinkThatComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "again")
	f, err := Open(Config{Path: path, tap: 4096})
	require.NoError(t, err)
	var name string
	var frames, lost uint64
	for range 3 {
		w := newWorld(t, f)
		x := w.ends[0].(*Link)
		name = fmt.Sprintf("%s queue %d", x.Info().Name, x.Info().Queue)
		for range 40 {
			w.send(0, random(1000)) // more than the tap has room for
		}
		w.NoError(x.Close())
		frames, lost = frames+x.tap.frames.Load(), lost+x.tap.noRoom.Load()
		w.Eventually(func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.links) == 0 }, 20*time.Second, time.Millisecond, "retired")
	}
	require.NoError(t, f.Close())
	require.Positive(t, lost)
	got, drops := readBack(t, path)
	require.Equal(t, map[string]uint64{name: lost}, drops)
	require.Len(t, got, int(frames))
}

// fullDisk takes some bytes.
type fullDisk struct{ left int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.left -= len(b); d.left < 0 {
		return 0, unix.ENOSPC
	}
	return len(b), nil
}

// A disk that is full costs the link nothing: what could not be written is counted, told once, and the error of Close.
func TestFullDisk(t *testing.T) {
	var log bytes.Buffer
	f, err := Open(Config{Path: "nowhere", out: &fullDisk{left: 300 << 10}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	w := newWorld(t, f)
	for i := range 1000 {
		w.send(i%2, random(1400))
		if i%100 == 0 {
			time.Sleep(collectEvery)
		}
	}
	w.NoError(w.ends[0].Close())
	w.ErrorIs(f.Close(), unix.ENOSPC)
	s := f.Stats()
	w.Equal(uint64(1000), s.Frames+s.Failed)
	w.Positive(s.Failed)
	w.Equal(1, strings.Count(log.String(), "cannot be written"), log.String())
}

// slowDisk takes nothing before it is let go.
type slowDisk struct{ free chan struct{} }

func (d *slowDisk) Write(b []byte) (int, error) {
	<-d.free
	return len(b), nil
}

// A disk that is slower than the wire does not hold the link up, nor does the capture take more memory: what the tap has no room for is
// counted, and the statistics of the file say so.
func TestSlowDisk(t *testing.T) {
	d := &slowDisk{free: make(chan struct{})}
	f, err := Open(Config{out: d, tap: 64 << 10})
	require.NoError(t, err)
	w := newWorld(t, f)
	for range 1000 {
		w.send(0, random(1000))
	}
	counts := w.counts(0)
	w.Equal(uint64(1000), counts["capture.frames"]+counts["capture.no_room"])
	w.GreaterOrEqual(counts["capture.frames"], uint64(60))
	w.Positive(counts["capture.no_room"])
	close(d.free)
	w.NoError(w.ends[0].Close())
	w.NoError(f.Close())
	w.Equal(counts["capture.frames"], f.Stats().Frames)
}

// Two captures of one file are refused, a capture without frames is a file all the same, and a path that there is not is an error.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	f, err := Open(Config{Path: path})
	require.NoError(t, err)
	_, err = Open(Config{Path: path})
	require.ErrorIs(t, err, unix.EBUSY)
	require.NoError(t, f.Close())
	got, _ := readBack(t, path)
	require.Empty(t, got)
	f, err = Open(Config{Path: path})
	require.NoError(t, err, "it was closed")
	require.NoError(t, f.Close())
	_, err = Open(Config{Path: filepath.Join(path, "below a file")})
	require.ErrorIs(t, err, unix.ENOTDIR)
	_, err = Open(Config{Path: path, Snap: -1})
	require.ErrorIs(t, err, unix.EINVAL)
}

// The queue of a tap against a list: frames of all sizes, as the consumer takes them in between.
func TestTap(t *testing.T) {
	l := buffers.Layout{SmallSize: 2048, SmallCount: 64, Headroom: 64}
	r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	require.NoError(t, err)
	defer r.Close()
	pool, err := buffers.New(r.Bytes(), l)
	require.NoError(t, err)
	x := newTap(4096)
	var want [][]byte
	put, refused := 0, 0
	for i := range 20000 {
		b := random(rand.IntN(1500))
		p, err := pool.Alloc(len(b))
		require.NoError(t, err)
		copy(p.Room(), b)
		if x.push(int64(i), p, 0, direction(i%3 == 0)) {
			want = append(want, b)
			put++
		} else {
			refused++
		}
		require.NoError(t, p.Release())
		if rand.IntN(3) == 0 {
			x.publish(x.next)
		}
		if rand.IntN(4) > 0 {
			continue
		}
		x.drain(func(r *record) {
			require.True(t, bytes.Equal(want[0], r.bytes))
			require.Equal(t, len(want[0]), r.length)
			require.Equal(t, direction(r.nanos%3 == 0), r.dir)
			want = want[1:]
		})
	}
	require.Greater(t, put, 2000)
	require.Positive(t, refused)
}

// hesitant is a link that takes a frame at a time.
type hesitant struct{ link.Link }

func (l hesitant) Send(src []link.Out) int { return l.Link.Send(src[:min(len(src), 1)]) }

// Frames that the link did not take are captured when it does, once.
func TestWhatIsNotTakenIsNotCaptured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one by one")
	f, err := Open(Config{Path: path})
	require.NoError(t, err)
	w := newWorld(t, f)
	w.ends[0] = f.Link(hesitant{w.ends[0].(*Link).Link})
	var out []link.Out
	var sent [][]byte
	for range 20 {
		b := random(100)
		p, err := w.pools[0].Alloc(len(b))
		w.NoError(err)
		copy(p.Room(), b)
		p, err = w.pools[0].Transmit(p)
		w.NoError(err)
		out, sent = append(out, link.Out{Packet: p}), append(sent, b)
	}
	for len(out) > 0 {
		n := w.ends[0].Send(out)
		w.Equal(1, n)
		out = out[n:]
	}
	w.Zero(w.ends[0].Send(nil))
	w.NoError(w.ends[0].Flush())
	w.ends[0].Complete(w.done[:])
	n := w.ends[1].Receive(w.dst[:])
	w.Equal(20, n)
	for i := range n {
		w.NoError(w.dst[i].Packet.Release())
	}
	w.NoError(f.Close())
	got, _ := readBack(t, path)
	w.Equal(20, len(got))
	for i := range got {
		w.Equal(sent[i], got[i].bytes)
	}
}

// What a captured link does for each frame allocates nothing.
func TestCaptureAllocatesNothing(t *testing.T) {
	f, err := Open(Config{out: io.Discard})
	require.NoError(t, err)
	w := newWorld(t, f)
	b := random(200)
	w.send(0, b)
	p, err := w.pools[0].Alloc(len(b))
	w.NoError(err)
	x := w.ends[0].(*Link)
	w.Zero(testing.AllocsPerRun(100, func() {
		x.tap.push(1, p, 0, sent)
		x.tap.publish(x.tap.next)
		x.count(1, 0)
	}))
	w.NoError(p.Release())
	w.NoError(f.Close())
}

// No method of a captured link that is closed touches what is gone.
func TestClosed(t *testing.T) {
	f, err := Open(Config{Path: filepath.Join(t.TempDir(), "x")})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	w := newWorld(t, f)
	w.NoError(w.ends[0].Close())
	linktest.Closed(t, w.ends[0], w.pools[0], func() buffers.Packet {
		p, err := w.pools[0].Alloc(60)
		w.NoError(err)
		p, err = w.pools[0].Transmit(p)
		w.NoError(err)
		return p
	})
}
