package command

import (
	"bytes"
	"errors"
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
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// feedText is what the datagrams of a victim have.
const feedText = "a message of the feed"

// frames are those of a pcapng file that have a text, and how many of these have a comment.
func frames(t *testing.T, file []byte, text, comment string) (n, commented int) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	require.NoError(t, err)
	for {
		b, _, o, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return n, commented
		}
		require.NoError(t, err)
		if bytes.Contains(b, []byte(text)) {
			n++
			if strings.Contains(strings.Join(o.Comments, "\n"), comment) {
				commented++
			}
		}
	}
}

// recorded is a victim whose recorder is on; options are what SX_RECORD has behind the memory.
func recorded(t *testing.T, c xtreme.UDPConfig, options ...string) *victim {
	return newVictim(t, conf.RingOffload, c, func(s *conf.Settings) {
		recorder, err := conf.ParseRecorder(strings.Join(append([]string{"4"}, options...), ","))
		require.NoError(t, err)
		s.Offload.Recorder = recorder
	})
}

// loseSome holds packets until the budget of the socket is spent, and returns how many datagrams were dropped.
func (v *victim) loseSome() int {
	v.hold = true
	for i := 0; v.s.Stats().Drops < 10; i++ {
		v.Less(i, 10_000)
		v.send(1)
		v.poll()
	}
	v.hold = false
	return int(v.s.Stats().Drops)
}

// The command writes the frames that the recorder has, each that was dropped with its reason; --last and a filter choose.
func TestCaptureOfWhatWas(t *testing.T) {
	v := recorded(t, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{Budget: 1 << 14}})
	lost := v.loseSome()
	capture := func(args ...string) []byte {
		t.Helper()
		path := filepath.Join(t.TempDir(), "frames.pcapng")
		_, errs, code := run(append([]string{"capture", "-k", v.dir, "-w", path}, args...)...)
		v.Zero(code, errs)
		v.Contains(errs, path)
		info, err := os.Stat(path)
		v.NoError(err)
		v.Equal(os.FileMode(0o600), info.Mode())
		text, err := os.ReadFile(path)
		v.NoError(err)
		return text
	}
	n, commented := frames(t, capture(), feedText, "udp.budget")
	v.Equal(v.sent, n, "all that came")
	v.Equal(lost, commented)
	n, _ = frames(t, capture("--last", "1h"), feedText, "")
	v.Equal(v.sent, n)
	time.Sleep(10 * time.Millisecond)
	n, _ = frames(t, capture("--last", "1ms"), feedText, "")
	v.Zero(n)
	if _, err := exec.LookPath("tcpdump"); err == nil {
		port := strconv.Itoa(int(v.s.LocalAddr().Port()))
		n, _ = frames(t, capture("udp", "dst", "port", port), feedText, "")
		v.Equal(v.sent, n)
		n, _ = frames(t, capture("udp dst port 9 and not dst port "+port), feedText, "")
		v.Zero(n)
	}
}

// A live capture turns on a recorder that is off, and has all that comes until it ends.
func TestCaptureOfWhatComes(t *testing.T) {
	v := newVictim(t, conf.RingOffload, xtreme.UDPConfig{})
	path := filepath.Join(t.TempDir(), "frames.pcapng")
	_, errs, code := run("capture", "-k", v.dir, "-w", path)
	v.Equal(exitFailure, code)
	v.Contains(errs, "SX_RECORD")
	out, in, err := os.Pipe()
	v.NoError(err)
	ended := make(chan int, 1)
	go func() {
		ended <- Run([]string{"capture", "-k", v.dir, "-w", "-", "--for", "2s"}, in, io.Discard)
		_ = in.Close()
	}()
	text := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(out)
		text <- b
	}()
	before, sent := v.got, 0
	for code := -1; code < 0; sent++ {
		v.send(1)
		v.pollFor(5 * time.Millisecond)
		select {
		case code = <-ended:
			v.Zero(code)
		default:
		}
	}
	n, _ := frames(t, <-text, feedText, "")
	v.Positive(n)
	v.LessOrEqual(n, v.got-before)
	v.Greater(n, (v.got-before)/2, "for two seconds of what took a little longer")
}

func TestCaptureArguments(t *testing.T) {
	for want, args := range map[string][]string{"-w FILE": {}, "last -1s": {"-w", "-", "--last", "-1s"}, "for -1s": {"-w", "-", "--for", "-1s"},
		"mib 0": {"-w", "-", "--mib", "0"}, "snap 70000": {"-w", "-", "--snap", "70000"}, "json": {"-w", "-", "--json"}} {
		_, errs, code := run(append([]string{"capture", "-k", t.TempDir()}, args...)...)
		require.Equal(t, exitUsage, code, want)
		require.Contains(t, errs, want)
	}
	_, errs, code := run("capture", "-k", t.TempDir(), "-w", "-")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errs, "no process publishes")
}
