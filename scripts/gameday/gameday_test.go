package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// The victim is this program once more.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == victimRole {
		if err := victim(os.Args[2:]); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("SOCKETXTREME_LONG") != "" && !leadsSession(os.Getpid()) { // as main does
		os.Exit(runInOwnSession())
	}
	os.Exit(m.Run())
}

// Seeds draw every cause, and the same seed the same one.
func TestDraw(t *testing.T) {
	seen := map[string]bool{}
	for seed := uint64(1); seed <= 200; seed++ {
		c, size := draw(seed)
		again, sizeAgain := draw(seed)
		require.Same(t, c, again)
		require.Equal(t, size, sizeAgain)
		require.Positive(t, size)
		seen[c.name] = true
	}
	require.Len(t, causes, 14)
	require.Len(t, seen, len(causes))
}

// What is sealed is not readable, and opens to the same.
func TestSeal(t *testing.T) {
	a := answer{Cause: "budget", Place: "socket", Begin: time.Unix(1, 2).UTC(), End: time.Unix(3, 4).UTC(), Packets: 5, Messages: 6, Note: "a note"}
	path, err := seal(t.TempDir(), a)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "budget")
	b, err := unseal(path)
	require.NoError(t, err)
	require.Equal(t, a, b)
	require.NoError(t, os.WriteFile(path, text[4:], 0o600))
	_, err = unseal(path)
	require.ErrorContains(t, err, path)
	_, err = findCause("rain")
	require.ErrorContains(t, err, `"rain"`)
}

// Help is printed, of opening an answer too, and what is wrong is named.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"open", "-h"}} {
		require.ErrorIs(t, run(args), flag.ErrHelp)
	}
	require.ErrorContains(t, run([]string{"open"}), "want the file of an answer")
	require.ErrorContains(t, run([]string{"shut"}), `"shut"`)
}

// The game prefers its own processes alone: the session that it was started in keeps its priority, and so does this process when a game is over.
func TestPriorityIsOfOwnProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "root", "priorities are raised")
	}
	session := func() string {
		text, err := os.ReadFile("/proc/self/autogroup")
		if errors.Is(err, fs.ErrNotExist) {
			testnet.Missing(t, "autogroup", "this kernel has no groups of sessions (sched_autogroup)")
		}
		require.NoError(t, err)
		return string(text)
	}
	nice := func() int {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		require.NoError(t, err)
		return 20 - n // as the system call returns it
	}
	if leadsSession(os.Getpid()) {
		t.Skip("this process has a session of its own")
	}
	before, was := session(), nice()
	require.NoError(t, setPriority(os.Getpid(), playing))
	require.Equal(t, before, session(), "others run in this session too")
	require.Equal(t, playing, nice())
	require.NoError(t, setPriority(os.Getpid(), was))
	require.Equal(t, was, nice())
}

// finding is what xtstat why --json prints.
type finding struct {
	Place    string
	Cause    string
	Count    int
	Time     time.Time
	Since    time.Time
	Until    time.Time
	Evidence []string
}

// said is what xtstat why must say of each cause.
var said = map[string]string{
	"sender skips a sequence":           "nothing was lost on this host",
	"checksum":                          "udp.sum",
	"VLAN tag":                          "VLAN tag",
	"link flap":                         "carried nothing",
	"a queue that no ring serves":       "no ring serves",
	"program displaced":                 "program was displaced",
	"nft drop":                          "a rule of the firewall",
	"ring full":                         "timers",
	"no buffers, because they are held": "are held",
	"budget":                            "udp.budget",
	"source filter":                     "filter of sources",
	"membership lost":                   "left a group",
	"garbage collection":                "garbage collection",
	"SIGSTOP":                           "SIGSTOP",
}

// Every cause is found by one command: its name, its place, its count, its time to 10 ms; and nothing is called local that was lost upstream.
// With SOCKETXTREME_LONG all of them are played, some two minutes; else the first, so that the game works when it is needed.
func TestXtstatFindsTheCause(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "namespaces", "root")
	}
	xtstat := filepath.Join(t.TempDir(), "xtstat")
	out, err := exec.Command("go", "build", "-o", xtstat, "../../cmd/xtstat").CombinedOutput()
	require.NoError(t, err, string(out))
	list := causes
	if os.Getenv("SOCKETXTREME_LONG") == "" {
		list, quiet = causes[:1], 1200*time.Millisecond
	}
	for i := range list {
		c := &list[i]
		t.Run(c.name, func(t *testing.T) {
			const tries = 5 // on a busy machine other things are lost in the same moment
			for try := 1; ; try++ {
				wrong := playOnce(t, xtstat, c)
				if wrong == "" {
					return
				}
				t.Log(wrong)
				require.Less(t, try, tries, wrong)
			}
		})
	}
}

// playOnce plays a game, and says what is wrong with what xtstat found.
func playOnce(t *testing.T, xtstat string, c *cause) (wrong string) {
	dir := t.TempDir()
	g, err := start(dir, c, 20)
	require.NoError(t, err)
	defer func() { require.NoError(t, g.close()) }()
	a, err := g.play()
	require.NoError(t, err)
	out, err := exec.Command(xtstat, "why", "-k", g.statistics(), "-p", strconv.Itoa(g.process()), "--window", "1m", "--json").Output()
	require.NoError(t, err)
	var all []finding
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var f finding
		require.NoError(t, d.Decode(&f))
		all = append(all, f)
	}
	t.Logf("%+v\n%s", a, out)
	require.Positive(t, a.Packets+a.Messages, "nothing was lost or diverted: the game is broken")
	return judge(&a, all)
}

// judge says what is wrong with the findings.
func judge(a *answer, all []finding) string {
	const exact = 10 * time.Millisecond
	near := func(x time.Time) bool { return !x.Before(a.Begin.Add(-exact)) && !x.After(a.End.Add(exact)) }
	cause, counted, timed := false, false, false
	for _, f := range all {
		if a.Place == "upstream" && f.Place != "upstream" && f.Place != "unknown" && f.Count > 0 && near(f.Time) {
			return "a loss upstream is called local: " + f.Cause
		}
		if a.Place != "upstream" && f.Place == "upstream" && f.Count > 0 {
			return "a loss here is called one of the sender or the network: " + f.Cause
		}
		of := strings.Contains(f.Cause, said[a.Cause]) && (f.Place == a.Place)
		cause = cause || of
		if of || strings.Contains(f.Cause, "missing") {
			counted = counted || f.Count == a.Packets || f.Count == a.Messages && a.Messages > 0
			timed = timed || near(f.Time)
		}
	}
	switch {
	case !cause:
		return "the cause is not named, or not at its place"
	case !counted:
		return "the count is not exact"
	case !timed:
		return "the time is not exact"
	}
	return ""
}

// Frames are lost while buffers are held: the end is when they were released, not when the last datagram was sent that the application holds.
func TestHeldBuffersEndWithTheirRelease(t *testing.T) {
	at := func(ms int) time.Time { return time.Now().Add(time.Duration(ms) * time.Millisecond).Round(0) }
	var answers bytes.Buffer
	reports := []report{{Begin: at(0), End: at(1)}, {Begin: at(500), End: at(500)}, {Begin: at(600), End: at(602)}, {Begin: at(700), End: at(700), Audit: 4990}}
	for _, r := range reports {
		require.NoError(t, json.NewEncoder(&answers).Encode(r))
	}
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer server.Close()
	var commands bytes.Buffer
	g := &game{commands: writeCloser{&commands}, answers: bufio.NewReader(&answers)}
	for range auditSockets {
		c, err := net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr))
		require.NoError(t, err)
		defer c.Close()
		g.audit = append(g.audit, c)
	}
	var a answer
	require.NoError(t, holdBuffers(g, &a))
	require.Equal(t, "exhaust\nreport\nrelease\nreport\n", commands.String())
	require.Equal(t, 10, a.Packets)
	require.True(t, a.Begin.Equal(reports[0].Begin))
	require.True(t, a.End.Equal(reports[2].End), "%v", a.End)
}

// writeCloser is a buffer that is closed.
type writeCloser struct{ *bytes.Buffer }

func (writeCloser) Close() error { return nil }

// Packets take the other way until a program is on the interface again, behind the end of what was done: the answer says so.
func TestAnswerSaysWhatFollowsADisplacedProgram(t *testing.T) {
	c, err := findCause("program displaced")
	require.NoError(t, err)
	require.Contains(t, c.note, "until the feed handler had attached another one")
}

// The guide has a row for each cause, with its place and what xtstat why says of it.
func TestGuideHasEachCause(t *testing.T) {
	guide, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	for i := range causes {
		row, c := "", &causes[i]
		for line := range strings.Lines(string(guide)) {
			if strings.HasPrefix(line, "| "+c.name+" | "+c.place+" | ") {
				row = line
			}
		}
		require.Contains(t, row, said[c.name], c.name)
	}
}
