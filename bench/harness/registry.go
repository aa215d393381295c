package harness

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Registry is what a run chooses from. The harness knows of peers and rows what their declarations say, and nothing else.
type Registry struct {
	Peers    []Peer
	Families []Family
	Sources  fs.FS  // of the peers that are written in C: *.c are programs, *.h what they share
	Network  string // about the networks of the rows, for the header of the result
}

// Family is rows that belong together.
type Family struct {
	Name  string
	About string // what is measured, on which configuration
	// Rows are those of the peers that stand on our side; none for peers that are not the family's subject.
	Rows func(ours []string) []Row
}

// Rows are those of all families, in their order.
func (r *Registry) Rows(ours []string) []Row {
	var rows []Row
	for _, f := range r.Families {
		rows = append(rows, f.Rows(ours)...)
	}
	return rows
}

// Ours are the names of the peers that stand on our side when the command line names none.
func (r *Registry) Ours() []string {
	var names []string
	for _, p := range r.Peers {
		if p.Ours {
			names = append(names, p.Name)
		}
	}
	return names
}

// Find looks a peer up; "exec:PROGRAM ARGS" stands for any program that follows the protocol.
func (r *Registry) Find(name string) (Peer, error) {
	if command, ok := strings.CutPrefix(name, "exec:"); ok {
		return executed(name, command)
	}
	var known []string
	for _, p := range r.Peers {
		if p.Name == name {
			return p, nil
		}
		known = append(known, p.Name)
	}
	return Peer{}, fmt.Errorf("this build has no server %q, only %s", name, strings.Join(known, ", "))
}

// RunPeer runs a program inside this binary, and returns its exit code.
func (r *Registry) RunPeer(args []string, out, errs io.Writer) int {
	var names []string
	var found *Subcommand
	for _, p := range r.Peers {
		for i, c := range p.Subcommands {
			if len(args) > 0 && c.Name == args[0] {
				found = &p.Subcommands[i]
			}
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	known := strings.Join(slices.Compact(names), ", ")
	if len(args) == 0 {
		fmt.Fprintln(errs, "bench peer: name one of", known)
		return 2
	}
	if found == nil {
		fmt.Fprintf(errs, "bench peer: %q is none of %s\n", args[0], known)
		return 2
	}
	err := found.Run(args[1:], out, errs)
	switch {
	case errors.Is(err, ErrUsage):
		return 2
	case err != nil:
		fmt.Fprintf(errs, "bench peer %s: %v\n", args[0], err)
		return 1
	}
	return 0
}
