package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

func main() {
	plays := len(os.Args) < 2 || os.Args[1] != "open"
	if plays && !leadsSession(os.Getpid()) { // for prefer
		os.Exit(runInOwnSession())
	}
	switch err := run(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp): // it is printed
	case err != nil:
		fmt.Fprintln(os.Stderr, "gameday:", err)
		os.Exit(1)
	}
}

// run is the command: a game, the opening of an answer, or the victim's process, which a game starts.
func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "open":
			return open(args[1:])
		case victimRole:
			return victim(args[1:])
		}
	}
	f := flag.NewFlagSet("gameday", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "gameday [flags]         something happens to a feed handler, which xtstat must explain (docs/monitoring.md)\n"+
			"gameday open ANSWER...  prints the answer")
		f.PrintDefaults()
	}
	seed := f.Uint64("seed", 0, "draws the cause and its size; 0: by chance")
	name := f.String("cause", "", "this cause instead of one that is drawn: "+strings.Join(causeNames(), ", "))
	dir := f.String("dir", "", "where the statistics and the answer lie, made if it is not there; empty: a new directory below the one for temporary files")
	stay := f.Duration("stay", 10*time.Minute, "how long the feed goes on afterwards; then the statistics are those of a process that has ended")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("argument %q: only flags are known, and open", f.Arg(0))
	}
	if *stay < 0 {
		return fmt.Errorf("-stay %v: want a time of 0 or more", *stay)
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	drawn, size := draw(*seed)
	if *name != "" {
		var err error
		if drawn, err = findCause(*name); err != nil {
			return err
		}
	}
	var err error
	if *dir == "" {
		*dir, err = os.MkdirTemp("", "gameday-")
	} else {
		err = os.MkdirAll(*dir, 0o755)
	}
	if err != nil {
		return err
	}
	g, err := start(*dir, drawn, size)
	if err != nil {
		return err
	}
	begin := time.Now()
	answer, err := g.play()
	if err != nil {
		return errors.Join(err, g.close())
	}
	sealed, err := seal(*dir, answer)
	if err != nil {
		return errors.Join(err, g.close())
	}
	fmt.Printf("The feed handler is process %d: xtstat why -k %s -p %d (docs/monitoring.md, When packets are missing).\n"+
		"Something happened to its feed between %s and %s. Its line is %s on %s.\n"+
		"Say what it was, how much was lost or diverted, and when.\n"+
		"The answer is in %s (gameday open). The feed goes on for %v.\n", g.process(), g.statistics(), g.process(), begin.Format(time.TimeOnly),
		time.Now().Format(time.TimeOnly), lineAddress, device, sealed, *stay)
	time.Sleep(*stay)
	return g.close()
}

// draw is the cause and the size that belong to a seed.
func draw(seed uint64) (*cause, int) {
	r := rand.New(rand.NewPCG(seed, 14))
	return &causes[r.IntN(len(causes))], 5 + r.IntN(60)
}
