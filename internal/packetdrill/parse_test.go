package packetdrill

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStatements(t *testing.T) {
	s, err := Parse("x.pkt", `--tolerance_usecs=1000
/* a comment
   of two lines */
# a comment
0.100 socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3 // another
+0    < S 0:0(0) win 32792 <mss 1000,sackOK,TS val 7 ecr 0,nop,wscale 7>
+.01~+.02 > [ect0] SEW. 0:0(0) ack 1 <...>
*     > P. 1:1001(1000) ack 1 win 5 urg 9 <nop,nop,sack 1:2 5:9>
+0...0.5 read(4, ..., 1000) = -1 EAGAIN (Resource temporarily unavailable)
1     < [1:1001(1000)] icmp unreachable frag_needed mtu 1200
1     < icmp unreachable port_unreachable [1:1001(1000)]
+0    poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLIN}], 1, -1) = 1
+0    %{ assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd
assert tcpi_state != TCP_CLOSE }%
2     < . 4294967295:1(2) ack 4294967295 win 0 <eol,raw fd06>
2     > - 5:5(0)
`)
	require.NoError(t, err)
	require.Equal(t, time.Millisecond, s.Tolerance)
	st := s.Statements
	var lines []int
	for _, x := range st {
		lines = append(lines, x.Line)
	}
	require.Equal(t, []int{5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16}, lines)
	require.Equal(t, "0.100 socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3", st[0].Text)

	require.Equal(t, "socket", st[0].Call.Name)
	require.True(t, st[0].Call.Args[1].Has("SOCK_NONBLOCK"))
	require.Equal(t, int64(3), st[0].Call.Value)
	require.Equal(t, 100*time.Millisecond, st[0].When.From)
	require.True(t, st[1].Inbound)
	require.Equal(t, "<mss 1000,sackOK,TS val 7 ecr 0,nop,wscale 7>", optionsString(st[1].Segment.Options))
	require.Equal(t, When{Kind: Relative, From: 10 * time.Millisecond, To: 20 * time.Millisecond}, st[2].When)
	require.Equal(t, SYN|ACK|ECE|CWR, st[2].Segment.Flags)
	require.Equal(t, uint8(2), st[2].Segment.ECN)
	require.True(t, st[2].Segment.AnyOptions)
	require.Equal(t, AnyTime, st[3].When.Kind)
	require.Equal(t, [][2]uint32{{1, 2}, {5, 9}}, st[3].Segment.Options[2].Blocks)
	require.Equal(t, "P. 1:1001(1000) ack 1 win 5 urg 9 <nop,nop,sack 1:2 5:9>", format(st[3].Segment.Packet, 1000))
	require.Equal(t, "EAGAIN", st[4].Call.Errno)
	require.True(t, st[4].When.Blocks)
	require.Equal(t, Error{Type: 3, Code: 4, MTU: 1200, Seq: 1}, st[5].ICMP.Error)
	require.Equal(t, Error{Type: 3, Code: 3, Seq: 1}, st[6].ICMP.Error)
	require.Equal(t, []string{"POLLIN"}, outputs(st[7].Call))
	require.Equal(t, []Check{{Line: 13, Name: "tcpi_snd_cwnd", Op: "==", Value: 10}, {Line: 14, Name: "tcpi_state", Op: "!=", Symbol: "TCP_CLOSE"}},
		st[8].Checks)
	require.Equal(t, 2, st[9].Segment.Length)
	require.Equal(t, []byte{0xfd, 6}, st[9].Segment.Options[1].Raw)
	require.Equal(t, Flags(0), st[10].Segment.Flags)
}

func TestParseErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"0 < S 0:0(0)\n0 < X 0:0(0)":              `x:2: expected flags, found "X 0:0(0)"`,
		"0 < S 0:5(0)":                            "x:1: 0:5 is not 0 bytes long",
		"0 < . 1:1(0)":                            "x:1: a segment has the flag . exactly if it has ack",
		"0 < S 0:0(0) <mss 70000>":                `x:1: "70000" is not a number of 0 to 65535`,
		"0 < S 0:0(0) <...>":                      "x:1: <...> is for segments that leave",
		"0 < S 0:0(0) <foo>":                      "x:1: the option foo is not known",
		"0 < S 0:0(0) <raw 1>":                    `x:1: "1" are not bytes in hexadecimal`,
		"0~1 < S 0:0(0)":                          "x:1: only what leaves may do so at any time or within a range",
		"1~0 > S 0:0(0)":                          "x:1: the range ends before it begins",
		"0...1 > S 0:0(0)":                        "x:1: only a call can block",
		"0 `ls`":                                  "x:1: shell commands are not supported",
		"0 read(3, \"x":                           "x:1: the string has no end",
		"0 read(3) = -1 AGAIN":                    "x:1: AGAIN is not the name of an error",
		"\n/* ":                                   "x:2: the comment has no end",
		"0 %{ print(1) }%":                        `x:1: expected "assert", found "print(1) }%"`,
		"0 %{ }%":                                 "x:1: there is nothing to check",
		"0 > icmp unreachable port_unreachable":   "x:1: ICMP errors only arrive",
		"0 < icmp unreachable nowhere":            "x:1: the ICMP code nowhere is not known",
		"--foo=1":                                 "x:1: the setting --foo is not known: there are --tolerance_usecs and --tcp_ts_tick_usecs",
		"0.1 close(3) = 0\n--tolerance_usecs=1":   "x:2: a setting must stand before the first statement",
		"0 f([[[[[[[[[[1]]]]]]]]]])":              "x:1: arguments nest deeper than 8",
		"0 < S 0:0(0) <sack 1:2 1:2 1:2 1:2 1:2>": "x:1: the options are longer than 40 bytes",
	} {
		_, err := Parse("x", text)
		require.EqualError(t, err, want, text)
	}
}

// Whatever the text, Parse ends, and what it accepts can be shown and parsed again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"0 < S 0:0(0) win 1 <mss 1000,sackOK,TS val 7 ecr 0,nop,wscale 7>", "+0~+1 > [ce] SEW. 0:0(0) ack 1 <...>",
		"0...0.5 read(4, ..., 10) = -1 EAGAIN (x)", "1 < [1:2(1)] icmp unreachable frag_needed mtu 9", "--tolerance_usecs=5\n* > - 5:5(0)",
		"+0 poll([{fd=4, events=POLLIN|POLLOUT}], 1, -1) = ...", "0 %{ assert a == 10, a; assert b < C }%", "/* */ # x\n// y"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("fuzz", text)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "fuzz:"))
			return
		}
		for _, st := range s.Statements {
			if g := st.Segment; g != nil && (g.HasAck == (g.Flags&ACK != 0)) && g.ECN == 0 && len(g.Options) == 0 && !g.HasUrgent {
				again, err := Parse("again", fmt.Sprintf("0 > %s", format(g.Packet, g.Length)))
				require.NoError(t, err)
				require.Equal(t, g.Packet, again.Statements[0].Segment.Packet)
			}
		}
	})
}

// Numbers are decimal or hexadecimal, as in packetdrill: a zero in front does not make them octal, and Go's other forms are none.
func TestParseNumbers(t *testing.T) {
	parse := func(text string) (uint64, error) { return (&parser{text: text, name: "x.pkt"}).number(1 << 40) }
	for text, want := range map[string]uint64{"0": 0, "7": 7, "010": 10, "0089": 89, "0x1F": 31, "0X10": 16} {
		n, err := parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"0b11", "0o17", "1_000", "0x", "12a", "0x_1"} {
		_, err := parse(text)
		require.ErrorContains(t, err, text)
	}
}
