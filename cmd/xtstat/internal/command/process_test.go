package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("XTSTAT_TEST_ECHO"); dir != "" {
		if err := echo(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if strings.HasPrefix(os.Getenv("XTSTAT_TEST_RUN"), "self ") {
		fmt.Println(os.Getpid())
		os.Exit(0)
	}
	if args := os.Getenv("XTSTAT_TEST_RUN"); args != "" { // as xtstat, in a terminal or another namespace
		os.Exit(Run(strings.Fields(args), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// echo is the program that the tests look at: it answers datagrams, is a member of a group, and polls until it is killed.
func echo(dir string) error {
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.LogFile = conf.RingKind(os.Getenv("XTSTAT_TEST_RING")), dir, filepath.Join(filepath.Dir(dir), "log")
	e, err := xtreme.New(s)
	if err != nil {
		return err
	}
	p, err := e.NewPoller("echo", xtreme.PollerConfig{})
	if err != nil {
		return err
	}
	u, err := p.OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{})
	if err != nil {
		return err
	}
	if err := u.JoinGroup(netip.MustParseAddr("239.1.2.3"), "lo", netip.Addr{}); err != nil {
		return err
	}
	l, err := p.ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.ListenConfig{})
	if err != nil {
		return err
	}
	fmt.Println(u.LocalAddr().Port(), u.ID(), l.ID())
	done := make([]xtreme.Completion, 64)
	for {
		n, err := p.Poll(done)
		if err != nil {
			return err
		}
		for _, c := range done[:n] {
			if c.Events.Has(xtreme.EventPacket) {
				if _, err := u.SendTo(c.Packet.Bytes(), c.Source); err != nil {
					return err
				}
				if err := c.Packet.Release(); err != nil {
					return err
				}
			}
		}
		if n == 0 {
			if err := p.WaitFor(time.Millisecond); err != nil {
				return err
			}
		}
	}
}

// program is a running echo.
type program struct {
	*require.Assertions
	t        *testing.T
	dir      string
	command  *exec.Cmd
	port     int
	udp, tcp string // fds
}

func startEcho(t *testing.T, ring string, args ...string) *program {
	p := &program{Assertions: require.New(t), t: t, dir: filepath.Join(t.TempDir(), "stats"), command: exec.Command("/proc/self/exe", args...)}
	p.command.Env = append(os.Environ(), "XTSTAT_TEST_ECHO="+p.dir, "XTSTAT_TEST_RING="+ring)
	p.command.Stderr = os.Stderr
	out, err := p.command.StdoutPipe()
	p.NoError(err)
	p.NoError(p.command.Start())
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	p.NoError(err)
	_, err = fmt.Sscan(line, &p.port, &p.udp, &p.tcp)
	if ring != "epoll" && strings.Contains(line, "uring") {
		testnet.Missing(t, "uring", line)
	}
	p.NoError(err, line)
	return p
}

func (p *program) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// send sends datagrams of 100 bytes, and waits for each answer.
func (p *program) send(n int) {
	c, err := net.Dial("udp4", "127.0.0.1:"+strconv.Itoa(p.port))
	p.NoError(err)
	defer c.Close()
	b := make([]byte, 100)
	for range n {
		_, err := c.Write(b)
		p.NoError(err)
		p.NoError(c.SetReadDeadline(time.Now().Add(20 * time.Second)))
		_, err = c.Read(b)
		p.NoError(err)
	}
}

// awaitCounted waits until the program has counted n datagrams received and sent: the answer to the last one may be here before it is counted.
func (p *program) awaitCounted(n uint64) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		x := p.counted()
		if x["packets"] >= n && x["sent_messages"] >= n && x["sent_bytes"] >= 100*n {
			return
		}
		p.True(time.Now().Before(end), "%v", x)
	}
}

// run is xtstat for the program's directory; it must succeed.
func (p *program) run(args ...string) string {
	p.t.Helper()
	out, errs, code := run(append([]string{"-k", p.dir}, args...)...)
	p.Zero(code, "%v: %s", args, errs)
	return out
}

// counted is what the program's UDP socket has received, by JSON.
func (p *program) counted(args ...string) map[string]uint64 {
	p.t.Helper()
	var x struct {
		Blocks map[string][]struct {
			ID     uint64
			Values map[string]uint64
		}
	}
	p.NoError(json.Unmarshal([]byte(p.run(append([]string{"--json", "-c", "1"}, args...)...)), &x))
	for _, s := range x.Blocks["socket"] {
		if strconv.FormatUint(s.ID, 10) == p.udp {
			return s.Values
		}
	}
	p.Fail("the socket is not shown")
	return nil
}

// Each view has exactly what the sender has sent, while the program runs, and when it was killed.
func TestViewsOfARunningAndAKilledProgram(t *testing.T) {
	for _, ring := range []string{"epoll", "uring"} {
		t.Run(ring, func(t *testing.T) {
			p := startEcho(t, ring)
			const n = 321
			p.send(n)
			p.awaitCounted(n)
			for _, view := range []string{"1", "2", "3", "4", "5"} {
				x := p.counted("-v", view)
				p.EqualValues(n, x["packets"])
				p.EqualValues(100*n, x["bytes"])
				p.EqualValues(n, x["sent_messages"])
				p.EqualValues(100*n, x["sent_bytes"])
			}
			p.Regexp(`(?m)^ `+p.udp+` +Rx: +0 +0 +0 +0 +[0-9.]+ +321 +31 +0 +0\n +Tx: +0 +0 +0 +0 +321 +31 +0 +0$`, p.run("-c", "1"))
			p.NotRegexp(`(?m)^ `+p.tcp+` +Rx:`, p.run("-c", "1", "-s", p.udp))
			p.Contains(p.run("-c", "1", "-v", "3"), "Rx OS info: 31 / 321 / 0 / 0 [kilobytes/packets/eagains/errors]")
			p.Regexp(`\[239\.1\.2\.3\] +`+p.udp, p.run("-v", "4"))
			netstat := p.run("-v", "5")
			p.Regexp(`(?m)^udp   No        0      0      127\.0\.0\.1:`+strconv.Itoa(p.port)+` .* [0-9]+ +`+strconv.Itoa(p.command.Process.Pid)+`/exe$`, netstat)
			p.Contains(netstat, "LISTEN")

			p.kill()
			pid := strconv.Itoa(p.command.Process.Pid)
			_, errs, code := run("-k", p.dir)
			p.Equal(exitFailure, code)
			p.Contains(errs, "-p "+pid+" shows the last of them")
			p.EqualValues(n, p.counted("-p", pid)["packets"])
			_, errs, code = run("-k", p.dir, "-p", pid, "-c", "3")
			p.Zero(code)
			p.Contains(errs, "has ended")
			p.Contains(p.run("events", "-p", pid), "239.1.2.3")
			p.Contains(p.run("history", "-p", pid), "rx pkt/s")
			p.NotContains(p.run("-v", "5"), "/exe", "it is not running")
		})
	}
}

// Every view shows what a killed process had counted, chosen by its number, by its file, or by a copy of the file: as text, with a word that it
// has ended, and as JSON.
func TestEveryViewOfAKilledProgram(t *testing.T) {
	p := startEcho(t, "epoll")
	const n = 321
	p.send(n)
	p.awaitCounted(n)
	pid := strconv.Itoa(p.command.Process.Pid)
	files, err := filepath.Glob(filepath.Join(p.dir, "sxstat."+pid+".*[0-9]"))
	p.NoError(err)
	p.Len(files, 1)
	p.kill()
	content, err := os.ReadFile(files[0])
	p.NoError(err)
	duplicate := filepath.Join(t.TempDir(), "from_production")
	p.NoError(os.WriteFile(duplicate, content, 0o600))
	address := `127\.0\.0\.1:` + strconv.Itoa(p.port)
	for _, choice := range [][]string{{"-p", pid}, {"-n", "exe"}, {"-k", files[0]}, {"-k", duplicate}} {
		for view, want := range map[string]string{
			"1": `(?m)^ ` + p.udp + ` +Rx: +0 +0 +0 +0 +[0-9.]+ +321 +31 +0 +0\n +Tx: +0 +0 +0 +0 +321 +31 +0 +0$`,
			"2": `(?m)^ ` + p.udp + ` +Rx: +0 +0 +0 +0 +[0-9.]+ +0 +[0-9]+ +0 +321 +31 +0 +0\n +Tx: +0 +0 +0 +0 +321 +31 +0 +0$`,
			"3": `Local Address   = \[` + address + `\]\n.*\n.*\n.*\nTx OS info: 31 / 321 / 0 / 0 `,
			"4": `\[239\.1\.2\.3\] +` + p.udp,
			"5": `(?m)^udp   No        0      0      ` + address + ` .* [0-9]+ +` + pid + `/exe \(ended 20[0-9-]+ [0-9:]+\)$`,
		} {
			args := append([]string{"-k", p.dir}, append(choice, "-v", view)...)
			out, errs, code := run(args...)
			p.Zero(code, "%v: %s", args, errs)
			p.Regexp(want, out, "%v", args)
			p.Contains(errs, "has ended", "%v", args)
			x := p.counted(append(choice, "-v", view)...)
			p.Equal([]uint64{n, 100 * n, n, 100 * n}, []uint64{x["packets"], x["bytes"], x["sent_messages"], x["sent_bytes"]}, "%v", args)
			out, _, _ = run(append(args, "--json", "-c", "1")...)
			p.Contains(out, `"live":false`)
		}
	}
	for _, none := range [][]string{{"-p", "1"}, {"-n", "nonsense"}} {
		_, errs, code := run(append(none, "-k", p.dir, "-v", "5")...)
		p.Equal(exitFailure, code, none)
		p.Contains(errs, none[1])
	}
}

// What history has counted, second by second, is what was sent.
func TestHistoryAddsUp(t *testing.T) {
	p := startEcho(t, "epoll")
	const n = 50
	p.send(n)
	var counted uint64
	p.Eventually(func() bool {
		counted = 0
		for line := range strings.Lines(p.run("history", "--json")) {
			var x struct{ Counted map[string]uint64 }
			p.NoError(json.Unmarshal([]byte(line), &x))
			counted += x.Counted["ring.packets"]
		}
		return counted == n
	}, 20*time.Second, 100*time.Millisecond)
	require.EqualValues(t, n, counted)
}

// History and events of a killed process are read from another process namespace, where no process has its number: the same lines
// as from its own.
func TestKilledProgramFromAnotherProcessNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "namespaces", "they are for root")
	}
	p := startEcho(t, "epoll")
	const n = 50
	p.send(n)
	counted := func(history string) (sum uint64) {
		for line := range strings.Lines(history) {
			var x struct{ Counted map[string]uint64 }
			p.NoError(json.Unmarshal([]byte(line), &x), line)
			sum += x.Counted["ring.packets"]
		}
		return sum
	}
	p.Eventually(func() bool { return counted(p.run("history", "--json")) == n }, time.Minute, 100*time.Millisecond)
	p.kill()
	pid := strconv.Itoa(p.command.Process.Pid)
	inside := func(args ...string) string {
		args = append(args, "-k", p.dir, "-p", pid)
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), "XTSTAT_TEST_RUN="+strings.Join(args, " "))
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		c.Stderr = os.Stderr
		out, err := c.Output()
		p.NoError(err, "%v", args)
		return string(out)
	}
	p.Equal("1\n", inside("self"), "the reader is process 1 there")
	history := inside("history")
	p.Regexp(`(?m)^until +rx pkt/s +rx KB/s +tx msg/s `, history)
	p.Regexp(`(?m)^[0-9:]{8}\.[0-9]{3} +[0-9]+ +[0-9]+ +[0-9]+ `, history)
	p.Equal(p.run("history", "-p", pid), history)
	p.EqualValues(n, counted(inside("history", "--json", "--window", "15m")))
	events := inside("events")
	p.Regexp(`(?m)^.* join .*239\.1\.2\.3.*fd=`+p.udp, events)
	p.Equal(p.run("events", "-p", pid), events)
}

func TestDeltasOfARunningProgram(t *testing.T) {
	p := startEcho(t, "epoll")
	p.send(10)
	x := p.counted("-d", "2", "-i", "0.2")
	p.Zero(x["packets"], "nothing comes meanwhile")
	begin := time.Now()
	p.Equal(3, strings.Count(p.run("-c", "3", "-i", "0.2", "--json"), "\n"), "a line for each of three reports")
	p.GreaterOrEqual(time.Since(begin), 400*time.Millisecond, "two intervals")
}

// Zero is seen by every xtstat, with -s for some sockets only; the sources go on.
func TestZero(t *testing.T) {
	p := startEcho(t, "epoll")
	p.send(10)
	p.EqualValues(10, p.counted()["packets"])
	p.Zero(p.counted("-z")["packets"])
	p.Zero(p.counted()["packets"])
	p.send(3)
	p.EqualValues(3, p.counted()["packets"])
	p.run("-z", "-c", "1", "-s", p.tcp)
	p.EqualValues(3, p.counted()["packets"], "another socket's")
	_, errs, code := run("-k", p.dir, "-z", "-s", "999")
	p.Equal(exitFailure, code)
	p.Contains(errs, "999")
}

func TestLogLevelAndDump(t *testing.T) {
	p := startEcho(t, "epoll")
	p.send(2)
	log := func() string {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(p.dir), "log"))
		p.NoError(err)
		return string(text)
	}
	out := p.run("-S", p.udp)
	p.Contains(out, "Fd=["+p.udp+"]")
	p.Contains(log(), "Fd=["+p.udp+"]", "in the log of the process as well")
	p.NotContains(out, "Fd=["+p.tcp+"]")
	p.Contains(p.run("-S", "0", "debug"), "Fd=["+p.tcp+"]")
	p.NotContains(log(), "Fd=["+p.tcp+"]", "its log is at info")
	p.run("-l", "debug", "-D", "1", "-c", "1")
	p.run("-S", p.tcp, "debug")
	p.Regexp(`(?m)Tid: .*Fd=\[`+p.tcp+`\]`, log())
	_, errs, code := run("-k", p.dir, "-S", "999")
	p.Equal(exitFailure, code)
	p.Contains(errs, "999")
}

// A dump does what the options beside it ask for as well, before it. View 5, which is of all processes, refuses what is of one.
func TestOptionsBesideADump(t *testing.T) {
	p := startEcho(t, "epoll")
	p.send(2)
	p.awaitCounted(2)
	p.Contains(p.run("-S", p.udp, "debug", "-l", "debug", "-z"), "Fd=["+p.udp+"]")
	log, err := os.ReadFile(filepath.Join(filepath.Dir(p.dir), "log"))
	p.NoError(err)
	p.Contains(string(log), "Fd=["+p.udp+"]", "its log was at info")
	p.Zero(p.counted()["packets"])
	for _, of := range [][]string{{"-z"}, {"-l", "debug"}, {"-D", "1"}, {"-S", "0"}} {
		_, errs, code := run(append(of, "-k", p.dir, "-v", "5")...)
		p.Equal(exitUsage, code, of)
		p.Contains(errs, "view 5")
	}
}

func TestChoiceOfTheProcess(t *testing.T) {
	p := startEcho(t, "epoll")
	q := startEchoIn(t, p.dir)
	p.Contains(p.run("-c", "1", "-p", strconv.Itoa(p.command.Process.Pid), "--json"), `"pid":`+strconv.Itoa(p.command.Process.Pid))
	for _, newest := range [][]string{{"-f"}, {}, {"-n", "exe"}} {
		p.Contains(p.run(append(newest, "-c", "1", "--json")...), `"pid":`+strconv.Itoa(q.command.Process.Pid), "%v: the one that began last", newest)
	}
	both := p.run("-v", "5")
	p.Contains(both, strconv.Itoa(p.command.Process.Pid)+"/exe")
	p.Contains(both, strconv.Itoa(q.command.Process.Pid)+"/exe")
	for _, none := range [][]string{{"-p", "1"}, {"-n", "nonsense"}} {
		_, errs, code := run(append(none, "-k", p.dir)...)
		p.Equal(exitFailure, code)
		p.Contains(errs, none[1])
	}
}

// startEchoIn starts another one that publishes into the same directory.
func startEchoIn(t *testing.T, dir string) *program {
	q := &program{Assertions: require.New(t), t: t, dir: dir, command: exec.Command("/proc/self/exe")}
	q.command.Env = append(os.Environ(), "XTSTAT_TEST_ECHO="+dir, "XTSTAT_TEST_RING=epoll")
	out, err := q.command.StdoutPipe()
	q.NoError(err)
	q.NoError(q.command.Start())
	t.Cleanup(q.kill)
	_, err = bufio.NewReader(out).ReadString('\n')
	q.NoError(err)
	return q
}

// Files of processes that have ended are removed, all but the newest eight; -F keeps them.
func TestForbidClean(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for i := range 12 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("sxstat.7.%d", i+1)), nil, 0o600))
	}
	count := func() int {
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(list)
	}
	run("-k", dir, "-F")
	require.Equal(t, 12, count())
	run("-k", dir)
	require.Equal(t, 8, count())
}

func TestAnotherUserSeesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		testnet.Missing(t, "root", "the user is changed")
	}
	p := startEcho(t, "epoll")
	c := exec.Command("/bin/ls", p.dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	p.Error(err)
	p.Contains(string(out), "ermission denied")
}

func TestValuesThatMeanNothing(t *testing.T) {
	for _, args := range [][]string{{"-v", "6"}, {"-v", "x"}, {"-d", "3"}, {"-i", "-1"}, {"-c", "-1"}, {"-s", "a-b"}, {"-l", "loud"}, {"-D", "4"}, {"-S", "1", "loud"},
		{"-S", "1", "info", "more"}, {"events", "--at", "noon"}, {"events", "--at", "9:30", "--window", "-1s"}} {
		dir := t.TempDir()
		_, errs, code := run(append(args, "-k", dir)...)
		require.NotZero(t, code, "%v", args)
		require.NotEmpty(t, errs, "%v", args)
	}
	out, _, code := run("-V")
	require.Zero(t, code)
	require.Contains(t, out, "xtstat")
	out, _, code = run("--help")
	require.Zero(t, code)
	for _, option := range []string{"-p, --pid", "-k, --directory", "-n, --name", "-f, --find_pid", "-F, --forbid_clean", "-i, --interval", "-c, --cycles",
		"-v, --view", "-d, --details", "-S, --fd_dump", "-z, --zero", "-l, --log_level", "-D, --details_level", "-s, --sockets", "-V, --version", "-h, --help"} {
		require.Contains(t, out, option)
	}
}
