package torture

import (
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

var (
	numSeeds  = flag.Uint64("seeds", 0, "how many seeds; 0: some, fewer with -short")
	firstSeed = flag.Uint64("seed", 1, "the first one")
)

const (
	patience = 90 * time.Second // of a kernel's run
	atATime  = 16               // trials at a time: they mostly wait for timers
)

// bound is how long a trial may take: four times what the kernel took for the same, and some seconds more the more packets are lost: the losses
// fall on other packets than in the kernel's run, and a time-out that has backed off takes rtoMax.
func (x *trial) bound(kernel time.Duration) time.Duration {
	return 4*kernel + 5*time.Second + time.Duration(x.Loss*float64(100*time.Second))
}

// TestTorture carries streams between our TCP and the kernel's over a bad network: each arrives whole, in both directions, within a bound that
// the kernel has set by doing the same against itself.
func TestTorture(t *testing.T) {
	if fd, err := newNamespace(); errors.Is(err, unix.EPERM) {
		testnet.Missing(t, "namespaces", "CAP_SYS_ADMIN")
	} else if err != nil {
		t.Fatal(err)
	} else {
		_ = unix.Close(fd)
	}
	n := *numSeeds
	if n == 0 {
		if n = 120; testing.Short() {
			n = 7
		}
	}
	slots := make(chan struct{}, atATime)
	var all sync.WaitGroup
	var mu sync.Mutex
	var kernels, ours time.Duration
	for seed := *firstSeed; seed < *firstSeed+n; seed++ {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			x := draw(seed)
			twin, took, what, err := x.both()
			if err != nil {
				t.Errorf("seed %d: %v\n%+v\nthe kernel took %v; our run: %s", seed, err, *x, twin, what)
				return
			}
			t.Logf("seed %d: loss %v, %d flows, MTU %d: %v, the kernel %v", seed, x.Loss, len(x.Flows), x.MTU, took.Round(time.Millisecond), twin.Round(time.Millisecond))
			mu.Lock()
			defer mu.Unlock()
			kernels, ours = kernels+twin, ours+took
		})
	}
	all.Wait()
	t.Logf("%d seeds: the kernel with itself %v, with ours %v", n, kernels.Round(time.Millisecond), ours.Round(time.Millisecond))
	if n >= 50 && ours > 2*kernels {
		t.Errorf("all trials together took %v with ours, %v with the kernel alone: more than twice as long", ours, kernels)
	}
}

// both runs a trial with the kernel at both ends, then with our TCP at the near one. what describes the second run.
func (x *trial) both() (twin, took time.Duration, what string, err error) {
	n, err := newNetwork(x)
	if err != nil {
		return 0, 0, "", err
	}
	defer n.close()
	twin, what, err = x.run(n, 7000, patience, func(m *meeting) error { return x.runKernel(n, near, m) })
	if err != nil {
		return twin, 0, what, fmt.Errorf("the kernel with itself: %w", err)
	}
	took, what, err = x.run(n, 8000, x.bound(twin), func(m *meeting) error { return x.runOurs(n, m) })
	return twin, took, what, err
}

// run carries the flows of a trial between the near side that it is given and the far one, within a time bound.
func (x *trial) run(n *network, ports uint16, bound time.Duration, nearSide func(*meeting) error) (took time.Duration, what string, err error) {
	var r *relay
	if err := within(n.relay, func() (err error) {
		r, err = newRelay(x.Seed, x.impairments)
		return err
	}); err != nil {
		return 0, "", err
	}
	begin := time.Now()
	m := &meeting{ports: ports, ready: make(chan struct{}, 2), start: make(chan struct{}), ended: make(chan error, 1), stop: make(chan struct{}),
		until: begin.Add(bound)}
	results := [2]chan error{make(chan error, 1), make(chan error, 1)}
	go func() { results[near] <- nearSide(m) }()
	go func() { results[far] <- x.runKernel(n, far, m) }()
	<-m.ready
	<-m.ready
	close(m.start)
	timer := time.NewTimer(time.Until(m.until))
	defer timer.Stop()
	returned, ended := [2]bool{}, [2]bool{}
	for err == nil && ended != [2]bool{true, true} {
		select {
		case err = <-results[near]:
			returned[near], ended[near] = true, true
		case err = <-m.ended:
			ended[near] = true
		case err = <-results[far]:
			returned[far], ended[far] = true, true
		case <-timer.C:
			err = fmt.Errorf("not over after %v", bound)
		}
	}
	took = time.Since(begin)
	close(m.stop)
	for side, c := range results {
		if !returned[side] {
			if e := <-c; e != nil && !errors.Is(err, e) {
				err = errors.Join(err, e)
			}
		}
	}
	err = errors.Join(err, r.close())
	if err == nil && r.dropped > 0 {
		err = fmt.Errorf("the relay was too slow: the kernel has dropped %d packets before it", r.dropped)
	}
	return took, fmt.Sprintf("%v; packets from near %+v, from far %+v", took, r.ways[near].relayed, r.ways[far].relayed), err
}
