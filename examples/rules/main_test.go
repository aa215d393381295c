package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

func runWith(args []string, out io.Writer, hup, end <-chan os.Signal) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	return run(c, out, hup, end)
}

func rules(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAnswers(t *testing.T) {
	var out bytes.Buffer
	path := rules(t, "# one\nuse os tcp_server *:80\n")
	require.NoError(t, runWith([]string{"-file", path, "-ask", "tcp_server=10.0.0.1:80", "-ask", "tcp_server=10.0.0.1:81"}, &out, nil, nil))
	require.Equal(t, "tcp_server 10.0.0.1:80: os (use os tcp_server *:80, line 2)\n"+
		"tcp_server 10.0.0.1:81: sx (no rule matches)\n", out.String())
	require.ErrorContains(t, runWith([]string{"-file", rules(t, "use os\n")}, &out, nil, nil), "line 1, column 7")
	require.ErrorContains(t, runWith([]string{"-ask", "server=1.1.1.1:1"}, &out, nil, nil), `role "server"`)
	require.ErrorContains(t, runWith([]string{path}, &out, nil, nil), "only flags are known")
	require.ErrorContains(t, runWith([]string{"-listen", "here"}, &out, nil, nil), `-listen "here"`)
}

// Without arguments it shows the rules that hold, a call that they decide and one that they leave; and checks the same rules.
func TestDefault(t *testing.T) {
	const rules = "application-id * *\nuse os udp_connect *:53\n"
	answers := func(line int) string {
		return fmt.Sprintf("udp_connect 192.0.2.1:53: os (use os udp_connect *:53, line %d)\n"+
			"udp_connect 192.0.2.1:54: sx (no rule matches)\n", line)
	}
	path := filepath.Join(t.TempDir(), "libvma.conf")
	require.NoError(t, os.WriteFile(path, []byte(rules), 0o600))
	t.Setenv("VMA_CONFIG_FILE", path)
	var out bytes.Buffer
	require.NoError(t, runWith(nil, &out, nil, nil))
	require.Equal(t, "the rules of "+path+":\n"+rules+answers(2), out.String())

	if _, err := os.Stat(conf.DefaultRulesFile); err == nil {
		return // the rules of this machine are not known
	}
	require.NoError(t, os.Unsetenv("VMA_CONFIG_FILE"))
	shipped := "the rules that come with the library (there is no " + conf.DefaultRulesFile + "):\n"
	out.Reset()
	require.NoError(t, runWith(nil, &out, nil, nil))
	require.Equal(t, shipped+rules+answers(10), out.String())
	out.Reset()
	require.NoError(t, runWith([]string{"-check"}, &out, nil, nil))
	require.Equal(t, shipped+"no mistake; the same as VMA reads:\n"+rules, out.String())
	err := runWith([]string{"-check", "-file", path + ".none"}, &out, nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist, "one that was asked for must be there")
}

// turn is an output that does something at given lines: what a person with an editor would do.
type turn struct {
	bytes.Buffer
	at map[string]func()
}

func (w *turn) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	for text, do := range w.at {
		if strings.Contains(w.String(), text) {
			delete(w.at, text)
			do()
		}
	}
	return n, err
}

func TestFileIsReadAgainOnSIGHUP(t *testing.T) {
	path := rules(t, "use os tcp_server *:1\n")
	hup, end := make(chan os.Signal, 4), make(chan os.Signal, 1)
	write := func(text string) func() {
		return func() {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			hup <- os.Interrupt
		}
	}
	out := &turn{at: map[string]func(){
		"(no rule matches)": write("use os tcp_server *:*\n"),
		"[rule.os]":         write("use nonsense\n"),
		"not changed":       func() { end <- os.Interrupt },
	}}
	require.NoError(t, runWith([]string{"-file", path, "-ask", "tcp_server=127.0.0.1:80", "-listen", "127.0.0.1:0", "-follow"}, out, hup, end))
	text := out.String()
	require.Contains(t, text, "read again\ntcp_server 127.0.0.1:80: os (use os tcp_server *:*, line 1)\n")
	require.Equal(t, 1, strings.Count(text, "[rule.os]"), text)
	require.Contains(t, text, `line 1, column 5: "nonsense"`)
}

func TestCheckComparesWithVMA(t *testing.T) {
	for file, want := range map[string]string{
		"use os tcp_server *:1\n":                         "no mistake; the same as VMA reads:\napplication-id * *\nuse os tcp_server *:1\n",
		"use os tcp_server *:1\nuse os tcp_server *:x\n":  "VMA would keep:\napplication-id * *\nuse os tcp_server *:1\n",
		"log destination stderr\nuse os tcp_server *:1\n": "no mistake; VMA would stop (line 1, column 17: ",
	} {
		var out bytes.Buffer
		require.NoError(t, runWith([]string{"-file", rules(t, file), "-check"}, &out, nil, nil))
		require.Contains(t, out.String(), want)
	}
}
