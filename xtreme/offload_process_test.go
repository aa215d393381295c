package xtreme_test

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// An interface that another process has is the other's, and the path names the process. When that one is killed the interface is free: the
// program was on a link that went with it.
func TestInterfaceOfAnotherProcess(t *testing.T) {
	if at := os.Getenv("XTREME_HOLD"); at != "" {
		hold(t, netip.MustParseAddrPort(at))
		return
	}
	w := newCabled(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestInterfaceOfAnotherProcess$", "-test.timeout=60s") // in this thread's namespace
	cmd.Env = append(os.Environ(), "XTREME_HOLD="+netip.AddrPortFrom(w.net.Other(0), 0).String())
	stop, err := cmd.StdinPipe()
	w.NoError(err)
	defer stop.Close()
	out, err := cmd.StdoutPipe()
	w.NoError(err)
	w.NoError(cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	w.NoError(err)
	w.Equal("held\n", line)
	w.True(program(t, "v0"))
	s := w.udp(w.at(0))
	w.Equal("kernel", s.Path().Tier)
	w.Equal("xdp.busy", codes(s.Path())[0])
	w.Contains(s.Path().Explain(), fmt.Sprintf("pid=%d", cmd.Process.Pid))
	_, err = w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	w.ErrorContains(err, "xdp.busy")

	w.NoError(cmd.Process.Kill())
	w.Error(cmd.Wait())
	for end := time.Now().Add(patience); ; {
		if s, err = w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}}); err == nil {
			break
		}
		w.True(time.Now().Before(end), "%v", err)
		time.Sleep(10 * time.Millisecond) // between tries: the refusal is believed for a second
	}
	answers(w.world, s, w.net.Dial(s.LocalAddr()))
}

// hold has an offloaded socket until it is killed, or its parent is gone.
func hold(t *testing.T, at netip.AddrPort) {
	s := conf.Default()
	s.Ring = conf.RingOffload
	e, err := xtreme.New(s)
	require.NoError(t, err)
	p, err := e.NewPoller("holder", xtreme.PollerConfig{})
	require.NoError(t, err)
	_, err = p.OpenUDP(at, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	require.NoError(t, err)
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
