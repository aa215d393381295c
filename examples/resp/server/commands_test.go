package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// say sends lines to a session, as a pipeline, and returns the bytes of the answers.
func say(c *Session, lines ...string) string {
	in := []byte(strings.Join(lines, "\r\n") + "\r\n")
	_, out, _ := c.Serve(in, nil)
	return string(out)
}

// conversation is a number of commands on a fresh server, each with its answer; a line of the answer ends with \r\n, which is left out
// at its end. redis gives the same ones (TestRedisSaysTheSame).
type conversation [][2]string

var conversations = map[string]conversation{
	"strings": {
		{"get a", "$-1"}, {"set a 1", "+OK"}, {"GET a", "$1\r\n1"}, {"strlen a", ":1"}, {"strlen b", ":0"}, {"append a bc", ":3"},
		{"append b x", ":1"}, {"get a", "$3\r\n1bc"}, {"getset a new", "$3\r\n1bc"}, {"getset c new", "$-1"}, {"getdel a", "$3\r\nnew"},
		{"getdel a", "$-1"}, {"setnx a 1", ":1"}, {"setnx a 2", ":0"}, {"mset a 1 b 2", "+OK"}, {"mget a b zz", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1"},
		{"mset a", "-ERR wrong number of arguments for 'mset' command"}, {"mset a 1 b", "-ERR wrong number of arguments for 'mset' command"},
		{"msetnx a 1 q 2", ":0"}, {"exists q", ":0"}, {"msetnx q 1 r 2", ":1"}, {"msetnx q 1 r", "-ERR wrong number of arguments for 'msetnx' command"},
	},
	"set": {
		{"set a 1 nx", "+OK"}, {"set a 2 nx", "$-1"}, {"set a 2 xx", "+OK"}, {"set zz 2 xx", "$-1"}, {"set a 3 get", "$1\r\n2"},
		{"set a 4 nx get", "$1\r\n3"}, {"get a", "$1\r\n3"}, {"set n 1 get", "$-1"}, {"get n", "$1\r\n1"}, {"set a 1 nx xx", "-ERR syntax error"},
		{"set a 1 ex", "-ERR syntax error"}, {"set a 1 ex 10 px 10", "-ERR syntax error"}, {"set a 1 keepttl ex 10", "-ERR syntax error"},
		{"set a 1 ex 10 keepttl", "-ERR syntax error"}, {"set a 1 foo", "-ERR syntax error"},
		{"set a 1 ex x", "-ERR value is not an integer or out of range"}, {"set a 1 ex 0", "-ERR invalid expire time in 'set' command"},
		{"set a 1 px -1", "-ERR invalid expire time in 'set' command"}, {"set a 1 ex 9223372036854775807", "-ERR invalid expire time in 'set' command"},
		{"set a 1 px 9223372036854775807", "-ERR invalid expire time in 'set' command"},
		{"set a 1 ex 100", "+OK"}, {"ttl a", ":100"}, {"set a 2 keepttl", "+OK"}, {"ttl a", ":100"}, {"set a 3", "+OK"}, {"ttl a", ":-1"},
		{"set a 1 exat 99999999999", "+OK"}, {"expiretime a", ":99999999999"}, {"set a 1 pxat 99999999999500", "+OK"},
		{"pexpiretime a", ":99999999999500"}, {"expiretime a", ":100000000000"}, {"set a 1 exat 1", "+OK"}, {"get a", "$-1"},
		{"setex a 100 v", "+OK"}, {"ttl a", ":100"}, {"psetex a 100000 v", "+OK"}, {"ttl a", ":100"},
		{"setex a 0 v", "-ERR invalid expire time in 'setex' command"}, {"psetex a x v", "-ERR value is not an integer or out of range"},
		{"getex a persist", "$1\r\nv"}, {"ttl a", ":-1"}, {"getex a ex 100", "$1\r\nv"}, {"ttl a", ":100"}, {"getex zz", "$-1"},
		{"getex a ex 1 persist", "-ERR syntax error"}, {"getex a ex 0", "-ERR invalid expire time in 'getex' command"},
	},
	"numbers": {
		{"incr n", ":1"}, {"incrby n 41", ":42"}, {"decr n", ":41"}, {"decrby n 100", ":-59"}, {"get n", "$3\r\n-59"},
		{"set n 9223372036854775807", "+OK"}, {"incr n", "-ERR increment or decrement would overflow"},
		{"decrby n -9223372036854775808", "-ERR decrement would overflow"}, {"incrby n x", "-ERR value is not an integer or out of range"},
		{"set n 01", "+OK"}, {"incr n", "-ERR value is not an integer or out of range"}, {"set n ' 1'", "+OK"},
		{"incr n", "-ERR value is not an integer or out of range"}, {"set n -9223372036854775808", "+OK"},
		{"decr n", "-ERR increment or decrement would overflow"},
		{"set f 10.50", "+OK"}, {"incrbyfloat f 0.1", "$4\r\n10.6"}, {"incrbyfloat f -5", "$3\r\n5.6"}, {"set f 5.0e3", "+OK"},
		{"incrbyfloat f 2.0e2", "$4\r\n5200"}, {"set f 0.1", "+OK"}, {"incrbyfloat f 0.2", "$3\r\n0.3"}, {"incrbyfloat f -0.3", "$1\r\n0"},
		{"incrbyfloat f x", "-ERR value is not a valid float"}, {"incrbyfloat f inf", "-ERR increment would produce NaN or Infinity"},
		{"incrbyfloat f nan", "-ERR value is not a valid float"}, {"set f abc", "+OK"}, {"incrbyfloat f 1", "-ERR value is not a valid float"},
		{"incrbyfloat new 3.0", "$1\r\n3"},
	},
	"ranges": {
		{"set s 'Hello World'", "+OK"}, {"getrange s 0 4", "$5\r\nHello"}, {"getrange s -5 -1", "$5\r\nWorld"}, {"getrange s 0 -1", "$11\r\nHello World"},
		{"getrange s 5 2", "$0\r\n"}, {"getrange s 100 200", "$0\r\n"}, {"getrange s -100 2", "$3\r\nHel"}, {"getrange s -1 -5", "$0\r\n"},
		{"getrange s -100 -50", "$1\r\nH"}, {"getrange zz 0 1", "$0\r\n"}, {"getrange s x 1", "-ERR value is not an integer or out of range"}, {"substr s 1 2", "$2\r\nel"},
		{"setrange s 6 Redis", ":11"}, {"get s", "$11\r\nHello Redis"}, {"setrange s 13 '!'", ":14"}, {"get s", "$14\r\nHello Redis\x00\x00!"},
		{"setrange s -1 x", "-ERR offset is out of range"}, {"setrange s x x", "-ERR value is not an integer or out of range"},
		{"setrange s 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"}, {"setrange no 5 ''", ":0"},
		{"exists no", ":0"}, {"setrange no 2 x", ":3"},
	},
	"keys": {
		{"mset a 1 b 2 c 3", "+OK"}, {"dbsize", ":3"}, {"del a b zz", ":2"}, {"unlink c c", ":1"}, {"dbsize", ":0"}, {"set a 1", "+OK"},
		{"exists a a zz", ":2"}, {"touch a zz", ":1"}, {"type a", "+string"}, {"type zz", "+none"}, {"keys *", "*1\r\n$1\r\na"},
		{"keys b*", "*0"}, {"scan 0", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na"}, {"scan 0 match b* count 100", "*2\r\n$1\r\n0\r\n*0"},
		{"scan 0 type string", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na"}, {"scan 0 type list", "*2\r\n$1\r\n0\r\n*0"},
		{"scan x", "-ERR invalid cursor"}, {"scan 0 count 0", "-ERR syntax error"}, {"scan 0 count", "-ERR syntax error"},
		{"scan 0 count x", "-ERR value is not an integer or out of range"}, {"scan 0 foo 1", "-ERR syntax error"},
		{"randomkey", "$1\r\na"}, {"rename a b", "+OK"}, {"rename a b", "-ERR no such key"}, {"rename b b", "+OK"}, {"set a 2", "+OK"},
		{"renamenx a b", ":0"}, {"renamenx a c", ":1"}, {"renamenx a c", "-ERR no such key"}, {"get c", "$1\r\n2"},
		{"select 1", "+OK"}, {"dbsize", ":0"}, {"randomkey", "$-1"}, {"set x 1", "+OK"}, {"flushdb", "+OK"}, {"select 0", "+OK"},
		{"dbsize", ":2"}, {"flushall async", "+OK"}, {"dbsize", ":0"}, {"flushall now", "-ERR syntax error"},
		{"select 16", "-ERR DB index is out of range"}, {"select -1", "-ERR DB index is out of range"},
	},
	"expiry": {
		{"set a 1", "+OK"}, {"ttl a", ":-1"}, {"pttl zz", ":-2"}, {"ttl zz", ":-2"}, {"expire a 100", ":1"}, {"ttl a", ":100"},
		{"expire zz 100", ":0"}, {"persist a", ":1"}, {"persist a", ":0"}, {"persist zz", ":0"}, {"expire a 100 nx", ":1"}, {"expire a 200 nx", ":0"},
		{"expire a 200 xx", ":1"}, {"expire a 100 gt", ":0"}, {"expire a 300 gt", ":1"}, {"expire a 400 lt", ":0"}, {"expire a 50 lt", ":1"},
		{"ttl a", ":50"}, {"expire a 1 nx gt", "-ERR NX and XX, GT or LT options at the same time are not compatible"},
		{"expire a 1 gt lt", "-ERR GT and LT options at the same time are not compatible"}, {"expire a 1 foo", "-ERR Unsupported option foo"},
		{"expire a x", "-ERR value is not an integer or out of range"}, {"expire a 9223372036854775807", "-ERR invalid expire time in 'expire' command"},
		{"pexpire a 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"},
		{"persist a", ":1"}, {"expire a 100 gt", ":0"}, {"expire a 100 lt", ":1"}, {"pexpireat a 99999999999500", ":1"},
		{"expireat a 99999999999", ":1"}, {"expiretime a", ":99999999999"}, {"expire a -1", ":1"}, {"exists a", ":0"}, {"expiretime a", ":-2"},
	},
	"connection": {
		{"ping", "+PONG"}, {"ping hi", "$2\r\nhi"}, {"PiNg a b", "-ERR wrong number of arguments for 'ping' command"}, {"echo 'a b'", "$3\r\na b"},
		{"echo", "-ERR wrong number of arguments for 'echo' command"},
		{"foo", "-ERR unknown command 'foo', with args beginning with: "}, {"foo bar 'b z'", "-ERR unknown command 'foo', with args beginning with: 'bar' 'b z' "},
		{"auth x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"},
		{"auth bob x", "-WRONGPASS invalid username-password pair or user is disabled."}, {"auth default x", "+OK"}, {"auth a b c", "-ERR syntax error"},
		{"client getname", "$-1"}, {"client setname bob", "+OK"}, {"client getname", "$3\r\nbob"},
		{"client setname 'a b'", "-ERR Client names cannot contain spaces, newlines or special characters."},
		{"client id x", "-ERR wrong number of arguments for 'client|id' command"}, {"client foo", "-ERR unknown subcommand 'foo'. Try CLIENT HELP."},
		{"config get appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno"}, {"config get nonesuch", "*0"},
		{"config foo", "-ERR unknown subcommand 'foo'. Try CONFIG HELP."}, {"config get", "-ERR wrong number of arguments for 'config|get' command"},
		{"config resetstat", "+OK"}, {"command info nonesuch", "*1\r\n$-1"}, {"hello 4", "-NOPROTO unsupported protocol version"},
		{"hello x", "-ERR Protocol version is not an integer or out of range"}, {"hello 3 auth bob x", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"hello 3 foo", "-ERR Syntax error in HELLO option 'foo'"}, {"hello 3 setname 'a b'", "-ERR Client names cannot contain spaces, newlines or special characters."},
		{"get a", "$-1"}, {"reset", "+RESET"}, {"client getname", "$-1"}, {"quit", "+OK"},
	},
}

func TestConversations(t *testing.T) {
	for name, lines := range conversations {
		t.Run(name, func(t *testing.T) {
			c := New(Config{}).Open("client")
			for i, line := range lines {
				require.Equal(t, line[1]+"\r\n", say(c, line[0]), "line %d: %s", i, line[0])
			}
		})
	}
}

// The whole conversation in one pipeline gives the same bytes.
func TestConversationsInOnePiece(t *testing.T) {
	for name, lines := range conversations {
		var in []string
		want := ""
		for _, line := range lines {
			in = append(in, line[0])
			want += line[1] + "\r\n"
		}
		require.Equal(t, want, say(New(Config{}).Open("client"), in...), name)
	}
}

func TestVersion3(t *testing.T) {
	c := New(Config{}).Open("client")
	hello := say(c, "hello 3 setname bob")
	require.True(t, strings.HasPrefix(hello, "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), hello)
	require.Contains(t, hello, "$5\r\nproto\r\n:3\r\n")
	require.Equal(t, "_\r\n", say(c, "get a"))
	require.Equal(t, "*1\r\n_\r\n", say(c, "mget a"))
	require.Equal(t, "%1\r\n$4\r\nsave\r\n$0\r\n\r\n", say(c, "config get save"))
	require.Contains(t, say(c, "client info"), "txt:id=1 addr=client name=bob")
	require.Equal(t, "*14\r\n", say(c, "hello 2")[:5])
	require.Equal(t, "$-1\r\n", say(c, "get a"))
}

func TestTimePasses(t *testing.T) {
	now := int64(1_000_000)
	s := New(Config{Now: func() int64 { return now }})
	c := s.Open("client")
	require.Equal(t, "+OK\r\n", say(c, "set a 1 px 1500"))
	require.Equal(t, ":2\r\n:1500\r\n", say(c, "ttl a", "pttl a"))
	now += 1501
	require.Equal(t, "$-1\r\n:-2\r\n", say(c, "get a", "ttl a"))
	for i := range 500 {
		require.Equal(t, "+OK\r\n", say(c, fmt.Sprintf("set k%d 1 ex 1", i)))
	}
	require.False(t, s.Sweep())
	now += 1001
	require.True(t, s.Sweep())
	require.True(t, s.Sweep())
	require.False(t, s.Sweep())
	require.Equal(t, ":0\r\n", say(c, "dbsize"))
	require.Contains(t, say(c, "info stats"), "expired_keys:501\r\n")
}

func TestInfoAndClients(t *testing.T) {
	s := New(Config{Port: 6379})
	a, b := s.Open("a"), s.Open("b")
	say(a, "set k v", "get k", "get x", "select 3", "set q 1 ex 100")
	all := say(b, "info")
	for _, want := range []string{"tcp_port:6379", "connected_clients:2", "keyspace_hits:1", "keyspace_misses:1", "db0:keys=1,expires=0",
		"db3:keys=1,expires=1", "total_connections_received:2", "# Server"} {
		require.Contains(t, all, want)
	}
	require.NotContains(t, say(b, "info keyspace"), "# Server")
	require.Equal(t, ":2\r\n", say(b, "client id"))
	require.Equal(t, 2, strings.Count(say(b, "client list"), "addr="))
	a.Close()
	require.Equal(t, 1, strings.Count(say(b, "client list"), "addr="))
	b.Close()
	require.Empty(t, s.sessions)
}

func TestCommandTellsTheTable(t *testing.T) {
	c := New(Config{}).Open("client")
	require.Equal(t, fmt.Sprintf(":%d\r\n", len(names)), say(c, "command count"))
	require.True(t, strings.HasPrefix(say(c, "command"), fmt.Sprintf("*%d\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n", len(names))))
	require.True(t, strings.HasPrefix(say(c, "command docs"), fmt.Sprintf("*%d\r\n", 2*len(names))))
	require.True(t, strings.HasPrefix(say(c, "command docs get nonesuch"), "*2\r\n$3\r\nget\r\n*4\r\n$7\r\nsummary\r\n"))
	require.True(t, strings.HasPrefix(say(c, "command list"), fmt.Sprintf("*%d\r\n$3\r\nget\r\n", len(names))))
	require.True(t, strings.HasPrefix(say(c, "time"), "*2\r\n$10\r\n"))
	require.Contains(t, say(c, "config set save x"), "-ERR CONFIG SET failed")
	for _, n := range names { // each is refused, answered or done, but never silent
		require.NotEmpty(t, say(New(Config{}).Open(""), n), n)
		require.NotEmpty(t, say(New(Config{}).Open(""), n+" a b c d e f"), n)
	}
}

func TestAnErrorIsOneLineWhateverIsInIt(t *testing.T) {
	c := New(Config{}).Open("client")
	_, out, end := c.Serve([]byte("*2\r\n$5\r\nf\r\nXX\r\n$300\r\n"+strings.Repeat("y", 300)+"\r\n"), nil)
	require.False(t, end)
	require.Equal(t, 1, strings.Count(string(out), "\r\n"))
	require.Less(t, len(out), 400)
}
