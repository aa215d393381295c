package conf

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept is a rules set in one line: groups and their rules, role by role.
func kept(r *Rules) string {
	if r == nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(r.String(), "\n", "; "))
}

// The inputs and what VMA's own parser made of them, run on the C code. ours is what this one says: the same rules where VMA kept all, an
// error with its place where VMA did, and then nothing.
var parserVectors = []struct {
	name, text string
	vma        string // what VMA kept
	fails      bool   // and whether it returned 1
	ours       string // an error of ours; empty: none, and what VMA kept unless with is set
	with       string
}{
	{name: "two on one line", text: "use os tcp_server *:1 use vma tcp_client 10.0.0.0/8:1-5:*:*\n",
		vma: "application-id * *; use os tcp_server *:1; use sx tcp_client 10.0.0.0/8:1-5:*:*;"},
	{name: "no newline at the end", text: "use os tcp_server *:1", vma: "application-id * *; use os tcp_server *:1;"},
	{name: "trailing comment", text: "use os tcp_server *:1 # hi\n", vma: "application-id * *; use os tcp_server *:1;"},
	{name: "log destination stderr", text: "log destination stderr\nuse os tcp_server *:1\n", fails: true,
		with: "application-id * *; use os tcp_server *:1;"},
	{name: "log destination file", text: "log destination file /tmp/x\nuse os tcp_server *:1\n", fails: true,
		with: "application-id * *; use os tcp_server *:1;"},
	{name: "log as VMA's scanner spells it", text: "log destination ystderr\nlog destination yfile /tmp/x\nuse os tcp_server *:1\n",
		vma: "application-id * *; use os tcp_server *:1;"},
	{name: "log syslog and level", text: "log destination syslog min-level 3\nuse os tcp_server *:2",
		vma: "application-id * *; use os tcp_server *:2;"},
	{name: "log level and syslog", text: "log min-level 3 destination syslog min-level 4\nuse os tcp_server *:2",
		vma: "application-id * *; use os tcp_server *:2;"},
	{name: "log alone", text: "log\nlog use os tcp_server *:2\n", vma: "application-id * *; use os tcp_server *:2;"},
	{name: "log level below 0", text: "log min-level -3\nuse os tcp_server *:2\n", fails: true,
		ours: `line 1, column 15: "-": want a number`},
	{name: "leading zero", text: "use os tcp_server 010.0.0.1:2\nuse os tcp_server *:1\n", fails: true,
		ours: `line 1, column 20: "10": want "."`},
	{name: "unknown transport", text: "use os tcp_server *:1\nuse foo tcp_server *:2\nuse os tcp_server *:3\n",
		vma: "application-id * *; use os tcp_server *:1;", fails: true,
		ours: `line 2, column 5: "foo": want os, vma, xlio, sx or *`},
	{name: "upper case", text: "USE os tcp_server *:1\n", fails: true, ours: `line 1, column 1: "USE": want use, application-id or log`},
	{name: "a group again", text: "application-id a b\nuse os tcp_server *:1\napplication-id c d\nuse os tcp_server *:2\n" +
		"application-id a b\nuse os tcp_server *:3\n",
		vma: "application-id a b; use os tcp_server *:1; use os tcp_server *:3; application-id c d; use os tcp_server *:2;"},
	{name: "prefix 40", text: "use os tcp_server 1.2.3.4/40:1\n", vma: "application-id * *; use os tcp_server 1.2.3.4:1;",
		ours: "line 1, column 27: /40: want 0 to 32"},
	{name: "prefix 256", text: "use os tcp_server 1.2.3.4/256:1\n", vma: "application-id * *; use os tcp_server 0.0.0.0/0:1;",
		ours: "line 1, column 27: /256: want 0 to 32"},
	{name: "prefix 300", text: "use os tcp_server 1.2.3.4/300:1\n", vma: "application-id * *; use os tcp_server 1.2.3.4:1;",
		ours: "line 1, column 27: /300: want 0 to 32"},
	{name: "port 70000", text: "use os tcp_server *:70000\n", vma: "application-id * *; use os tcp_server *:4464;",
		ours: "line 1, column 21: port 70000: want 0 to 65535"},
	{name: "ports 9-3", text: "use os tcp_server *:9-3\n", vma: "application-id * *; use os tcp_server *:9-3;",
		ours: "line 1, column 21: ports 9-3: the first is the larger one"},
	{name: "ports 5-*", text: "use os tcp_server *:5-*\n", fails: true, ours: `line 1, column 23: "*": want a port`},
	{name: "port 0", text: "use os tcp_server *:0\n", vma: "application-id * *; use os tcp_server *:0;"},
	{name: "256 in an address", text: "use os tcp_server 256.1.1.1:1\nuse os tcp_server *:2\n", fails: true,
		vma:  "application-id * *; use os tcp_server 0.0.0.0:1; use os tcp_server *:2;",
		ours: `line 1, column 19: "256": want 0 to 255`},
	{name: "CRLF", text: "use os tcp_server *:1\r\nuse os tcp_server *:2\r\n", fails: true,
		vma:  "application-id * *; use os tcp_server *:1;",
		with: "application-id * *; use os tcp_server *:1; use os tcp_server *:2;"},
	{name: "newline within", text: "use os\ntcp_server *:1\n", fails: true, ours: "line 1, column 7: the end of the line: want tcp_server"},
	{name: "no blanks", text: "useos tcp_server*:1\n", vma: "application-id * *; use os tcp_server *:1;"},
}

func TestVMAParserVectors(t *testing.T) {
	for _, v := range parserVectors {
		t.Run(v.name, func(t *testing.T) {
			r, err := ParseRulesAsVMA(v.text)
			require.Equal(t, v.vma, kept(r))
			require.Equal(t, v.fails, err != nil, "%v", err)

			r, err = ParseRules(v.text)
			if v.ours != "" {
				require.ErrorContains(t, err, v.ours)
				require.Nil(t, r, "nothing is half applied")
				return
			}
			require.NoError(t, err)
			if v.with == "" {
				v.with = v.vma
			}
			require.Equal(t, v.with, kept(r))
		})
	}
}

func TestVMAAddVectors(t *testing.T) {
	r, err := ParseRules("application-id x y\nuse os tcp_server *:1\nuse os tcp_server *:2\n")
	require.NoError(t, err)
	before := kept(r)
	three, err := r.With("use os tcp_server *:3", true)
	require.NoError(t, err)
	four, err := three.With("use os tcp_server *:4\n", true)
	require.NoError(t, err)
	require.Equal(t, "application-id x y; use os tcp_server *:4; use os tcp_server *:3; use os tcp_server *:1; use os tcp_server *:2;",
		kept(four))
	require.Equal(t, before, kept(r), "what was there did not change")

	// VMA fails the valid line after a bogus one as well: its scanner keeps the rest.
	none, err := four.With("bogus", true)
	require.ErrorContains(t, err, `conf: rule "bogus": line 1, column 1: "bogus": want use`)
	require.Nil(t, none)
	_, err = four.With("use os tcp_server *:5 use foo", true)
	require.Error(t, err)
	require.NotContains(t, kept(four), ":5", "a line with a mistake changes nothing")
	_, err = four.With("use os tcp_server *:5", true)
	require.NoError(t, err)

	q, err := four.With("application-id q r", true)
	require.NoError(t, err)
	q, err = q.With("use os udp_sender *:6", true)
	require.NoError(t, err)
	require.Len(t, q.Groups(), 2)
	require.Equal(t, "q", q.Groups()[1].Program)
	require.Len(t, q.Groups()[1].Rules(UDPSender), 1)

	last, err := r.With("use os tcp_server *:9", false)
	require.NoError(t, err)
	require.Equal(t, "application-id x y; use os tcp_server *:1; use os tcp_server *:2; use os tcp_server *:9;", kept(last))
	implicit, err := (&Rules{}).With("use os tcp_client *:7", true)
	require.NoError(t, err)
	require.Equal(t, "application-id * *; use os tcp_client *:7;", kept(implicit))
}

func address(text string) netip.AddrPort {
	if text == "" {
		return netip.AddrPort{}
	}
	return netip.MustParseAddrPort(text)
}

func TestVMAMatchVectors(t *testing.T) {
	const shipped = "application-id * *\nuse os udp_connect *:53\n"
	b1 := "application-id m B1\nuse os tcp_server *:80\n"
	from := "use os tcp_client 10.0.0.0/8:80:192.168.0.0/16:*\n"
	masks := "use os tcp_server 9.9.9.9/0:*\n"
	for _, v := range []struct {
		name, text, id string
		role           Role
		first, second  string
		want           Transport
	}{
		{"first, not longest", "use os tcp_server *:*\nuse vma tcp_server 10.0.0.1/32:80\n", "", TCPServer, "10.0.0.1:80", "", OS},
		{"no fall through", "application-id m *\nuse os tcp_server *:99\napplication-id * *\nuse os tcp_server *:80\n", "", TCPServer,
			"10.1.1.1:80", "", Offloaded},
		{"another program is skipped", "application-id zzz *\nuse vma tcp_server *:80\napplication-id * *\nuse os tcp_server *:80\n", "",
			TCPServer, "10.1.1.1:80", "", OS},
		{"default id", b1, "", TCPServer, "10.1.1.1:80", "", Offloaded},
		{"its id", b1, "B1", TCPServer, "10.1.1.1:80", "", OS},
		{"another id", b1, "B2", TCPServer, "10.1.1.1:80", "", Offloaded},
		{"any id", b1, "*", TCPServer, "10.1.1.1:80", "", OS},
		{"both tuples", from, "", TCPClient, "10.1.1.1:80", "192.168.1.1:999", OS},
		{"second tuple not", from, "", TCPClient, "10.1.1.1:80", "172.16.1.1:999", Offloaded},
		{"second tuple of a server", "use os tcp_server *:80:1.2.3.4:5\n", "", TCPServer, "10.1.1.1:80", "", OS},
		{"ulp", "use * tcp_server *:*\n", "", TCPServer, "10.1.1.1:80", "", Either},
		{"sdp is skipped", "use sdp tcp_server *:*\nuse os tcp_server *:*\n", "", TCPServer, "10.1.1.1:80", "", OS},
		{"sa is skipped", "use sa tcp_server *:*\nuse os tcp_server *:*\n", "", TCPServer, "10.1.1.1:80", "", OS},
		{"no bits", masks, "", TCPServer, "1.1.1.1:1", "", OS},
		{"host bits are masked", "use os tcp_server 10.1.2.77/24:*\n", "", TCPServer, "10.1.2.3:1", "", OS},
		{"mapped", "use os tcp_server 10.1.2.77/24:*\n", "", TCPServer, "[::ffff:10.1.2.3]:1", "", OS},
		{"ipv6 and any address", "use os tcp_server *:1\n", "", TCPServer, "[::1]:1", "", OS},
		{"ipv6 and ipv4", "use os tcp_server 0.0.0.0/0:1\n", "", TCPServer, "[::1]:1", "", Offloaded},
		{"reversed range", "use os tcp_server *:9-3\n", "", TCPServer, "1.1.1.1:5", "", Offloaded},
		{"last of a range", "use os udp_receiver *:3-9\n", "", UDPReceiver, "1.1.1.1:9", "", OS},
		{"behind a range", "use os udp_receiver *:3-9\n", "", UDPReceiver, "1.1.1.1:10", "", Offloaded},
		{"shipped", shipped, "", UDPConnect, "8.8.8.8:53", "", OS},
		{"shipped, other port", shipped, "", UDPConnect, "8.8.8.8:54", "", Offloaded},
		{"no rules", "", "", TCPServer, "1.1.1.1:1", "", Offloaded},
	} {
		t.Run(v.name, func(t *testing.T) {
			r, err := ParseRulesAsVMA(v.text)
			require.NoError(t, err)
			if v.id == "" {
				v.id = DefaultApplicationID
			}
			require.Equal(t, v.want, r.Match(Program{"m", v.id}, v.role, address(v.first), address(v.second)).Transport)
		})
	}

	r, err := ParseRules(b1)
	require.NoError(t, err)
	require.True(t, r.Knows(Program{"m", "B1"}))
	require.False(t, r.Knows(Program{"m", "B2"}), "VMA warns of it")
}

func TestVMAPreCheckVectors(t *testing.T) {
	const both = "use os tcp_server *:*\nuse os tcp_client *:*:*:*\n"
	for text, want := range map[string][2]Decided{ // TCP, UDP
		"":                                {AllOffloaded, AllOffloaded},
		both:                              {AllOS, AllOffloaded},
		"use vma tcp_server *:5\n" + both: {Undecided, AllOffloaded},
		"use os tcp_server *:5\n" + both:  {AllOS, AllOffloaded},
		"use os udp_receiver *:*\nuse os udp_sender *:*\n":       {AllOffloaded, AllOS},
		"use os tcp_client *:*:10.0.0.0/8:*\n":                   {AllOffloaded, AllOffloaded},
		"use sdp tcp_server *:*\n" + both:                        {AllOS, AllOffloaded},
		"application-id other *\n" + both:                        {Undecided, Undecided},
		"use os tcp_server *:*\napplication-id m *\n" + both:     {AllOS, AllOffloaded}, // the first group's roles disagree
		"use os tcp_server *:5\nuse vma tcp_server *:*\n" + both: {AllOS, AllOffloaded}, // as in C: what did not decide is forgotten
	} {
		r, err := ParseRules(text)
		require.NoError(t, err)
		p := Program{"m", DefaultApplicationID}
		require.Equal(t, want, [2]Decided{r.PreCheck(p, false), r.PreCheck(p, true)}, text)
	}
}
