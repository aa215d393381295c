package packetdrill

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server is a TCP of a few lines: it accepts one connection, acknowledges what comes in order, and sends what is written again after
// 200 ms until it is acknowledged.
type server struct {
	isn, una, nxt, rcv uint32
	open, broken       bool
	in                 []byte
	out                []Packet
	retransmit         time.Duration
	segment            Packet
	stamp              uint32
}

func (s *server) send(p Packet) {
	p.Flags |= ACK
	p.Ack, p.Window = s.rcv, 1000
	if s.stamp != 0 {
		s.stamp += 10
		p.Options = append(p.Options, Option{Kind: OptionNop}, Option{Kind: OptionNop}, Option{Kind: OptionTimestamps, Val: s.stamp, Ecr: 7})
	}
	s.out = append(s.out, p)
}

func (s *server) Input(now time.Duration, p Packet) {
	switch {
	case p.Flags&SYN != 0:
		s.rcv, s.una, s.nxt = p.Seq+1, s.isn, s.isn+1
		s.send(Packet{Seq: s.isn, Flags: SYN})
		return
	case p.Flags&ACK != 0:
		s.open, s.una = true, p.Ack
		s.retransmit = Never
	}
	if len(p.Payload) > 0 {
		if p.Seq == s.rcv {
			s.rcv += uint32(len(p.Payload))
			s.in = append(s.in, p.Payload...)
		}
		s.send(Packet{Seq: s.nxt})
	}
}

func (s *server) InputError(time.Duration, Error) { s.broken = true }
func (s *server) Deadline() time.Duration         { return s.retransmit }

func (s *server) Expire(now time.Duration) {
	s.out = append(s.out, s.segment)
	s.retransmit = now + 200*time.Millisecond
}

func (s *server) Output(time.Duration) (p Packet, ok bool) {
	if len(s.out) == 0 {
		return p, false
	}
	p, s.out = s.out[0], s.out[1:]
	return p, true
}

func (s *server) Call(now time.Duration, c Invocation) Result {
	switch c.Name {
	case "socket":
		return Result{Value: 77}
	case "accept":
		if !s.open {
			return Result{Value: -1, Errno: "EAGAIN"}
		}
		return Result{Value: 88}
	case "write":
		s.segment = Packet{Seq: s.nxt, Flags: PSH | ACK, Ack: s.rcv, Window: 1000, Payload: c.Data}
		s.send(s.segment)
		s.nxt += uint32(len(c.Data))
		s.retransmit = now + 200*time.Millisecond
		return Result{Value: int64(len(c.Data))}
	case "read":
		if len(s.in) == 0 {
			return Result{Value: -1, Errno: "EAGAIN"}
		}
		b := s.in[:min(c.Size, len(s.in))]
		s.in = s.in[len(b):]
		return Result{Value: int64(len(b)), Data: b}
	case "poll":
		return Result{Value: 1, Out: []string{"POLLIN|POLLOUT"}}
	case "getsockopt":
		return Result{Out: []string{"5"}}
	}
	return Result{}
}

func (s *server) Value(_ time.Duration, fd int, name string) (int64, bool) {
	if name == "fd" {
		return int64(fd), true
	}
	return int64(s.nxt - s.una), name == "unacked"
}

const openingScript = `
0  socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 < S 0:0(0) win 1000
+0 > S. 0:0(0) ack 1
+0 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
`

func play(t *testing.T, text string, s *server) error {
	t.Helper()
	script, err := Parse("x", text)
	require.NoError(t, err)
	if s.retransmit == 0 {
		s.retransmit = Never
	}
	return Run(script, s, Config{RemoteISN: 0xfffffff0})
}

func TestRunPlaysAScript(t *testing.T) {
	for name, text := range map[string]string{
		"an exchange": openingScript + `
+0 write(4, ..., 100) = 100
+0 > P. 1:101(100) ack 1 win 1000
+.2 > P. 1:101(100) ack 1
+.2 > P. 1:101(100) ack 1
+0 %{ assert unacked == 100 }%
+.1 < P. 1:51(50) ack 101 win 1000
+0 > . 101:101(0) ack 51
+0 read(4, ..., 20) = 20
+0 read(4, ..., 100) = 30
+0 read(4, ..., 100) = -1 EAGAIN
+0 poll([{fd=4, events=POLLIN, revents=POLLOUT|POLLIN}], 1, 0) = 1
+0 getsockopt(4, SOL_TCP, TCP_X, [5], [4]) = 0
+3600 write(4, ..., 1) = 1
+0~+.1 > P. 101:102(1) ack 51
*  > P. 101:102(1) ack 51
`,
		"a call blocks": `
0  socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0...1 accept(3, ..., ...) = 4
1  < S 0:0(0) win 1000
+0 > S. 0:0(0) ack 1
+0 < . 1:1(0) ack 1 win 1000
+0...+.5 read(4, ..., 100) = 10
+.5 < . 1:11(10) ack 1 win 1000
+0 > . 1:1(0) ack 11
`} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, play(t, text, &server{isn: 0xffffffff}))
		})
	}
}

func TestRunMatchesTimestamps(t *testing.T) {
	text := "\n" + `--tcp_ts_tick_usecs=1000
0  socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 < S 0:0(0) win 1000
+0 > S. 0:0(0) ack 1 <nop,nop,TS val 100 ecr 7>
+0 < . 1:11(10) ack 1 win 1000
+0 > . 1:1(0) ack 11 <nop,nop,TS val 110 ecr 7>
`
	require.NoError(t, play(t, text, &server{stamp: 5}))
	require.ErrorContains(t, play(t, text[:len(text)-len("10 ecr 7>\n")]+"11 ecr 7>\n", &server{stamp: 5}),
		"options: expected <nop,nop,TS val 111 ecr 7>, got <nop,nop,TS val 110 ecr 7>")
}

func TestRunTellsDifferences(t *testing.T) {
	for text, want := range map[string]string{
		"+0 write(4, ..., 9) = 9\n+0 > . 2:11(9) ack 2 win 7 <nop>": "x:8: +0 > . 2:11(9) ack 2 win 7 <nop>\n\tat 0.000000 left:\n\tP. 1:10(9) ack 1 win 1000\n\t" +
			"flags: expected ., got P.\n\tseq: expected 2, got 1\n\tack: expected 2, got 1\n\twin: expected 7, got 1000\n\toptions: expected <nop>, got <>",
		"+.1 > . 1:1(0) ack 1":                                       "nothing leaves until 0.100000; the subject's next deadline is never",
		"+0 write(4, ..., 9) = 9\n+.1 > P. 1:10(9) ack 1":            "time: expected 0.100000, got 0.000000",
		"+0 write(4, ..., 9) = 8":                                    "expected 8 , got 9",
		"+0 write(4, ..., 9) = 9":                                    "x: at 0.000000, which the script does not expect, left:\n\tP. 1:10(9) ack 1 win 1000",
		"+0 read(4, ..., 9) = 9":                                     "expected 9 , got -1 EAGAIN",
		"+0 read(5, ..., 9) = 9":                                     "the script has not opened descriptor 5",
		"+0...1 read(4, ..., 9) = 9\n":                               "the call has not returned at the end of the script",
		"+0...1 read(4, ..., 9) = 9\n+2 < . 1:1(0) ack 1 win 5":      "the call has not returned at 2.000000",
		"+0...1 read(4, ..., 1) = 1\n+.5 < . 1:2(1) ack 1 win 5":     "the call returned at 0.500000, expected at 1.000000",
		"+0 %{ assert unacked == 1 }%":                               "line 7: unacked is 0, expected == 1",
		"+0 %{ assert what == 1 }%":                                  "the subject does not know what",
		"+0 getsockopt(4, SOL_TCP, TCP_X, [6], [4]) = 0":             `expected the values ["6"], got ["5"]`,
		"5 close(4) = 0\n4 close(4) = 0":                             "the time is 5.000000 already",
		"+0 poll([{fd=4, events=POLLIN, revents=POLLIN}], 1, 0) = 1": `expected the values ["POLLIN"], got ["POLLIN|POLLOUT"]`,
	} {
		require.ErrorContains(t, play(t, openingScript+text, &server{isn: 5}), want, text)
	}
}

// A subject that sends other bytes than were written is found.
func TestRunChecksContent(t *testing.T) {
	s := &server{}
	script, err := Parse("x", openingScript+"+0 write(4, ..., 9) = 9\n+0 > P. 1:10(9) ack 1")
	require.NoError(t, err)
	s.retransmit = Never
	require.ErrorContains(t, Run(script, spoiled{s}, Config{}), "content: byte 3 of the segment is")
}

type spoiled struct{ *server }

func (s spoiled) Output(now time.Duration) (Packet, bool) {
	p, ok := s.server.Output(now)
	if len(p.Payload) > 3 {
		p.Payload[3]++
	}
	return p, ok
}
