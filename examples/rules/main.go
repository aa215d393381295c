// Rules shows which sockets a rules file leaves to the kernel, and reads it again on SIGHUP.
//
//	go run ./examples/rules                                                 # the rules that hold, and what they say of two calls
//	go run ./examples/rules -file my.conf -ask tcp_server=10.0.0.1:80 -ask udp_connect=8.8.8.8:53
//	go run ./examples/rules -file my.conf -listen 127.0.0.1:5001 -follow    # kill -HUP it after a change of the file
//	go run ./examples/rules -file my.conf -check                            # what VMA would make of the file
//
// Without -file it is what the environment says (VMA_CONFIG_FILE), or the rules that come with the library.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(2)
	}
	hup, end := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	if err := run(c, os.Stdout, hup, end); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

// question is one -ask.
type question struct {
	role conf.Role
	at   netip.AddrPort
}

type config struct {
	settings      conf.Settings
	questions     []question
	listen        netip.AddrPort
	follow, check bool
}

// run does what the command line asks for: it shows the rules, adds some, or follows the file until it is stopped.
func run(c config, out io.Writer, hup, end <-chan os.Signal) error {
	if c.check {
		return check(c, out)
	}
	e, err := xtreme.New(c.settings)
	if err != nil {
		return err
	}
	if len(c.questions) == 0 && !c.listen.IsValid() && !c.follow {
		err = show(e, &c, out)
	}
	if err == nil {
		err = serve(e, c, out, hup, end)
	}
	if err != nil {
		return errors.Join(err, e.Close())
	}
	return e.Close()
}

// parse reads the command line.
func parse(args []string) (c config, err error) {
	c.settings = conf.FromEnvironment()
	c.settings.ExceptionHandling = -2 // a file with a mistake is an error
	f := flag.NewFlagSet("rules", flag.ContinueOnError)
	f.StringVar(&c.settings.RulesFile, "file", c.settings.RulesFile, "rules file")
	f.StringVar(&c.settings.ApplicationID, "id", c.settings.ApplicationID, "application id")
	listen := f.String("listen", "", "address to listen on after each reading of the file")
	f.BoolVar(&c.follow, "follow", false, "go on, and read the file again on SIGHUP")
	f.BoolVar(&c.check, "check", false, "compare with what VMA reads")
	f.Func("ask", "ROLE=ADDRESS:PORT, a call to ask the rules about; may be repeated", func(text string) error {
		role, at, _ := strings.Cut(text, "=")
		for r := conf.TCPServer; r <= conf.UDPConnect; r++ {
			if r.String() != role {
				continue
			}
			a, err := netip.ParseAddrPort(at)
			c.questions = append(c.questions, question{r, a})
			return err
		}
		return fmt.Errorf("role %q: want tcp_server, tcp_client, udp_receiver, udp_sender or udp_connect", role)
	})
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	if *listen != "" {
		if c.listen, err = netip.ParseAddrPort(*listen); err != nil {
			return c, fmt.Errorf("-listen %q: want an address and a port", *listen)
		}
	}
	return c, nil
}

// origin is where the rules come from.
func origin(c config, shipped bool) string {
	if shipped {
		return "the rules that come with the library (there is no " + c.settings.RulesFile + ")"
	}
	return "the rules of " + c.settings.RulesFile
}

// show prints the rules that hold, for who asks nothing, and makes the questions two calls that the library's own rules tell apart.
func show(e *xtreme.Engine, c *config, out io.Writer) error {
	_, shipped, err := c.settings.RulesText()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s:\n%s", origin(*c, shipped), e.Rules())
	for _, port := range []uint16{53, 54} {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port) // of RFC 5737, for documentation
		c.questions = append(c.questions, question{conf.UDPConnect, at})
	}
	return nil
}

// check prints the first mistake and what VMA would have kept.
func check(c config, out io.Writer) error {
	text, shipped, err := c.settings.RulesText()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s:\n", origin(c, shipped))
	ours, err := conf.ParseRules(text)
	vma, vmaErr := conf.ParseRulesAsVMA(text)
	switch {
	case err != nil:
		fmt.Fprintf(out, "a mistake: %v\nVMA would keep:\n%s", err, vma)
	case vmaErr != nil || ours.String() != vma.String():
		fmt.Fprintf(out, "no mistake; VMA would stop (%v) and keep:\n%s", vmaErr, vma)
	default:
		fmt.Fprintf(out, "no mistake; the same as VMA reads:\n%s", ours)
	}
	return nil
}

// serve prints what the rules answer. With the option to follow it reads the file again on each SIGHUP, and prints them again, until it is
// stopped.
func serve(e *xtreme.Engine, c config, out io.Writer, hup, end <-chan os.Signal) error {
	if err := tell(e, c, out); err != nil || !c.follow {
		return err
	}
	for {
		select {
		case <-end:
			return nil
		case <-hup:
			if err := e.Reload(); err != nil {
				fmt.Fprintf(out, "not changed: %v\n", err)
				continue
			}
			fmt.Fprintln(out, "read again")
			if err := tell(e, c, out); err != nil {
				return err
			}
		}
	}
}

// tell prints what the rules answer, and by which path a socket travels that is made now.
func tell(e *xtreme.Engine, c config, out io.Writer) error {
	who := conf.Program{Name: "rules", ID: c.settings.ApplicationID}
	for _, q := range c.questions {
		a := e.Rules().Match(who, q.role, q.at, netip.AddrPort{})
		because := "no rule matches"
		if a.Rule != nil {
			because = fmt.Sprintf("%v, line %d", a.Rule, a.Rule.Line)
		}
		fmt.Fprintf(out, "%v %v: %v (%s)\n", q.role, q.at, a.Transport, because)
	}
	if !c.listen.IsValid() {
		return nil
	}
	p, err := e.NewPoller("rules", xtreme.PollerConfig{})
	if err != nil {
		return err
	}
	l, err := p.ListenTCP(c.listen, xtreme.ListenConfig{})
	if err != nil {
		return errors.Join(err, p.Close())
	}
	fmt.Fprintln(out, "listener:", l.Path().Explain())
	return p.Close()
}
