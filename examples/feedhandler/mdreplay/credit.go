package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
)

// credit is how many packets may have been sent, as a reader on the other end of a pipe says: one that counts what came
// and must lose nothing, on machines whose speed nobody knows.
type credit struct {
	mu    sync.Mutex
	more  sync.Cond
	given uint64
	end   error // no more will be given
}

// obey lets a replay wait for the credit that in gives. What it has sent in the end it prints, and then it answers
// requests until in ends, as the context does that obey returns.
func obey(ctx context.Context, c *replay.Config, in io.Reader) context.Context {
	k := &credit{}
	k.more.L = &k.mu
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		k.read(in)
		cancel()
	}()
	context.AfterFunc(ctx, func() { k.stop(ctx.Err()) })
	c.Pace = k.wait
	c.Ended = func(sent uint64) {
		fmt.Printf("%d packets sent in all\n", sent)
		<-ctx.Done()
	}
	c.Linger = 0
	return ctx
}

// read takes credit until the input ends.
func (k *credit) read(in io.Reader) {
	s := bufio.NewScanner(in)
	for s.Scan() {
		n, err := strconv.ParseUint(s.Text(), 10, 64)
		if err != nil {
			k.stop(fmt.Errorf("-credit: %q on standard input: want a number of packets", s.Text()))
			return
		}
		k.mu.Lock()
		k.given = max(k.given, n)
		k.mu.Unlock()
		k.more.Signal()
	}
	k.stop(errors.Join(errors.New("-credit: standard input ended"), s.Err()))
}

// stop keeps the first reason for which no more is given.
func (k *credit) stop(why error) {
	k.mu.Lock()
	if k.end == nil {
		k.end = why
	}
	k.mu.Unlock()
	k.more.Signal()
}

// wait is replay.Config.Pace: packet sent+1 needs a credit of as many.
func (k *credit) wait(sent uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for sent >= k.given && k.end == nil {
		k.more.Wait()
	}
	if sent < k.given {
		return nil
	}
	return fmt.Errorf("after %d packets: %w", sent, k.end)
}
