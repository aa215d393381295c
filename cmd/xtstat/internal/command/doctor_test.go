package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/doctor"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// The doctor looks at this very machine, at a veth in a namespace of its own: lines and JSON, exit code, a cure that is applied and undone.
func TestDoctorOnAVeth(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := Run(append([]string{"doctor"}, args...), &out, &errs)
		require.Empty(t, errs.String())
		return code, out.String()
	}
	set := func(path, value string) { require.NoError(t, doctor.This().Write("proc/sys/net/ipv4/"+path, value)) }
	set("conf/all/rp_filter", "0")
	set("conf/v0/rp_filter", "1")
	set("igmp_max_memberships", "20")
	_, text := run(n.Device(0))
	require.Contains(t, text, "up, with a carrier, driver veth")
	require.Contains(t, text, "generic is best for a veth")
	require.Regexp(t, `cure +v0 rp-filter .*ip.rp_filter`, text)
	require.NotContains(t, text, "\x1b")
	for line := range strings.Lines(text) {
		require.Regexp(t, `^(good|cure|note|unknown) `, line)
	}

	find := func(args ...string) (r doctor.Result, code int) {
		code, text := run(append(args, "--json", n.Device(0))...)
		for line := range strings.Lines(text) {
			var one doctor.Result
			require.NoError(t, json.Unmarshal([]byte(line), &one))
			if one.Check == "igmp-limits" && strings.Contains(one.Text, "memberships") {
				r = one
			}
		}
		return r, code
	}
	r, code := find()
	require.Equal(t, exitFailure, code)
	require.Equal(t, doctor.Cure, r.Status)
	require.Contains(t, r.Cure, "sysctl -w net.ipv4.igmp_max_memberships=256")
	r, _ = find("--fix")
	require.Equal(t, doctor.Good, r.Status)
	require.Equal(t, "/proc/sys/net/ipv4/igmp_max_memberships = 256", r.Fixed)
	require.Equal(t, "echo 20 > /proc/sys/net/ipv4/igmp_max_memberships", r.Undo)
	r, _ = find()
	require.Equal(t, doctor.Good, r.Status)
}

// On a terminal of 80 columns each check is the same line as on a pipe, which the terminal wraps, and the shell has the exit code.
func TestDoctorInATerminal(t *testing.T) {
	testnet.NeedProgram(t, "tmux")
	n := testnet.New(t, testnet.Pair{})
	for path, value := range map[string]string{"conf/all/rp_filter": "0", "conf/v0/rp_filter": "1"} {
		require.NoError(t, doctor.This().Write("proc/sys/net/ipv4/"+path, value))
	}
	x := &tmux{t, "xtstat-doctor-" + strconv.Itoa(os.Getpid())}
	script := ""
	for _, args := range []string{"doctor " + n.Device(0), "doctor a b", "doctor nosuch0"} {
		script += fmt.Sprintf("XTSTAT_TEST_RUN='%s' %s; echo \"exit code $?\"; ", args, os.Args[0])
	}
	x.run("new-session", "-d", "-x", "80", "-y", "60", "/bin/sh", "-c", script+"echo the end; sleep 600")
	t.Cleanup(func() { _ = exec.Command("tmux", "-L", x.socket, "kill-server").Run() })
	x.shows("the end")
	screen := x.run("capture-pane", "-p", "-J", "-e", "-S", "-") // with lines joined that were wrapped, and escape codes
	require.NotContains(t, screen, "\x1b")
	text, rest, found := strings.Cut(screen, "exit code 1\n")
	require.True(t, found, screen)
	statuses := map[string]int{}
	for line := range strings.Lines(text) {
		require.Regexp(t, `^(good|cure|note|unknown) +[a-z0-9 -]+ [^ ]`, line)
		statuses[strings.Fields(line)[0]]++
	}
	require.Positive(t, statuses["good"])
	require.Positive(t, statuses["cure"])
	require.Regexp(t, `(?m)^good +v0 link +up, with a carrier, driver veth *$`, text)
	require.Regexp(t, `(?m)^cure +v0 rp-filter +strict: .*; cure: sysctl -w net\.ipv4\.conf\.all\.rp_filter=2 net\.ipv4\.conf\.v0\.rp_filter=2 *$`, text)
	var out bytes.Buffer
	require.Equal(t, exitFailure, Run([]string{"doctor", n.Device(0)}, &out, &out))
	require.Equal(t, strings.Count(out.String(), "\n"), strings.Count(text, "\n"), "as many lines as on a pipe")
	require.Regexp(t, `(?s)^xtstat: .*accepts at most 1 arg.*exit code 2\nxtstat: .*interface "nosuch0".*exit code 1\n`, rest)
	wrapped := x.run("capture-pane", "-p", "-S", "-")
	require.Greater(t, strings.Count(wrapped, "\n"), strings.Count(screen, "\n"), "the terminal has wrapped lines")
	for line := range strings.Lines(wrapped) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80)
	}
}

// An interface that does not exist is an error, and two of them a mistake on the command line.
func TestDoctorExitCodes(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, exitUsage, Run([]string{"doctor", "a", "b"}, &out, &errs))
	require.Equal(t, exitFailure, Run([]string{"doctor", "nosuch0"}, &out, &errs))
	require.Contains(t, errs.String(), `interface "nosuch0"`)
}
