package resp

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tiny are limits that a test can reach.
var tiny = Limits{Line: 64, Args: 8, Bulk: 100, Command: 300}

// all parses the whole of in, given to the parser in parts of size, and returns the commands and the error that ended it.
func all(in []byte, size int, l *Limits) (commands [][]string, rest int, err error) {
	p := NewParser(l)
	var b []byte // what has arrived and is not understood
	for {
		for {
			if p.Need() > len(b) {
				break
			}
			args, n, e := p.Next(b, nil)
			if e != nil {
				return commands, len(b), e
			}
			if n == 0 {
				if p.Need() <= len(b) {
					panic(fmt.Sprintf("no progress on %q with need %d", b, p.Need()))
				}
				break
			}
			if len(args) > 0 {
				var words []string
				for _, a := range args {
					words = append(words, string(a))
				}
				commands = append(commands, words)
			}
			b = b[n:]
		}
		if len(in) == 0 {
			return commands, len(b), nil
		}
		n := min(size, len(in))
		b = append(bytes.Clone(b), in[:n]...) // another place in memory each time
		in = in[n:]
	}
}

func TestCommands(t *testing.T) {
	for in, want := range map[string][][]string{
		"":                                            nil,
		"*1\r\n$4\r\nPING\r\n":                        {{"PING"}},
		"*2\r\n$3\r\nGET\r\n$0\r\n\r\n":               {{"GET", ""}},
		"*2\r\n$3\r\nGET\r\n$4\r\n\r\n*1\r\n":         {{"GET", "\r\n*1"}},
		"*0\r\n*-1\r\n\r\n\n*1\r\n$1\r\na\r\n":        {{"a"}},
		"*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\nc\r\n":     {{"a"}, {"b"}, {"c"}},
		"set  a\tb \r\n":                              {{"set", "a", "b"}},
		"get a\n":                                     {{"get", "a"}},
		"\x00\x01\r\nget a\x00b c\n":                  {{"get", "a"}},
		`set "a b" 'c d'` + "\r\n":                    {{"set", "a b", "c d"}},
		`set a"b c"` + "\n":                           {{"set", "ab c"}},
		`"\x41\n\r\t\b\a\"\\\z\xg" 'it\'s \n'` + "\n": {{"A\n\r\t\b\a\"\\zxg", `it's \n`}},
		`""` + "\n":                                   {{""}},
		"*1\r\n$4\r\nPI":                              nil,
		"*2\r\n$3\r\nGET\r\n$3\r\nab\r\n":             nil,
	} {
		for _, size := range []int{1, 2, 3, 7, 1000} {
			got, _, err := all([]byte(in), size, &DefaultLimits)
			require.NoError(t, err, "%q", in)
			require.Equal(t, want, got, "%q by %d", in, size)
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	long := strings.Repeat("x", 100)
	for in, want := range map[string]string{
		"*x\r\n":                            "invalid multibulk length",
		"*9\r\n":                            "invalid multibulk length",
		"*99999999999999999999\r\n":         "invalid multibulk length",
		"*+1\r\n":                           "invalid multibulk length",
		"*\r\n":                             "invalid multibulk length",
		"*1\r\nGET a\r\n":                   "expected '$', got 'G'",
		"*1\r\n\x01\r\n":                    "expected '$', got ' '",
		"*1\r\n\r\n":                        "expected '$', got ' '",
		"*1\r\n$-1\r\n":                     "invalid bulk length",
		"*1\r\n$x\r\n":                      "invalid bulk length",
		"*1\r\n$101\r\n":                    "invalid bulk length",
		"*1\r\n$01\r\na\r\n":                "invalid bulk length",
		"*" + long:                          "too big mbulk count string",
		"*1\r\n$" + long:                    "too big bulk count string",
		long:                                "too big inline request",
		long + "\r\n":                       "too big inline request",
		"set \"a\r\n":                       "unbalanced quotes in request",
		"set 'a\r\n":                        "unbalanced quotes in request",
		"set \"a\"b\r\n":                    "unbalanced quotes in request",
		"set 'a\x00'\r\n":                   "unbalanced quotes in request",
		"set 'a'b\r\n":                      "unbalanced quotes in request",
		"set \"a\\\r\n":                     "unbalanced quotes in request",
		"*8\r\n" + bulks(3, 90) + "$90\r\n": "too big request",
	} {
		for _, size := range []int{1, 5, 1000} {
			_, _, err := all([]byte(in), size, &tiny)
			var p ProtocolError
			require.ErrorAs(t, err, &p, "%q by %d", in, size)
			require.Equal(t, "Protocol error: "+want, err.Error(), "%q by %d", in, size)
		}
	}
}

func bulks(n, size int) string {
	return strings.Repeat("$"+strconv.Itoa(size)+"\r\n"+strings.Repeat("b", size)+"\r\n", n)
}

// A command that arrives in many parts is read once: what is asked for before going on is what is missing.
func TestNeedSaysHowMuchIsMissing(t *testing.T) {
	p := NewParser(&DefaultLimits)
	require.Equal(t, 1, p.Need())
	b := []byte("*2\r\n$3\r\nSET\r\n$1000\r\nx")
	_, n, err := p.Next(b, nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, len(b)-1+1000+2, p.Need())
	b = append(b, make([]byte, 1001)...)
	args, n, err := p.Next(b, nil)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	require.Len(t, args[1], 1000)
	require.Equal(t, 1, p.Need())
}

func TestArgumentsCannotGrowIntoEachOther(t *testing.T) {
	p := NewParser(&DefaultLimits)
	args, _, err := p.Next([]byte("*2\r\n$1\r\na\r\n$1\r\nb\r\n"), nil)
	require.NoError(t, err)
	_ = append(args[0], "XXXXXXXXXX"...)
	require.Equal(t, "b", string(args[1]))
}

func TestManyArgumentsLeaveNoMemoryBehind(t *testing.T) {
	p := NewParser(&DefaultLimits)
	_, n, err := p.Next([]byte("*1000\r\n"+bulks(1000, 1)), nil)
	require.NoError(t, err)
	require.Positive(t, n)
	require.LessOrEqual(t, cap(p.spans), keptSpans)
}

func TestParseInt(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "7": 7, "-7": -7, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63, "1000": 1000,
	} {
		got, ok := ParseInt([]byte(in))
		require.True(t, ok, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "a", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "99999999999999999999", "--1"} {
		_, ok := ParseInt([]byte(in))
		require.False(t, ok, in)
	}
}

// However the bytes are cut, the commands and the error are the same, nothing panics, and no command is made of more bytes than came.
func FuzzParser(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\nPING\r\n"), uint8(3))
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*-1\r\n*0\r\n"), uint8(1))
	f.Add([]byte("set \"a\\x41\" 'b'\r\n*1\r\n$x\r\n"), uint8(4))
	f.Add([]byte("*3\r\n$1\r\n"), uint8(9))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, rest, err := all(in, len(in)+1, &tiny)
		parts, restOfParts, errOfParts := all(in, int(size)+1, &tiny)
		require.Equal(t, whole, parts)
		require.Equal(t, err, errOfParts)
		if err == nil {
			require.Equal(t, rest, restOfParts)
		}
		bytesOut := 0
		for _, c := range whole {
			for _, a := range c {
				bytesOut += len(a)
			}
		}
		require.LessOrEqual(t, bytesOut, len(in))
	})
}

// What the writer writes, the parser reads: a client of arrays of bulks could be made of the two.
func FuzzRoundTrip(f *testing.F) {
	f.Add("GET", "key", uint8(1))
	f.Add("", "\r\n$5\r\n", uint8(2))
	f.Fuzz(func(t *testing.T, a, b string, size uint8) {
		w := Writer{}
		w.Array(2)
		w.BulkString(a)
		w.Bulk([]byte(b))
		got, rest, err := all(w.B, int(size)+1, &DefaultLimits)
		require.NoError(t, err)
		require.Zero(t, rest)
		require.Equal(t, [][]string{{a, b}}, got)
	})
}
