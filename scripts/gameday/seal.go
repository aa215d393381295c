package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// answer is what happened.
type answer struct {
	Cause string `json:"cause"`
	Place string `json:"place"` // where the loss happened, as xtstat why calls it
	// Begin and End are of what was done: what was lost was lost then, or some milliseconds behind it.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Packets were lost or, where the cause loses none, diverted; Messages are those of the feed in them.
	Packets  int    `json:"packets"`
	Messages int    `json:"messages"`
	Others   int    `json:"others"`         // packets that were lost at other times, because this machine did something else
	Note     string `json:"note,omitempty"` // what this kernel does not have, and what was done instead; or what followed
}

// seal writes the answer to a file in the directory, in a form that is not read by accident.
func seal(dir string, a answer) (path string, err error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "answer")
	return path, os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(text)+"\n"), 0o600)
}

// unseal reads the answer that seal has written to a file. The last byte is the newline behind it.
func unseal(path string) (a answer, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, text[:max(len(text)-1, 0)])
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		return a, fmt.Errorf("%s is no answer of a game: %w", path, err)
	}
	return a, nil
}

// open prints the answers in the files that it is given.
func open(args []string) error {
	f := flag.NewFlagSet("gameday open", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "gameday open ANSWER...  prints the answers of games: the files that they have named when they began")
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return errors.New("open: want the file of an answer, which the game has named when it began")
	}
	for _, path := range f.Args() {
		a, err := unseal(path)
		if err != nil {
			return err
		}
		const layout = "15:04:05.000"
		fmt.Printf("%s: %s, %d packets with %d messages, from %s to %s\n", a.Place, a.Cause, a.Packets, a.Messages, a.Begin.Local().Format(layout),
			a.End.Local().Format(layout))
		if a.Others > 0 {
			fmt.Printf("At other times %d packets were lost without the game: the machine was busy.\n", a.Others)
		}
		if a.Note != "" {
			fmt.Println(a.Note)
		}
	}
	return nil
}
