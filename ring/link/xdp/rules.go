package xdp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// card is what is needed of a network card's rules; ethtool is the real one.
type card interface {
	// table is the number of rules it can hold, and whether it wants to choose their places.
	table() (size int, chooses bool, err error)
	// locations lists the places that are taken.
	locations(size int) ([]uint32, error)
	// read is the rule at a place, without its location.
	read(location uint32) ([specBytes]byte, error)
	// insert puts a rule at a place (anywhere: locationAny) and reports where it is.
	insert(spec [specBytes]byte, location uint32) (uint32, error)
	remove(location uint32) error
}

// locationAny lets the card choose (RX_CLS_LOC_ANY).
const locationAny = 0xffffffff

// rules keeps a card's rules for dedicated queues. A rule stays in the card when the process ends, so each process writes down what it is
// about to insert, in a file that it holds locked as long as it lives; the next one that opens the interface removes the rules of files
// whose lock is free. (A process number would be no proof of life: it may be another's by now, or of another container.) Any goroutine.
//
// Unproven on hardware: the logic is tested against a card that exists in the tests only.
type rules struct {
	card   card
	dir    string
	prefix string // of this interface's files

	mu   sync.Mutex
	file *os.File // the list of our rules, locked; nil before the first one
	name string   // the file's path, without the suffix .new
	ours []rule
}

// openRules prepares a card's rules for use, and removes the rules that crashed processes left there. Error: a refusal with ReasonNoRules
// when the card takes none.
func openRules(c card, dir, prefix string) (*rules, error) {
	r := &rules{card: c, dir: dir, prefix: prefix}
	if _, _, err := c.table(); err != nil {
		return nil, refusal(ReasonNoRules, err, "receive rules on this interface")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("xdp: rules: %w", err)
	}
	if err := r.recover(); err != nil {
		return nil, err
	}
	return r, nil
}

// recover removes the rules of processes that have ended: those in this interface's files whose lock is free.
func (r *rules) recover() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("xdp: rules: %w", err)
	}
	for _, e := range entries {
		name := filepath.Join(r.dir, e.Name())
		switch {
		case !strings.HasPrefix(e.Name(), r.prefix):
		case strings.HasSuffix(e.Name(), ".new"):
			// Another process is writing the file. An old one is of a process that died before it renamed the file, and so inserted nothing.
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
				_ = os.Remove(name) // another process may have been faster
			}
		default:
			if err := r.recoverFile(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverFile removes the rules that a file lists from the card, and then the file, unless a living process has it locked.
func (r *rules) recoverFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // its owner just closed it
	}
	if err != nil {
		return fmt.Errorf("xdp: rules: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil // its owner lives
	} else if err != nil {
		return fmt.Errorf("xdp: rules: lock %s: %w", name, err)
	}
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var left rule
		if err := json.Unmarshal(scan.Bytes(), &left); err != nil {
			continue // the process died while it wrote the line, before it inserted the rule
		}
		if err := r.removeSame(left); err != nil {
			return err
		}
	}
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("xdp: rules: %w", err)
	}
	return nil
}

// find looks in the card's table for a rule with the same flow and queue, also one that another process has inserted, and reports its location.
func (r *rules) find(want rule) (location uint32, found bool, err error) {
	spec, err := want.spec()
	if err != nil {
		return 0, false, err
	}
	size, _, err := r.card.table()
	if err != nil {
		return 0, false, fmt.Errorf("xdp: rules: %w", err)
	}
	all, err := r.card.locations(size)
	if err != nil {
		return 0, false, fmt.Errorf("xdp: rules: %w", err)
	}
	for _, l := range all {
		if got, err := r.card.read(l); err == nil && got == spec {
			return l, true, nil
		}
	}
	return 0, false, nil
}

// removeSame removes the rule of the card that equals one a crashed process noted; none is no error. The noted location is not used: the
// process noted the rule before the card had chosen it.
func (r *rules) removeSame(left rule) error {
	l, found, err := r.find(left)
	if err != nil || !found {
		return err
	}
	if err := r.card.remove(l); err != nil {
		return fmt.Errorf("xdp: rules: remove %v at %d: %w", left.Flow, l, err)
	}
	return nil
}

// steer makes frames of the flow arrive on the queue. A rule of somebody else's that does the same is used and left alone.
func (r *rules) steer(f Flow, queue int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := rule{Flow: f, Queue: queue}
	_, found, err := r.find(want)
	if err != nil || found {
		return err
	}
	location, err := r.place()
	if err != nil {
		return err
	}
	spec, err := want.spec()
	if err != nil {
		return err
	}
	// First the note, then the rule: a crash between them leaves a note without a rule, which does no harm.
	r.ours = append(r.ours, want)
	if err := r.write(); err != nil {
		r.ours = r.ours[:len(r.ours)-1]
		return err
	}
	if r.ours[len(r.ours)-1].Location, err = r.card.insert(spec, location); err != nil {
		r.ours = r.ours[:len(r.ours)-1]
		return errors.Join(refusal(ReasonNoRules, err, "inserting a receive rule for %v", f), r.write())
	}
	return nil
}

// place is where the next rule goes: the card's choice, or the last free place, because tables are read from the front and the
// administrator's rules begin there.
func (r *rules) place() (uint32, error) {
	size, chooses, err := r.card.table()
	if err != nil {
		return 0, fmt.Errorf("xdp: rules: %w", err)
	}
	if chooses {
		return locationAny, nil
	}
	taken, err := r.card.locations(size)
	if err != nil {
		return 0, fmt.Errorf("xdp: rules: %w", err)
	}
	used := make(map[uint32]bool, len(taken))
	for _, l := range taken {
		used[l] = true
	}
	for l := size - 1; l >= 0; l-- {
		if !used[uint32(l)] {
			return uint32(l), nil
		}
	}
	return 0, refusal(ReasonNoRules, unix.ENOSPC, "all %d receive rules of the card are taken", size)
}

// unsteer removes the rule that steer has inserted for a flow, from the card and then from the file. Error: ErrNoClaim if there is none.
func (r *rules) unsteer(f Flow) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, o := range r.ours {
		if o.Flow != f {
			continue
		}
		if err := r.card.remove(o.Location); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("xdp: rules: remove %v at %d: %w", f, o.Location, err)
		}
		r.ours = append(r.ours[:i], r.ours[i+1:]...)
		return r.write()
	}
	return fmt.Errorf("xdp: rule for %v: %w", f, ErrNoClaim)
}

// write stores the list of our rules. It writes and locks a new file with the suffix .new and renames it over the old one, so that recover
// of another process never finds the list unlocked or half written.
func (r *rules) write() error {
	var text bytes.Buffer
	for _, o := range r.ours {
		line, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("xdp: rules: %w", err)
		}
		text.Write(append(line, '\n'))
	}
	f, err := os.CreateTemp(r.dir, r.prefix+"*.new")
	if err != nil {
		return fmt.Errorf("xdp: rules: %w", err)
	}
	name := strings.TrimSuffix(f.Name(), ".new")
	if r.file != nil {
		name = r.name
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = f.Write(text.Bytes())
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("xdp: rules: %w", err), f.Close(), os.Remove(f.Name()))
	}
	if r.file != nil {
		_ = r.file.Close() // its name is the new file's now
	}
	r.file, r.name = f, name
	return nil
}

// close removes all our rules, and the file once none is left. Rules that could not be removed stay in the file for the next process.
func (r *rules) close() error {
	r.mu.Lock()
	flows := make([]Flow, len(r.ours))
	for i, o := range r.ours {
		flows[i] = o.Flow
	}
	r.mu.Unlock()
	var err error
	for _, f := range flows {
		err = errors.Join(err, r.unsteer(f))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil && len(r.ours) == 0 {
		err = errors.Join(err, os.Remove(r.name), r.file.Close())
		r.file = nil
	}
	return err
}
