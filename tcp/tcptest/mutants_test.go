package tcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var runMutants = flag.Bool("mutants", false, "run the tests against each changed source of mutants_test.go")

// mutant is a bug planted into the source of package tcp.
type mutant struct {
	name, file string
	old, new   string // old occurs once in the file
	tests      string // that must find it, of package tcp; empty: 1,000 seeds must
}

// mutants are bugs that a stack could have. Those without a test's name must be found by seeds alone.
var mutants = []mutant{
	{name: "a window that opens is never announced", file: "receiver.go", tests: "^TestReceiveWindow$|^TestWindowIsAnnounced$",
		old: ">= windowStep(c, s) && 2*known <= room {", new: ">= windowStep(c, s) && 2*known <= room && false {"},
	{name: "FIN beyond the window is taken", file: "receiver.go", tests: "^TestOutsideTheWindow$|^TestFinBeyondTheWindow$",
		old: "p, fin = p.first(max(int(p.Length)-over, 0)), false", new: "p = p.first(max(int(p.Length)-over, 0))"},
	{name: "data beyond the window is taken", file: "receiver.go", tests: "^TestOutsideTheWindow$",
		old: "if over := (seq + Seq(p.Length)).Minus(c.rcvAdv); over > 0 {", new: "if over := (seq + Seq(p.Length)).Minus(c.rcvAdv); over > 1<<20 {"},
	{name: "old data is not trimmed", file: "receiver.go", old: "seq, p = c.rcvNxt, p.cut(n)", new: "seq = c.rcvNxt"},
	{name: "SACKed bytes count twice", file: "ack.go", tests: "^TestSACKIsCountedOnce$", old: "snd.sacked += int(r.span)", new: "snd.sacked += 2 * int(r.span)"},
	{name: "a segment that is reported again counts again", file: "ack.go", tests: "^TestSACKIsCountedOnce$",
		old: "if r.flags&sentSACKed != 0 || r.seq.Before(left) {", new: "if r.seq.Before(left) {"},
	{name: "what is acknowledged stays in the sum of what is SACKed", file: "ack.go", tests: "^TestSACKIsCountedOnce$",
		old: "snd.sacked -= n", new: "snd.sacked -= 0"},
	{name: "a gap that is filled delivers one piece", file: "reassembly.go",
		old: "for n < len(r.held) && !c.rcvNxt.Before(r.held[n].seq) {", new: "for n < min(1, len(r.held)) && !c.rcvNxt.Before(r.held[n].seq) {"},
	{name: "overlapping pieces are not cut at their left", file: "reassembly.go", tests: "^FuzzReassembly$",
		old: "p = p.cut(r.held[i].end().Minus(seq))", new: "p = p.cut(0)"},
	{name: "overlapping pieces are not cut at their right", file: "reassembly.go", tests: "^FuzzReassembly$",
		old: "p = p.first(r.held[j].seq.Minus(seq))", new: "p = p.first(int(p.Length))"},
	{name: "the newest range is reported last", file: "reassembly.go", tests: "^TestSACKBlocks$",
		old: "put(&r.recent[0])", new: "put(&r.recent[len(r.recent)-1])"},
	{name: "a reset anywhere in the window resets", file: "input.go", tests: "^TestBlindResetAndSyn$",
		old: "if s.Seq != c.rcvNxt {", new: "if false {"},
	{name: "a SYN in the window is taken for data", file: "input.go", tests: "^TestBlindResetAndSyn$|^TestScripts$",
		old: "if s.Flags&wire.TCPSyn != 0 {\n\t\tt.challenge(id, c)", new: "if false {\n\t\tt.challenge(id, c)"},
	{name: "PAWS refuses equal timestamps", file: "input.go", old: "int32(s.Options.TSValue-c.tsRecent) < 0", new: "int32(s.Options.TSValue-c.tsRecent) <= 0"},
	{name: "timestamps of segments beyond a gap are echoed", file: "input.go", tests: "^TestTimestampEcho$",
		old: "!c.lastAck.Before(s.Seq) && t.acks", new: "t.acks"},
	{name: "a segment that covers the window is not acceptable", file: "input.go", tests: "^TestAcceptable$",
		old: " || before > 0 && before < span", new: " || before > 1<<40"},
	{name: "an acknowledgement of what was not sent is taken", file: "ack.go", tests: "^TestBlindAck$",
		old: "case c.nxt.Before(s.Ack): // acknowledges what was not sent", new: "case false:"},
	{name: "the peer's scale is ignored", file: "ack.go", tests: "^TestWindowScale$",
		old: "c.wnd = uint32(s.Window) << c.sndScale", new: "c.wnd = uint32(s.Window)"},
	{name: "a part of a segment that is acknowledged is not cut off", file: "ack.go",
		old: "r.payload = r.payload.cut(min(n, int(r.payload.Length)))", new: ""},
	{name: "the round trip of a retransmission is measured", file: "ack.go", tests: "^TestRoundTripTime$",
		old: "if r.flags&sentTwice == 0 && r.flags&sentSACKed == 0 {\n\t\t\ta.rtt", new: "if r.flags&sentSACKed == 0 {\n\t\t\tagain = false\n\t\t\ta.rtt"},
	{name: "FIN is never sent again", file: "output.go", old: "if r.flags&sentFin != 0 {\n\t\tflags |= wire.TCPFin\n\t}\n\tr.at", new: "r.at"},
	{name: "a FIN that is sent again has no number", file: "output.go", tests: "^TestFinIsRetransmitted$|^TestScripts$",
		old: "sent{at: t.now, seq: c.nxt, span: 1, flags: sentFin}", new: "sent{at: t.now, seq: c.nxt, span: 1}"},
	{name: "the congestion window does not limit", file: "output.go", tests: "^TestSlowStartOnTheWire$",
		old: "pipe > 0 && pipe+n > int(c.cc.Window) && snd.frto", new: "pipe > 0 && pipe+n > 1<<30 && snd.frto"},
	{name: "the peer's window does not limit", file: "output.go",
		old: "n, probe := min(int(head.Length), limit, usable), 0", new: "n, probe := min(int(head.Length), limit), 0"},
	{name: "the right edge of the window is pulled back", file: "output.go",
		old: "edge.Minus(c.rcvAdv) >= windowStep(c, settings)", new: "edge != c.rcvAdv"},
	{name: "the window opens byte by byte", file: "output.go", tests: "^TestReceiveWindow$",
		old: "edge.Minus(c.rcvAdv) >= windowStep(c, settings)", new: "edge.Minus(c.rcvAdv) > 0"},
	{name: "small segments leave one after the other", file: "output.go", tests: "^TestNagle$",
		old: "return settings.NoDelay || c.flight() == 0", new: "return true"},
	{name: "a silly window is filled", file: "output.go", tests: "^TestRestOfAWindow$",
		old: "c.wnd >= c.maxWnd/2 && !c.una", new: "!c.una"},
	{name: "an acknowledgement that waits is forgotten", file: "timers.go",
		old: "c.flags = c.flags&^flagAnswers | flagAckNow", new: "c.flags &^= flagAnswers"},
	{name: "time-outs do not back off", file: "rto.go", tests: "^TestRetransmissionTimeout$", old: "d *= 2", new: "d *= 1"},
	{name: "a window that is shut is never probed", file: "timers.go", tests: "^TestZeroWindowProbes$",
		old: "c.flags |= flagProbe\n\t\tt.stats.WindowProbes++", new: "t.stats.WindowProbes++"},
	{name: "nothing is retransmitted by a time-out", file: "timers.go",
		old: "t.enterLoss(c, t.senders[c.sender-1])", new: ""},
	{name: "a lost element is looked for behind its place", file: "rack.go",
		old: "if snd.lost == 0 || r.seq.Before(snd.lostFrom) {", new: "if snd.lost == 0 {"},
	{name: "reordering is loss", file: "rack.go", tests: "^TestReorderingIsNoLoss$",
		old: "if !c.has(flagReordering) && (c.phase", new: "if (c.phase"},
	{name: "the tail of a window is not probed", file: "rack.go", tests: "^TestTailLossProbe",
		old: "c.rtxKind, c.rtxAt = rtxLossProbe, t.limited(c, t.now.Add(pto))", new: "t.armTimeout(c)"},
	{name: "a discarded range is believed for ever", file: "recovery.go", tests: "^TestReneging$", old: "snd.forgetSACK()", new: ""},
	{name: "a loss does not lower the window", file: "recovery.go", tests: "^TestFastRetransmitWithoutSACK$",
		old: "t.beginEpisode(c, snd)\n\tt.control(c).Reduce(&c.cc, c.flight(), c.payloadLimit())\n\t// RFC 9937", new: "t.beginEpisode(c, snd)\n\t// RFC 9937"},
	{name: "a reset ends TIME-WAIT", file: "timewait.go", tests: "^TestArrivalsInTimeWait$",
		old: "return false, wire.TCPUnacceptable // RFC 1337", new: "t.timeWaits.remove(t, at)\n\t\treturn false, wire.TCPUnacceptable // RFC 1337"},
	{name: "FIN again in TIME-WAIT is not answered", file: "timewait.go", old: "t.answerTimeWait(w)\n\t\tt.timeWaits.removeFromRow(at)", new: "t.timeWaits.removeFromRow(at)"},
	{name: "a simultaneous close waits for nothing", file: "receiver.go", tests: "^TestSimultaneousClose$",
		old: "c.become(Closing)", new: "c.become(TimeWait)"},
	{name: "any number is a cookie", file: "cookies.go", tests: "^TestSynCookies$",
		old: "t.cookie(s.Local, s.Remote, irs, epoch-1, class) != iss", new: "false"},
	{name: "a sent piece that was not needed does not come back", file: "sender.go",
		old: "t.emit(id, c, Event{Kind: EventSent, Payload: s.unsent.pop().Payload})", new: "s.unsent.pop()"},
	{name: "the peer's segment size is ignored", file: "open.go", old: "mss := min(int(c.peerMSS), int(c.pathMTU)", new: "mss := min(65535, int(c.pathMTU)"},
	{name: "the numbers of a handshake are one too low", file: "open.go", old: "c.rcvNxt = s.Seq + 1\n", new: "c.rcvNxt = s.Seq\n"},
	{name: "data of a closed connection is taken", file: "receiver.go", tests: "^TestDataAfterClose$",
		old: "if c.has(flagAppClosed) && p.Length > 0 {", new: "if false {"},
	{name: "keepalive probes never end", file: "timers.go", tests: "^TestKeepAlive$", old: "if c.probes >= s.KeepCount {", new: "if false {"},
}

// Each change applies to the source: a test that is not run rots. With -mutants each is found by what it names.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			path := filepath.Join(root, "tcp", m.file)
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(source), m.old), "%q in %s", m.old, m.file)
			if *runMutants {
				m.mustBeFound(t, root, path, bytes.Replace(source, []byte(m.old), []byte(m.new), 1))
			}
		})
	}
}

// mustBeFound runs the tests with the changed source in the file's place.
func (m *mutant) mustBeFound(t *testing.T, root, path string, source []byte) {
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(changed, source, 0o644))
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, list, 0o644))
	args := []string{"test", "-overlay", overlay, "-count=1", "-vet=off", "-timeout=5m"}
	if m.tests != "" {
		args = append(args, "-run", m.tests, "./tcp", "./tcp/tcptest")
	} else {
		args = append(args, "-run", "^TestSeeds$", "./tcp/tcptest", "-seeds=1000", "-shrink=false")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "go", args...)
	run.Dir = root
	out, err := run.CombinedOutput()
	text := string(out)
	require.NotContains(t, text, "[build failed]", text)
	require.Error(t, err, "not found by %s", strings.Join(args, " "))
	require.True(t, strings.Contains(text, "--- FAIL: ") || strings.Contains(text, "panic: "), text)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "seed ") || strings.Contains(line, "--- FAIL: ") || strings.Contains(line, "panic: ") {
			t.Log(strings.TrimSpace(line))
			return
		}
	}
}
