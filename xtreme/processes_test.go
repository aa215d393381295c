package xtreme_test

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// processVariable makes this binary a process of the tests below: its task, kind of ring and address.
const processVariable = "XTREME_TEST_PROCESS"

// process is a child of the test.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

// startProcess runs a task in another process, in the network namespace of the thread, and waits until it is ready.
func startProcess(t *testing.T, task string, kind conf.RingKind, at string) (p process, local netip.AddrPort) {
	t.Helper()
	p = process{Cmd: exec.Command(os.Args[0], "-test.run=^TestTaskOfAProcess$", "-test.timeout=60s")}
	p.Env = append(os.Environ(), strings.Join([]string{processVariable + "=" + task, string(kind), at}, " "))
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	p.lines = bufio.NewScanner(out)
	text := p.line(t)
	local, err = netip.ParseAddrPort(text)
	require.NoError(t, err, text)
	return p, local
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	require.True(t, p.lines.Scan(), "the other process has ended")
	return p.lines.Text()
}

// TestTaskOfAProcess is what a child does: it answers with its number, keeps what it receives unread or unreleased, or waits for datagrams.
func TestTaskOfAProcess(t *testing.T) {
	what := strings.Fields(os.Getenv(processVariable))
	if len(what) != 3 {
		return // it is no child
	}
	p, err := newEngine(t, conf.RingKind(what[1])).NewPoller("task", xtreme.PollerConfig{})
	require.NoError(t, err)
	at := netip.MustParseAddrPort(what[2])
	var s *xtreme.Socket
	if what[0] == "wait" || what[0] == "spin" {
		s, err = p.OpenUDP(at, xtreme.UDPConfig{})
	} else {
		s, err = p.ListenTCP(at, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}})
	}
	require.NoError(t, err)
	fmt.Println(s.LocalAddr())
	done := make([]xtreme.Completion, 16)
	for {
		n, err := p.Poll(done)
		require.NoError(t, err)
		for i := range done[:n] {
			c := &done[i]
			switch {
			case what[0] == "suspend" && c.Events.Has(xtreme.EventNewConnection):
				require.NoError(t, c.Socket.Suspend())
				fmt.Println("suspended")
			case what[0] == "hold" && c.Events.Has(xtreme.EventPacket):
				fmt.Println("held")
			case what[0] == "answer" && c.Events.Has(xtreme.EventPacket):
				_, err := c.Socket.Send([]byte(fmt.Sprint(os.Getpid())))
				require.NoError(t, err)
				require.NoError(t, c.Packet.Release())
			}
			if c.Events.Any(xtreme.EventRdHup | xtreme.EventHup) {
				_ = c.Socket.Close()
			}
		}
		if what[0] != "spin" {
			require.NoError(t, p.WaitFor(-1))
		}
	}
}

// Processes share a port of TCP (SO_REUSEPORT): the kernel spreads connections over them, and when one has been killed the other one has all.
func TestProcessesShareAPort(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		t.Attr("ring", string(kind))
		one, at := startProcess(t, "answer", kind, "127.0.0.1:0")
		two, _ := startProcess(t, "answer", kind, at.String())
		ask := func() (string, error) {
			c, err := net.Dial("tcp", at.String())
			if err != nil {
				return "", err
			}
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			if _, err := c.Write([]byte("x")); err != nil {
				return "", err
			}
			b := make([]byte, 16)
			n, err := c.Read(b)
			return string(b[:n]), err
		}
		answers := map[string]int{}
		for range 64 {
			who, err := ask()
			require.NoError(t, err)
			answers[who]++
		}
		require.Len(t, answers, 2)
		require.NoError(t, one.Process.Kill())
		require.Error(t, one.Wait())
		inARow := 0 // io_uring closes what the killed one had some time after its end
		for end := time.Now().Add(patience); inARow < 32; {
			require.True(t, time.Now().Before(end), "connections still end with the killed process")
			if who, err := ask(); err == nil && who == fmt.Sprint(two.Process.Pid) {
				inARow++
			} else {
				inARow = 0
			}
		}
	})
}

// The kernel ends the connections of a process that is killed: with FIN, and with RST where it still has data that the ring has not read.
func TestPeersOfAKilledProcess(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		t.Attr("ring", string(kind))
		for _, task := range []string{"hold", "suspend"} {
			p, at := startProcess(t, task, kind, "127.0.0.1:0")
			c, err := net.Dial("tcp", at.String())
			require.NoError(t, err)
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			if task == "suspend" {
				require.Equal(t, "suspended", p.line(t))
			}
			_, err = c.Write([]byte("x"))
			require.NoError(t, err)
			if task == "hold" {
				require.Equal(t, "held", p.line(t))
			}
			require.NoError(t, p.Process.Kill())
			_, err = c.Read(make([]byte, 1))
			if task == "hold" {
				require.EqualError(t, err, "EOF")
			} else {
				require.ErrorIs(t, err, unix.ECONNRESET)
			}
			require.NoError(t, c.Close())
		}
	})
}

// SIGINT ends a program that has no handler for it, whether it polls or sleeps: the library has none either.
func TestInterruptEndsAProcess(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		testnet.New(t, testnet.Pair{})
		t.Attr("ring", string(kind))
		for _, task := range []string{"wait", "spin"} {
			p, _ := startProcess(t, task, kind, "10.0.0.1:0")
			require.NoError(t, p.Process.Signal(os.Interrupt))
			var exit *exec.ExitError
			require.ErrorAs(t, p.Wait(), &exit)
			require.Equal(t, syscall.SIGINT, exit.Sys().(syscall.WaitStatus).Signal())
		}
	})
}
