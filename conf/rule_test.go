package conf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong with a rule, and where.
func TestRuleErrorsHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"use":                          "line 1, column 4: the end of the rules: want os",
		"use os":                       "line 1, column 7: the end of the rules: want tcp_server",
		"use os tcp":                   `line 1, column 8: "tcp": want tcp_server`,
		"use os tcp_server":            "line 1, column 18: the end of the rules: want an IPv4 address or *",
		"use os tcp_server *":          `line 1, column 20: the end of the rules: want ":"`,
		"use os tcp_server *:":         "line 1, column 21: the end of the rules: want a port or *",
		"use os tcp_server *:1-":       "line 1, column 23: the end of the rules: want a port",
		"use os tcp_server *:1:":       "line 1, column 23: the end of the rules: want an IPv4 address or *",
		"use os tcp_server 1.2.3:4":    `line 1, column 24: ":": want "."`,
		"use os tcp_server 1.2.3.4/:4": `line 1, column 27: ":": want a number of bits`,
		"use os tcp_server 1.2.3.4/99999999999999999999999:4": "line 1, column 27: /99999999999999999999999: want 0 to 32",
		"use os tcp_server [::1]:4":                           `line 1, column 19: "[::1]:4": want an IPv4 address or *`,
		"use os tcp_server *:1\n\n use os  nobody *":          `line 3, column 10: "nobody": want tcp_server`,
		"application-id":                                      "line 1, column 15: the end of the rules: want the name of a program",
		"application-id x\n":                                  "line 1, column 17: the end of the line: want an application id",
		"log nowhere":                                         `line 1, column 5: "nowhere": want destination, min-level, use`,
		"log destination nowhere":                             `line 1, column 17: "nowhere": want syslog, stderr or file`,
		"log destination file":                                "line 1, column 21: the end of the rules: want the name of a file",
		"log min-level high":                                  `line 1, column 15: "high": want a number`,
		"use os udp_receivers *:1":                            `line 1, column 8: "udp_receivers": want tcp_server`,
		"use oss udp_receiver *:1":                            `line 1, column 5: "oss": want os, vma`,
		"uses os udp_receiver *:1":                            `line 1, column 1: "uses": want use, application-id or log`,
		"log destination stderr_ min-level 1":                 `line 1, column 17: "stderr_": want syslog, stderr or file`,
		"\x00":                                                `line 1, column 1: "\x00": want use`,
		"use " + strings.Repeat("é", 1<<19):                   `line 1, column 5: "` + strings.Repeat("é", 40) + `…": want os`,
		"use os tcp_server *:" + strings.Repeat("9", 1<<20):   "port " + strings.Repeat("9", 40) + "…: want 0 to 65535",
	} {
		r, err := ParseRules(text)
		require.ErrorContains(t, err, want, text)
		require.Nil(t, r)
		var place *RuleError
		require.True(t, errors.As(err, &place))
		require.Less(t, len(err.Error()), 200, "whatever the text")
	}
	_, err := (&Rules{}).With(strings.Repeat("x", 1<<20), true)
	require.Less(t, len(err.Error()), 300)
}

// Some editors begin a file with a byte-order mark: the rules hold, and columns are those that the editor shows.
func TestByteOrderMark(t *testing.T) {
	r, err := ParseRules("\ufeffuse os tcp_server *:1\n")
	require.NoError(t, err)
	require.Equal(t, "application-id * *\nuse os tcp_server *:1\n", r.String())
	_, err = ParseRules("\ufeffuse as")
	require.ErrorContains(t, err, "line 1, column 5:")
	_, err = ParseRules("use os tcp_server *:1\n\ufeffuse os tcp_server *:2\n")
	require.ErrorContains(t, err, `line 2, column 1: "\ufeffuse": want`, "at the head only")
	_, err = ParseRulesAsVMA("\ufeffuse os tcp_server *:1\n")
	require.Error(t, err)
}

// With keeps of equal rules that were added the one that is tried first; the file's stay. WithAdded moves what was added over to a file
// that was read again.
func TestAddedRules(t *testing.T) {
	read := func(text string) *Rules {
		r, err := ParseRules(text)
		require.NoError(t, err)
		return r
	}
	with := func(r *Rules, text string, prepend bool) *Rules {
		next, err := r.With(text, prepend)
		require.NoError(t, err)
		return next
	}
	r := read("application-id a *\nuse os tcp_server *:1\napplication-id b *\nuse os tcp_server *:2\n")
	require.Equal(t, read(r.String()).String(), read(r.String()).WithAdded(r).String(), "nothing was added")
	for range 1000 {
		r = with(r, "use os tcp_server *:3:*:4", true)
		r = with(r, "use os tcp_server *:5", false)
		r = with(r, "use os tcp_server *:6", true)
	}
	r = with(r, "use vma tcp_server *:5\nuse os tcp_server *:2", false) // the second is in the file
	require.Equal(t, "application-id a *; use os tcp_server *:1; application-id b *; use os tcp_server *:6; use os tcp_server *:3:*:4; "+
		"use os tcp_server *:2; use os tcp_server *:5; use sx tcp_server *:5;", kept(r))
	for _, rule := range r.Groups()[1].Rules(TCPServer) {
		require.Equal(t, rule.First.First == 2, rule.Line > 0, "added at run time: %v", rule)
	}

	again := read("application-id c *\nuse os tcp_server *:9\napplication-id a *\nuse os tcp_server *:1\n").WithAdded(r)
	require.Equal(t, "application-id c *; use os tcp_server *:9; application-id a *; use os tcp_server *:1; application-id b *; "+
		"use os tcp_server *:6; use os tcp_server *:3:*:4; use os tcp_server *:5; use sx tcp_server *:5;", kept(again))
	again = with(with(again, "application-id d *", true), "use os udp_sender *:1", true)
	require.Equal(t, "d", again.Groups()[3].Program)
	back := read("application-id c *\nuse os tcp_server *:9\n").WithAdded(again)
	require.Equal(t, "application-id c *; use os tcp_server *:9; application-id b *; use os tcp_server *:6; use os tcp_server *:3:*:4; "+
		"use os tcp_server *:5; use sx tcp_server *:5; application-id d *; use os udp_sender *:1;", kept(back))
	require.Equal(t, "d", with(back, "use os udp_sender *:2", true).Groups()[2].Program, "where the last one went")
	require.Len(t, with(back, "use os udp_sender *:2", true).Groups()[2].Rules(UDPSender), 2)
	require.Equal(t, "application-id * *; use os tcp_server *:2; use os tcp_server *:1;", kept(with(&Rules{}, "use os tcp_server *:1\nuse os tcp_server *:2", true)))
}

// A text that is to add something and has no statement is a mistake of its caller; a file may be empty.
func TestRuleWithoutStatement(t *testing.T) {
	for text, want := range map[string]string{
		"":           `rule "": line 1, column 1: the end of the rules: want use, application-id or log`,
		" \n\t\n":    `rule " \n\t\n": line 3, column 1: the end of the rules: want use`,
		"# a remark": `rule "# a remark": line 1, column 11: the end of the rules: want use`,
	} {
		r, err := (&Rules{}).With(text, true)
		require.ErrorContains(t, err, want)
		require.Nil(t, r)
		var place *RuleError
		require.True(t, errors.As(err, &place))

		r, err = ParseRules(text)
		require.NoError(t, err, "a file")
		require.Empty(t, r.String())
	}
}

func TestRulesReadBack(t *testing.T) {
	const text = "application-id ping* id1\nuse sx udp_receiver 224.0.0.0/4:1000-2000\nuse * udp_sender 10.0.0.1:5:10.0.0.0/8:*\n" +
		"application-id * *\nuse os tcp_server *:22\nuse sdp tcp_client *:*\n"
	r, err := ParseRules("# head\n\n" + text + "log destination stderr # none\nlog min-level 3")
	require.NoError(t, err)
	again, err := ParseRules(r.String())
	require.NoError(t, err)
	require.Equal(t, r.String(), again.String())
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		require.Contains(t, r.String(), line)
	}
	require.Equal(t, 4, r.Groups()[0].Rules(UDPReceiver)[0].Line)
	for _, word := range []string{"vma", "xlio", "sx"} {
		r, err := ParseRules("use " + word + " tcp_server *:1")
		require.NoError(t, err)
		require.Equal(t, Offloaded, r.Groups()[0].Rules(TCPServer)[0].Transport)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "sockperf", true}, {"sock*", "sockperf", true}, {"*perf", "sockperf", true}, {"s*k*f", "sockperf", true},
		{"s*k*x", "sockperf", false}, {"", "", true}, {"", "a", false},
		{"a", "", false}, {"?", "a", true}, {"?", "", false}, {"a?c", "abc", true},
		{"[a-c]x", "bx", true}, {"[a-c]x", "dx", false}, {"[!a-c]x", "dx", true}, {"[^a]x", "ax", false}, {"[]]", "]", true}, {"[a", "[a", true},
		{"[a-]", "-", true}, {`\*`, "*", true}, {`\*`, "a", false}, {`\`, `\`, true}, {"a/*", "a/b/c", true}, {"**", "x", true},
		{"[[:alpha:]]x", "qx", true}, {"[[:alpha:]]x", "1x", false}, {"[![:alpha:]]x", "1x", true}, {"[[:digit:]_]", "_", true},
		{"[[:upper:][:digit:]]", "7", true}, {"[[:upper:][:digit:]]", "a", false}, {"[[:nosuch:]]", "n", false}, {"[[:alpha]", ":", true},
		{"[[:alpha]", "z", false}, {"s[[:lower:]]*[[:digit:]]", "sockperf2", true},
		{`[\]]`, "]", true}, {`[\!a]`, "!", true}, {`[\a]`, `\`, false},
		{"[[:nosuch:]n]", "n", false}, {"[![:nosuch:]]", "n", false}, {"[a[:b]", "[", true}, {`[a\-c]`, "b", false}, {`[a-\c]`, "b", true},
		{"[[:digit:]-z]", "-", true}, {"[[:alpha:", "[", false}, {"[[:ALPHA:]]", "a", false},
		{strings.Repeat("*a", 40) + "b", strings.Repeat("a", 200), false},
	} {
		require.Equal(t, c.want, glob(c.pattern, c.name), "%q %q", c.pattern, c.name)
	}
}

// The first %d in the name of the rules file is the process, as in VMA.
func TestRulesFileOfAProcess(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	name := fmt.Sprintf("rules.%d.%%d", os.Getpid())
	require.NoError(t, os.WriteFile(name, []byte("use os tcp_client *:9\n"), 0o600))
	s := fromEnvironment(env(map[string]string{"VMA_CONFIG_FILE": "rules.%d.%d"}))
	text, shipped, err := s.RulesText()
	require.NoError(t, err)
	require.False(t, shipped)
	require.Equal(t, "use os tcp_client *:9\n", text)
	require.NoError(t, os.WriteFile(name, []byte("use nonsense\n"), 0o600))
	_, err = s.Rules()
	require.ErrorContains(t, err, "rules file "+name+":")
}

func TestRulesFile(t *testing.T) {
	s := Default()
	r, err := ParseRules(ShippedRules)
	require.NoError(t, err)
	require.Equal(t, "application-id * *\nuse os udp_connect *:53\n", r.String())
	if _, err := os.Stat(DefaultRulesFile); errors.Is(err, os.ErrNotExist) {
		got, err := s.Rules()
		require.NoError(t, err)
		require.Equal(t, r.String(), got.String())
	}
	s.RulesFile = filepath.Join(t.TempDir(), "rules")
	_, err = s.Rules()
	require.ErrorIs(t, err, os.ErrNotExist, "one that was asked for must be there")
	require.NoError(t, os.WriteFile(s.RulesFile, []byte("use os\n"), 0o600))
	_, err = s.Rules()
	require.ErrorContains(t, err, "conf: rules file "+s.RulesFile+": line 1, column 7")
	require.NoError(t, os.WriteFile(s.RulesFile, []byte("use os tcp_server *:7\n"), 0o600))
	got, err := s.Rules()
	require.NoError(t, err)
	require.Equal(t, "application-id * *\nuse os tcp_server *:7\n", got.String())
}

// A file that is named must be there, also where the name is that of the default.
func TestTheDefaultRulesFileByName(t *testing.T) {
	if _, err := os.Stat(DefaultRulesFile); err == nil {
		t.Skip("there is a " + DefaultRulesFile)
	}
	for _, name := range []string{"VMA_CONFIG_FILE", "XLIO_CONFIG_FILE"} {
		s := fromEnvironment(env(map[string]string{name: DefaultRulesFile}))
		_, _, err := s.RulesText()
		require.ErrorIs(t, err, os.ErrNotExist, name)
	}
	s := fromEnvironment(env(map[string]string{"VMA_CONFIG_FILE": "other"}))
	s.RulesFile = DefaultRulesFile // by code
	_, _, err := s.RulesText()
	require.ErrorIs(t, err, os.ErrNotExist)
	s = Default()
	_, shipped, err := s.RulesText()
	require.NoError(t, err)
	require.True(t, shipped, "nobody named it")
}

// Whatever the text, reading ends without a panic; what is read can be written and read again to the same; VMA's reading keeps all that
// this one keeps, unless the text uses what VMA has not.
func FuzzRules(f *testing.F) {
	for _, v := range parserVectors {
		f.Add(v.text)
	}
	f.Add(ShippedRules)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRules(text)
		vma, vmaErr := ParseRulesAsVMA(text)
		require.NotNil(t, vma)
		if err != nil {
			require.Nil(t, r)
			return
		}
		again, err := ParseRules(r.String())
		require.NoError(t, err)
		require.Equal(t, r.String(), again.String())
		if vmaErr == nil && !strings.Contains(text, "\r") { // lines may end in CRLF here, which is part of a name there
			require.Equal(t, r.String(), vma.String())
		}
		r.Match(Program{"m", "*"}, TCPServer, address("10.0.0.1:80"), address(""))
		added, err := r.With("use os tcp_server *:1", true)
		require.NoError(t, err)
		require.NotEqual(t, r.String(), added.String())
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("a*[b-c]?", "axbz")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		_ = glob(pattern, name) // no pattern is a panic or takes for ever
		require.True(t, glob("*", name))
		if !strings.ContainsAny(name, `*?[\`) {
			require.True(t, glob(name, name))
			require.Equal(t, pattern == name, glob(name, pattern), "a name without signs is found by itself only")
		}
	})
}
