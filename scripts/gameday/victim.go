package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// victimRole is the first argument of the process with the feed handler; ring and source of the line follow.
const victimRole = "victim"

// report is what the victim answers to each command: what its application has seen so far.
type report struct {
	Begin  time.Time  `json:"begin"` // of what the command did
	End    time.Time  `json:"end"`
	Missed []messages `json:"missed"` // of the feed
	Kernel uint64     `json:"kernel"` // packets of the feed that came through the kernel
	Audit  int        `json:"audit"`  // datagrams of the audit line
	Error  string     `json:"error,omitempty"`
}

// messages are those of the feed from From to To-1, which were missed at a time.
type messages struct {
	From, To uint64
	At       time.Time
}

// auditSockets is how many sockets the audit line has: each may hold as many buffers as are left to the others.
const auditSockets = 7

// feedHandler is the victim: the feed handler, and beside it an audit line, whose datagrams it releases at once unless it holds them.
type feedHandler struct {
	live   *live.Live
	stop   context.CancelFunc
	todo   chan string
	answer *json.Encoder
	report report

	holds   bool
	held    []xtreme.Packet
	ballast [][]*int
}

// victim runs the feed handler until its standard input ends.
func victim(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want a ring and a source", victimRole)
	}
	source, err := netip.ParseAddr(args[1])
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	v := &feedHandler{stop: stop, todo: make(chan string, 8), answer: json.NewEncoder(os.Stdout)}
	line := live.Line{Group: netip.MustParseAddrPort(lineAddress), Interface: device, Source: source}
	channel := live.Channel{Lines: []live.Line{line}, Handler: handler.Config{Proto: handler.DEEP, Name: "exchange", OnEvent: v.event,
		Feed: feed.Config{GapTime: int64(2 * time.Millisecond)}}}
	v.live, err = live.Open(live.Config{Ring: conf.RingKind(args[0]), Channels: []live.Channel{channel}, Spin: true, Each: v.runCommand})
	if err != nil {
		return err
	}
	for i := range auditSockets {
		err := v.openAudit(uint16(auditPort + i))
		if err != nil {
			return err
		}
	}
	go v.read()
	return v.live.Run(ctx)
}

// openAudit opens a socket of the audit line.
func (v *feedHandler) openAudit(port uint16) error {
	c := xtreme.UDPConfig{LargestDatagram: 2048}
	c.UserData = xtreme.Ptr(^uint64(0)) // none of the feed's
	c.ReceiveCallback = func(_ *xtreme.Socket, c *xtreme.Completion) xtreme.Verdict {
		v.report.Audit++
		if v.holds {
			v.held = append(v.held, c.Packet)
		} else {
			_ = c.Packet.Release() // it is this callback's
		}
		return xtreme.Hold
	}
	if port == auditPort { // its budget is what spendBudget exhausts
		c.Budget, c.ReceiveBuffer = 1<<17, 4096
	}
	_, err := v.live.Poller().OpenUDP(netip.AddrPortFrom(netip.MustParseAddr(ourAddress), port), c)
	return err
}

// event remembers what the feed has missed.
func (v *feedHandler) event(_ *handler.Channel, e *feed.Event) {
	if e.Kind == feed.Missed {
		v.report.Missed = append(v.report.Missed, messages{e.Seq, e.End, time.Now()})
	}
}

// read takes commands from the standard input. Its end is the victim's.
func (v *feedHandler) read() {
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "gameday:", err)
			}
			v.stop()
			return
		}
		v.todo <- strings.TrimSpace(line)
	}
}

// runCommand executes the command that waits, if one does, and answers with a report. It is live.Config.Each: the goroutine that polls calls it
// about ten times a second.
func (v *feedHandler) runCommand(*live.Live) {
	select {
	case command := <-v.todo:
		r := &v.report
		r.Error = ""
		r.Begin = time.Now()
		if err := v.do(command); err != nil {
			r.Error = err.Error()
		}
		r.End = time.Now()
		r.Kernel = v.live.ViaKernel(0, 0)
		if err := v.answer.Encode(r); err != nil {
			v.stop()
		}
	default:
	}
}

// do executes one command.
func (v *feedHandler) do(command string) error {
	name, argument, _ := strings.Cut(command, " ")
	switch name {
	case "report":
		return nil
	case "stall": // a handler that takes long
		d, err := time.ParseDuration(argument)
		for end := time.Now().Add(d); time.Now().Before(end); {
		}
		return err
	case "collect": // garbage, for at least a time
		d, err := time.ParseDuration(argument)
		for end := time.Now().Add(d); time.Now().Before(end); {
			runtime.GC()
		}
		return err
	case "ballast": // what a collection has to look at
		for range 64 {
			page := make([]*int, 1<<14)
			for i := range page {
				page[i] = new(int)
			}
			v.ballast = append(v.ballast, page)
		}
		return nil
	case "hold": // datagrams of the audit line
		v.holds = true
		return nil
	case "exhaust": // takes all free buffers, and holds datagrams of the audit line
		v.holds = true
		for {
			p, err := v.live.Poller().Pool().Alloc(1500)
			if errors.Is(err, buffers.ErrExhausted) {
				return nil
			}
			if err != nil {
				return err
			}
			v.held = append(v.held, p)
		}
	case "release":
		v.holds = false
		for _, p := range v.held {
			if err := p.Release(); err != nil {
				return err
			}
		}
		v.held = nil
		return nil
	case "leave":
		return v.live.Socket(0, 0).LeaveGroup(v.group())
	case "join":
		return v.live.Socket(0, 0).JoinGroup(v.group())
	}
	return fmt.Errorf("command %q is not known", command)
}

// group is the line's membership, as JoinGroup and LeaveGroup take it.
func (v *feedHandler) group() (group netip.Addr, interfaceName string, source netip.Addr) {
	return netip.MustParseAddrPort(lineAddress).Addr(), device, netip.MustParseAddr(os.Args[len(os.Args)-1])
}
