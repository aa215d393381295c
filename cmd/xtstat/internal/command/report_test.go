package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// unpacked are the files of an archive by their names, without the folder that all are in.
func unpacked(t *testing.T, in io.Reader) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(in)
	require.NoError(t, err)
	files, folder := map[string]string{}, ""
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.EqualValues(t, 0o600, h.Mode)
		root, name, found := strings.Cut(h.Name, "/")
		require.True(t, found, h.Name)
		require.Contains(t, []string{"", root}, folder, "one folder")
		folder = root
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		files[name] = string(text)
	}
}

// eachSet is what both sets of views have.
var eachSet = []string{"dev.txt", "interrupts.txt", "snmp.txt", "softirqs.txt", "softnet_stat.txt", "view1.json", "view1.txt", "view2.json", "view2.txt",
	"view3.json", "view3.txt", "view4.json", "view4.txt", "view5.json", "view5.txt"}

// report runs xtstat report and returns the files of the archive.
func (p *program) report(args ...string) (map[string]string, string) {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "report.tar.gz")
	_, errs, code := run(append([]string{"report", "-k", p.dir, "-w", path}, args...)...)
	p.Zero(code, errs)
	info, err := os.Stat(path)
	p.NoError(err)
	p.Equal(os.FileMode(0o600), info.Mode())
	f, err := os.Open(path)
	p.NoError(err)
	defer f.Close()
	return unpacked(p.t, f), errs
}

// The archive of a running program: each file is there and says what it should; no secret is.
func TestReport(t *testing.T) {
	t.Setenv("XTSTAT_TEST_SECRET", "hunter2-of-the-environment")
	p := startEcho(t, "epoll", "--password=hunter2-of-the-command-line")
	p.send(30)
	files, errs := p.report("-i", "1.2")
	want := []string{"README.txt", "doctor.jsonl", "doctor.txt", "events.jsonl", "events.txt", "goroutines.txt", "history.jsonl", "history.txt", "rates.txt",
		"settings.json", "why.txt"}
	for _, set := range []string{"first/", "second/"} {
		for _, name := range eachSet {
			want = append(want, set+name)
		}
	}
	slices.Sort(want)
	p.Equal(want, slices.Sorted(maps.Keys(files)))
	for name, text := range files {
		p.NotContains(text, "hunter2", name)
		p.NotEmpty(text, name)
		switch filepath.Ext(name) {
		case ".json":
			p.True(json.Valid([]byte(text)), name)
		case ".jsonl":
			for line := range strings.Lines(text) {
				p.True(json.Valid([]byte(line)), "%s: %s", name, line)
			}
		}
		if name != "README.txt" {
			p.Contains(files["README.txt"], name+" ", "the README says what it is")
		}
	}
	p.Contains(files["README.txt"], "frames.pcapng: ", "the recorder is off")
	p.Contains(errs, "the recorder is off")
	p.Regexp(`(?m)^(good|cure|note|unknown) +kernel `, files["doctor.txt"])
	p.Contains(files["second/view3.txt"], "Rx OS info: 2 / 30 / 0 / 0")
	p.Contains(files["second/view5.txt"], "LISTEN")
	p.Contains(files["events.txt"], "239.1.2.3")
	p.Contains(files["history.txt"], "rx pkt/s")
	p.Contains(files["goroutines.txt"], "command.echo")
	p.Contains(files["first/interrupts.txt"], "CPU0")
	var engines []xtreme.EngineSettings
	p.NoError(json.Unmarshal([]byte(files["settings.json"]), &engines))
	p.Len(engines, 1)
	origins := map[string]string{}
	for _, e := range engines[0].Settings {
		origins[e.Name] = e.Origin
	}
	p.Equal("Settings.Ring=epoll (SX_RING)", origins["SX_RING"], "set by code")
	p.Equal("default", origins["SX_RECORD"])
	var first, second struct {
		Time string
	}
	p.NoError(json.Unmarshal([]byte(files["first/view3.json"]), &first))
	p.NoError(json.Unmarshal([]byte(files["second/view3.json"]), &second))
	p.Less(first.Time, second.Time)

	p.kill()
	files, _ = p.report("-p", strconv.Itoa(p.command.Process.Pid))
	p.Contains(files["README.txt"], "had ended")
	p.Contains(files["first/view3.txt"], "Rx OS info: 2 / 30 / 0 / 0")
	p.NotContains(files, "second/view3.txt", "nothing changes any more")
	p.NotContains(files, "settings.json")
	p.Contains(files["events.txt"], "239.1.2.3")
}

// With the recorder on the frames are in the archive, unless they are left out.
func TestReportWithFrames(t *testing.T) {
	v := recorded(t, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{Budget: 1 << 14}})
	lost := v.loseSome()
	var out, errs bytes.Buffer
	v.Zero(Run([]string{"report", "-k", v.dir, "-w", "-", "-i", "0.1"}, &out, &errs), errs.String())
	files := unpacked(t, &out)
	n, commented := frames(t, []byte(files["frames.pcapng"]), feedText, "udp.budget")
	v.Equal(v.sent, n)
	v.Equal(lost, commented)
	out.Reset()
	v.Zero(Run([]string{"report", "-k", v.dir, "-w", "-", "-i", "0.1", "--frames=false"}, &out, &errs), errs.String())
	v.NotContains(unpacked(t, &out), "frames.pcapng")
}

// The newest file that the recorder has written by itself is in the archive, with what was lost as a comment; files of other processes are not.
func TestReportWithTheFileOfAnAlarm(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sxrecord.1.20990101T000000.000000000.pcapng"), []byte("of another process"), 0o600))
	v := recorded(t, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{Budget: 1 << 14}}, "dir="+dir, "after=0s", "every=1h")
	v.loseSome()
	mine := filepath.Join(dir, fmt.Sprintf("sxrecord.%d.*.pcapng", os.Getpid()))
	var list []string
	for end := time.Now().Add(time.Minute); len(list) == 0; time.Sleep(time.Millisecond) {
		v.True(time.Now().Before(end), "no file was written")
		var err error
		list, err = filepath.Glob(mine)
		v.NoError(err)
	}
	var out, errs bytes.Buffer
	v.Zero(Run([]string{"report", "-k", v.dir, "-w", "-", "-i", "0.1"}, &out, &errs), errs.String())
	files := unpacked(t, &out)
	want, err := os.ReadFile(list[0])
	v.NoError(err)
	v.Equal(string(want), files["alarm.pcapng"])
	_, commented := frames(t, want, feedText, "udp.budget")
	v.Positive(commented)
	v.Contains(files["README.txt"], "alarm.pcapng ")
	out.Reset()
	v.Zero(Run([]string{"report", "-k", v.dir, "-w", "-", "-i", "0.1", "--frames=false"}, &out, &errs), errs.String())
	v.NotContains(unpacked(t, &out), "alarm.pcapng")
}

func TestReportArguments(t *testing.T) {
	for want, args := range map[string][]string{"interval 0:": {"-i", "0"}, "interval 601": {"-i", "601"}, "json": {"--json"}} {
		_, errs, code := run(append([]string{"report", "-k", t.TempDir()}, args...)...)
		require.Equal(t, exitUsage, code, want)
		require.Contains(t, errs, want)
	}
	p := startEcho(t, "epoll")
	path := filepath.Join(t.TempDir(), "there.tar.gz")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, errs, code := run("report", "-k", p.dir, "-w", path, "-i", "0.1")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errs, "file exists")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}
