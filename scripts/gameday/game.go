package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// game is a world with an exchange and a victim in it, to which one cause happens.
type game struct {
	cause *cause
	size  int
	dir   string
	world *world
	feed  *exchange

	child    *exec.Cmd
	commands io.WriteCloser
	answers  *bufio.Reader
	audit    []*net.UDPConn // the exchange's side of the audit line
}

// start makes the network, and starts the feed and the victim. Where the cause is a queue, the feed must come by the one that is served: which
// one it is depends on the exchange's port, so that several starts may be needed.
func start(dir string, c *cause, size int) (g *game, err error) {
	for range 20 {
		if g, err = startOnce(dir, c, size); err != nil || c.queues <= 1 {
			return g, err
		}
		time.Sleep(300 * time.Millisecond)
		early, err := g.tell("report")
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		time.Sleep(300 * time.Millisecond)
		late, err := g.tell("report")
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		if early.Kernel == late.Kernel {
			return g, nil
		}
		if err := errors.Join(g.close(), os.RemoveAll(g.statistics())); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the feed comes by the queue that no ring serves, whatever its port")
}

func startOnce(dir string, c *cause, size int) (g *game, err error) {
	g = &game{cause: c, size: size, dir: dir}
	if g.world, err = newWorld(max(c.queues, 1)); err != nil {
		return nil, err
	}
	if err := g.startVictim(); err != nil {
		return nil, errors.Join(err, g.close())
	}
	g.prefer(playing)
	if _, err := g.tell("report"); err != nil { // it has joined its group
		return nil, errors.Join(err, g.close())
	}
	if g.feed, err = startExchange(g.world, uint64(size)); err != nil {
		return nil, errors.Join(err, g.close())
	}
	err = g.world.peer(func() error {
		for i := range auditSockets {
			to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ourAddress), uint16(auditPort+i)))
			a, err := net.DialUDP("udp4", nil, to)
			if err != nil {
				return err
			}
			g.audit = append(g.audit, a)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// startVictim starts this program once more, in the victim's namespace.
func (g *game) startVictim() error {
	g.child = exec.Command("/proc/self/exe", victimRole, g.cause.ring(), exchangeAddress)
	g.child.Env = append(os.Environ(), "VMA_STATS_SHMEM_DIR="+g.statistics(), "VMA_RX_WRE=2048", "VMA_TRACELEVEL=error")
	g.child.Env = append(g.child.Env, g.cause.environment...)
	g.child.Stderr = os.Stderr
	g.child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // for prefer
	in, err := g.child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := g.child.StdoutPipe()
	if err != nil {
		return err
	}
	g.commands, g.answers = in, bufio.NewReader(out)
	return g.world.victim(g.child.Start)
}

func (g *game) process() int { return g.child.Process.Pid }

// statistics is the directory that xtstat -k is given.
func (g *game) statistics() string { return filepath.Join(g.dir, "stats") }

// tell has the victim do something, and returns what it says of itself then.
func (g *game) tell(command string) (r report, err error) {
	if _, err := fmt.Fprintln(g.commands, command); err != nil {
		return r, fmt.Errorf("%s: %w", command, err)
	}
	line, err := g.answers.ReadBytes('\n')
	if err != nil {
		return r, fmt.Errorf("%s: the victim does not answer: %w", command, err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Error != "" {
		err = fmt.Errorf("%s: %s", command, r.Error)
	}
	return r, err
}

// sendAudit sends datagrams on the audit line, to its sockets from the first on in turn.
func (g *game) sendAudit(n, sockets int) error {
	for i := range n {
		if _, err := g.audit[i%sockets].Write([]byte("an audit record of the exchange")); err != nil {
			return err
		}
	}
	return nil
}

// noticed is how long after its end the application has missed what was lost.
const noticed = 300 * time.Millisecond

// quiet is how long the feed flows before and after the cause: samples of both are there then. Tests may make it shorter.
var quiet = 2500 * time.Millisecond

// play has the cause happen, and says what it did.
func (g *game) play() (a answer, err error) {
	defer g.prefer(staying)
	before, err := g.flow()
	if err != nil {
		return a, err
	}
	a = answer{Cause: g.cause.name, Place: g.cause.place, Note: g.cause.note}
	if err := g.cause.inject(g, &a); err != nil {
		return a, fmt.Errorf("%s: %w", g.cause.name, err)
	}
	after, err := g.flow()
	if err != nil {
		return a, err
	}
	for g.cause.diverts { // until packets take their usual way again
		last := after.Kernel
		if after, err = g.flow(); err != nil {
			return a, err
		}
		if after.Kernel == last {
			break
		}
	}
	var missed, elsewhere []messages
	for _, m := range after.Missed {
		if m.At.Before(a.Begin) || m.At.After(a.End.Add(noticed)) {
			elsewhere = append(elsewhere, m)
			continue
		}
		missed = append(missed, m)
		a.Messages += int(m.To - m.From)
	}
	if g.cause.ofAudit { // what the feed lost meanwhile is not the cause's
		elsewhere, missed, a.Messages = append(elsewhere, missed...), nil, 0
	}
	a.Packets += g.feed.packetsIn(missed)
	a.Others = g.feed.packetsIn(elsewhere)
	if g.cause.diverts {
		a.Packets, a.Messages = int(after.Kernel-before.Kernel), 0
	}
	g.feed.forget()
	return a, nil
}

// flow lets the feed flow for a while.
func (g *game) flow() (report, error) {
	time.Sleep(quiet)
	return g.tell("report")
}

// close ends the feed and the victim.
func (g *game) close() (err error) {
	if g.feed != nil {
		err = g.feed.close()
	}
	for _, c := range g.audit {
		err = errors.Join(err, c.Close())
	}
	if g.child.Process != nil {
		err = errors.Join(err, g.commands.Close())
		end := time.AfterFunc(10*time.Second, func() { _ = g.child.Process.Kill() })
		err = errors.Join(err, g.child.Wait())
		end.Stop()
	}
	return errors.Join(err, g.world.close())
}
