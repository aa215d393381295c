package xtreme_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// recordedFrame is a frame of a recorder's file: what its datagram holds, and its comments.
type recordedFrame struct {
	text     string
	at       time.Time
	out      bool
	comments []string
}

func readRecord(t *testing.T, in io.Reader) (list []recordedFrame) {
	t.Helper()
	return readFrames(t, in, -1)
}

// readFrames reads the first n frames of a file, or all of them if n is negative.
func readFrames(t *testing.T, in io.Reader, n int) (list []recordedFrame) {
	t.Helper()
	r, err := pcapgo.NewNgReader(in, pcapgo.DefaultNgReaderOptions)
	require.NoError(t, err)
	for len(list) != n {
		b, ci, o, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		require.NotNil(t, o.Queue)
		list = append(list, recordedFrame{string(b[min(len(b), 42):]), ci.Timestamp, o.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound, o.Comments})
	}
	return list
}

// A socket that does not read loses datagrams: the recorder writes a file by itself, in which exactly those that were lost have a comment with
// the reason, and which has the frames of before. tcpdump and tshark read it.
func TestRecordOfADrop(t *testing.T) {
	dir := t.TempDir()
	w := newCabled(t)
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers, s.StatsDirectory = conf.RingOffload, 1024, 16, filepath.Join(dir, "stats")
	s.Offload.Recorder = conf.Recorder{MiB: 4, Snap: 96, Directory: dir, After: 2 * time.Second, Every: time.Hour, Quota: 16}
	engine, err := xtreme.New(s)
	w.NoError(err)
	poller, err := engine.NewPoller("recorded", xtreme.PollerConfig{})
	w.NoError(err)
	x := w.other(poller)
	u := x.udp(w.at(0))
	w.NoError(u.SetReceiveBuffer(4096))
	peer := w.net.Dial(u.LocalAddr())
	const rounds = 10
	for range rounds {
		answers(x, u, peer)
	}
	w.NoError(u.Suspend())
	const sent = 200
	for i := range sent {
		w.write(peer, fmt.Sprintf("datagram %03d %s", i, strings.Repeat("x", 100)))
		x.poll()
	}
	x.until("all were kept or dropped", func() bool { return counter(u.Ring(), "stack.kept")+counter(u.Ring(), "udp.budget") >= sent })
	dropped := int(counter(u.Ring(), "udp.budget"))
	w.Positive(dropped)
	w.Less(dropped, sent)
	var list []string
	x.until("a file was written", func() bool {
		list, err = filepath.Glob(filepath.Join(dir, "sxrecord.*.pcapng"))
		return err == nil && len(list) == 1
	})

	check := func(frames []recordedFrame) {
		w.Len(frames, 2*rounds+sent)
		w.True(frames[1].out)
		for i, f := range frames {
			switch {
			case i >= 2*rounds+sent-dropped:
				w.Contains(strings.Join(f.comments, "\n"), "dropped: udp.budget", "frame %d %q", i, f.text)
			default:
				w.NotContains(strings.Join(f.comments, "\n"), "dropped", "frame %d %q", i, f.text)
			}
			if i >= 2*rounds {
				w.Contains(f.text, fmt.Sprintf("datagram %03d", i-2*rounds))
			}
			if i > 0 {
				w.False(f.at.Before(frames[i-1].at), "frame %d", i)
			}
		}
	}
	file, err := os.Open(list[0])
	w.NoError(err)
	defer file.Close()
	check(readRecord(t, file))
	var now bytes.Buffer
	w.NoError(engine.WriteRecord(&now, 0))
	check(readRecord(t, &now))

	// Through the control socket, as xtstat does; then a live one, to which new frames come.
	r := openStats(t, filepath.Join(dir, "stats"))
	in, err := r.Ask("capture", map[string]any{"last": time.Hour})
	w.NoError(err)
	check(readRecord(t, in))
	w.NoError(in.Close())
	in, err = r.Ask("capture", map[string]any{"live": true, "only": true}) // until it is closed
	w.NoError(err)
	w.write(peer, "live"+strings.Repeat("x", 1000))
	x.until("it was dropped", func() bool { return counter(u.Ring(), "udp.budget") == uint64(dropped+1) })
	live := readFrames(t, in, 1)
	w.NoError(in.Close())
	w.Contains(live[0].comments[0], "udp.budget")
	_, err = r.Ask("capture", map[string]any{"mib": 1 << 20})
	w.ErrorContains(err, "out of range")

	t.Run("tcpdump", func(t *testing.T) {
		testnet.NeedProgram(t, "tcpdump")
		out, err := exec.Command("tcpdump", "-nn", "-r", list[0]).Output()
		require.NoError(t, err)
		require.Equal(t, 2*rounds+sent, strings.Count(string(out), " UDP, length "))
	})
	t.Run("tshark", func(t *testing.T) {
		testnet.NeedProgram(t, "tshark")
		out, err := exec.Command("tshark", "-r", list[0], "-Y", "frame.comment contains \"udp.budget\"", "-T", "json", "-e", "frame.number",
			"-e", "frame.comment", "-e", "frame.interface_name").Output()
		require.NoError(t, err)
		var rows []struct {
			Source struct {
				Layers map[string][]string `json:"layers"`
			} `json:"_source"`
		}
		require.NoError(t, json.Unmarshal(out, &rows))
		require.Len(t, rows, dropped)
		for i, row := range rows {
			l := row.Source.Layers
			require.Equal(t, []string{strconv.Itoa(2*rounds + sent - dropped + 1 + i)}, l["frame.number"])
			require.Contains(t, l["frame.comment"][0], "the socket's receive budget is spent")
			require.Equal(t, []string{w.net.Device(0)}, l["frame.interface_name"])
		}
	})
	x.close(u)
	w.NoError(poller.Close())
	w.NoError(engine.Close())
}

// toldWriter calls told when the first of what is written to it comes.
type toldWriter struct {
	bytes.Buffer
	told func()
}

func (w *toldWriter) Write(b []byte) (int, error) {
	if f := w.told; f != nil {
		w.told = nil
		f()
	}
	return w.Buffer.Write(b)
}

// A live capture of what comes has all that came since its reader was told that it began, however late its goroutine has the processor.
func TestLiveCaptureBeginsWhenItSaysSo(t *testing.T) {
	dir := t.TempDir()
	w := newCabled(t)
	e := w.newEngine(func(s *conf.Settings) { s.StatsDirectory = dir })
	p, err := e.NewPoller("live", xtreme.PollerConfig{})
	w.NoError(err)
	x := w.other(p)
	u := x.udp(w.at(0))
	peer := w.net.Dial(u.LocalAddr())
	answers(x, u, peer)
	out := &toldWriter{told: func() {
		answers(x, u, peer)
		time.Sleep(10 * time.Millisecond) // another thread has the processor
	}}
	w.NoError(e.Capture([]byte(`{"live": true, "only": true, "for": 1}`), out))
	w.Len(readRecord(t, &out.Buffer), 2)
	x.close(u)
	w.NoError(p.Close())
}

// openStats opens the file of this process in a directory.
func openStats(t *testing.T, directory string) *stats.Reader {
	t.Helper()
	list, err := stats.List(directory)
	require.NoError(t, err)
	require.Len(t, list, 1)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// Gaps between polls are found for the published statistics alone: a recorder that is to write for them says that there are none.
func TestRecorderOfGapsWantsStatistics(t *testing.T) {
	w := newCabled(t)
	with := func(directory string) string {
		w.newEngine(func(s *conf.Settings) {
			s.Offload.Recorder, s.StatsDirectory = conf.Recorder{MiB: 1, Gap: time.Millisecond}, directory
		})
		return w.log.String()
	}
	w.NotContains(with(t.TempDir()), "gap")
	w.Contains(with(""), "gap")
}

// A recorder that is off writes nothing and says so; a live capture turns it on for as long as it lasts. A recorder that cannot be is told.
func TestRecorderIsOffUnlessAskedFor(t *testing.T) {
	w := newCabled(t)
	w.ErrorContains(w.engine.WriteRecord(io.Discard, 0), "the recorder is off")
	w.ErrorContains(w.engine.WriteRecord(io.Discard, -1), "last")
	w.newEngine(func(s *conf.Settings) { s.Offload.Recorder = conf.Recorder{MiB: 1, Filter: "no program"} })
	w.Contains(w.log.String(), "nothing is recorded")
	w.Contains(w.log.String(), "no program")

	dir := filepath.Join(t.TempDir(), "stats")
	e := w.newEngine(func(s *conf.Settings) { s.StatsDirectory = dir })
	p, err := e.NewPoller("live", xtreme.PollerConfig{})
	w.NoError(err)
	x := w.other(p)
	u := x.udp(w.at(0))
	peer := w.net.Dial(u.LocalAddr())
	r := openStats(t, dir)
	_, err = r.Ask("capture", map[string]any{})
	w.ErrorContains(err, "the recorder is off")
	in, err := r.Ask("capture", map[string]any{"live": true})
	if err == nil {
		answers(x, u, peer)
		frames := readFrames(t, in, 2)
		w.NoError(in.Close())
		w.Len(frames, 2)
		w.Equal("answer", frames[1].text)
	}
	w.NoError(err)
	x.until("off again", func() bool { return e.WriteRecord(io.Discard, 0) != nil })
	x.close(u)
	w.NoError(p.Close())
}
