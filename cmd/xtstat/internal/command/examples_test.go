package command

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// example is one of the programs of folder examples, as a process of its own that publishes into a directory.
type example struct {
	*require.Assertions
	t       *testing.T
	name    string
	dir     string
	command *exec.Cmd
}

// buildExamples builds programs of folder examples and returns the folder in which they are.
func buildExamples(t *testing.T, names ...string) string {
	t.Helper()
	bin := t.TempDir()
	args := []string{"build", "-o", bin + "/"}
	for _, name := range names {
		args = append(args, "../../../../examples/"+name)
	}
	text, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "%s", text)
	return bin
}

func startExample(t *testing.T, bin, name, dir string, args ...string) *example {
	x := &example{Assertions: require.New(t), t: t, name: name, dir: dir, command: exec.Command(filepath.Join(bin, name), args...)}
	x.command.Env = append(os.Environ(), "VMA_STATS_SHMEM_DIR="+dir)
	x.command.Stderr = os.Stderr
	x.NoError(x.command.Start())
	t.Cleanup(func() {
		_ = x.command.Process.Kill()
		_ = x.command.Wait()
	})
	return x
}

// stop sends SIGSTOP and waits until no thread of the program runs: the thread that takes the signal tells the others, and on a machine with
// other work it may have to wait for a processor first.
func (x *example) stop() {
	x.NoError(x.command.Process.Signal(syscall.SIGSTOP))
	x.Eventually(func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", x.command.Process.Pid))
		x.NoError(err)
		for _, name := range threads {
			text, _ := os.ReadFile(name) // none of a thread that has just ended
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return len(threads) > 0
	}, time.Minute, time.Millisecond, "every thread has stopped")
}

// block is what a view shows of a thing, as JSON.
type block struct {
	Info   map[string]string
	Values map[string]uint64
}

// view is a view of the program; empty while it publishes nothing yet.
func (x *example) view(number int) (blocks map[string][]block) {
	out, errs, code := run("-k", x.dir, "-n", x.name, "-v", strconv.Itoa(number), "-c", "1", "--json")
	if strings.Contains(errs, "no process publishes") {
		return nil
	}
	x.Zero(code, errs)
	if number == 5 && out == "" {
		return nil
	}
	var v struct{ Blocks map[string][]block }
	x.NoError(json.Unmarshal([]byte(out), &v))
	return v.Blocks
}

// at is the socket of a view with a local address.
func (x *example) at(number int, local string) map[string]uint64 {
	for _, b := range x.view(number)["socket"] {
		if b.Info["local"] == local {
			return b.Values
		}
	}
	return nil
}

// sender sends packets of MoldUDP64 to a group of loopback, each with one message.
type sender struct {
	*require.Assertions
	conn  *net.UDPConn
	group string
	sent  uint64
}

func newSender(t *testing.T, group string) *sender {
	x := &sender{Assertions: require.New(t), group: group}
	to, err := net.ResolveUDPAddr("udp4", group)
	x.NoError(err)
	x.conn, err = net.DialUDP("udp4", nil, to)
	x.NoError(err)
	t.Cleanup(func() { _ = x.conn.Close() })
	raw, err := x.conn.SyscallConn()
	x.NoError(err)
	x.NoError(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInet4Addr(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_IF, [4]byte{127, 0, 0, 1})
	}))
	x.NoError(err)
	return x
}

// packetBytes is the length of the packets that send sends.
const packetBytes = 20 + 2 + 12

// send sends the message with a sequence number: a system event of ITCH.
func (x *sender) send(sequence uint64) {
	b := append([]byte("SESSION  1"), make([]byte, 10)...)
	binary.BigEndian.PutUint64(b[10:], sequence)
	binary.BigEndian.PutUint16(b[18:], 1)
	b = append(b, 0, 12, 'S', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'Q')
	n, err := x.conn.Write(b)
	x.NoError(err)
	x.Equal(packetBytes, n)
	x.sent++
}

// A feed handler and an echo server run beside each other: every view has exactly what was sent to each, the lines of the feed what each has
// brought and lost, and a burst of ten milliseconds is the largest batch of its second.
func TestFeedHandlerBesideEcho(t *testing.T) {
	if testing.Short() {
		t.Skip("two programs are built")
	}
	bin, dir := buildExamples(t, "feedhandler", "echo"), filepath.Join(t.TempDir(), "stats")
	port := freePort(t)
	a, b := newSender(t, fmt.Sprintf("233.252.0.71:%d", port)), newSender(t, fmt.Sprintf("233.252.0.72:%d", port))
	server := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	handler := startExample(t, bin, "feedhandler", dir, "-ring", "epoll", "-proto", "moldudp64", "-a", a.group+"@lo", "-b", b.group+"@lo")
	echo := startExample(t, bin, "echo", dir, "-ring", "epoll", "-proto", "udp", "-listen", server)
	handler.Eventually(func() bool {
		return len(handler.view(3)["feed_line"]) == 3 && handler.at(3, a.group) != nil && handler.at(3, b.group) != nil && echo.at(3, server) != nil
	}, 30*time.Second, 50*time.Millisecond, "both publish")

	client, err := net.Dial("udp4", server)
	handler.NoError(err)
	defer client.Close()
	echoes, answer := uint64(0), make([]byte, 2048)
	ask := func() {
		_, err := client.Write(make([]byte, 50))
		handler.NoError(err)
		handler.NoError(client.SetReadDeadline(time.Now().Add(20 * time.Second)))
		_, err = client.Read(answer)
		handler.NoError(err)
		echoes++
	}
	sequence := uint64(0)
	message := func() {
		sequence++
		if sequence%20 != 10 { // line A loses some
			a.send(sequence)
		}
		b.send(sequence)
	}
	for range 40 {
		message()
		ask()
		time.Sleep(5 * time.Millisecond)
	}
	// The burst comes within the ten milliseconds for which the handler's process does not run.
	handler.stop()
	begin := time.Now()
	const burst = 100
	for range burst {
		message()
	}
	time.Sleep(time.Until(begin.Add(10 * time.Millisecond)))
	handler.NoError(handler.command.Process.Signal(syscall.SIGCONT))
	for range 40 {
		message()
		ask()
		time.Sleep(5 * time.Millisecond)
	}

	received := func(n uint64, of map[string]uint64) bool { return of["packets"] == n }
	handler.Eventually(func() bool {
		return received(a.sent, handler.at(1, a.group)) && received(b.sent, handler.at(1, b.group)) && received(echoes, echo.at(1, server))
	}, 20*time.Second, 50*time.Millisecond, "all that was sent came")
	for view := 1; view <= 5; view++ {
		for _, x := range []*sender{a, b} {
			n := handler.at(view, x.group)
			handler.Equal(x.sent, n["packets"], "view %d", view)
			handler.Equal(packetBytes*x.sent, n["bytes"], "view %d", view)
		}
		n := echo.at(view, server)
		echo.Equal([]uint64{echoes, 50 * echoes, echoes, 50 * echoes}, []uint64{n["packets"], n["bytes"], n["sent_messages"], n["sent_bytes"]}, "view %d", view)
	}

	feeds, lines := handler.view(3)["feed"], handler.view(3)["feed_line"]
	handler.Len(feeds, 1)
	handler.Equal(sequence, feeds[0].Values["delivered_messages"])
	handler.Zero(feeds[0].Values["unrecovered_messages"])
	lost := sequence - a.sent
	for i, want := range []struct {
		name                 string
		segments, gaps, lost uint64
	}{{a.group + "@lo", a.sent, lost, lost}, {b.group + "@lo", b.sent, 0, 0}} {
		n := lines[i].Values
		handler.Equal(want.name, lines[i].Info["line"])
		handler.Equal([]uint64{want.segments, want.gaps, want.lost, sequence}, []uint64{n["segments"], n["gaps"], n["lost_messages"], n["last_sequence"]}, want.name)
	}
	out, _, _ := run("top", "-k", dir, "-n", "feedhandler", "-i", "0.1", "-c", "1")
	handler.Regexp(`(?m) `+a.group+`@lo .* `+strconv.FormatUint(lost, 10)+` .* `+strconv.FormatUint(sequence, 10)+`$`, out)

	// A poll takes 16 datagrams of a socket; without the burst two came every five milliseconds.
	handler.Eventually(func() bool { return largestBatch(handler, begin) >= 16 }, time.Minute, 100*time.Millisecond, "the burst is in the history")
}

// largestBatch is the largest batch in the samples that were taken after a time.
func largestBatch(x *example, at time.Time) (most uint64) {
	out, errs, code := run("history", "-k", x.dir, "-n", x.name, "--json", "--window", "15m")
	x.Zero(code, errs)
	for text := range strings.Lines(out) {
		var s struct {
			Time   time.Time
			Levels map[string]uint64
		}
		x.NoError(json.Unmarshal([]byte(text), &s))
		if s.Time.After(at) {
			most = max(most, s.Levels["ring.batch"])
		}
	}
	return most
}
