package offload_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
)

// A socket whose packets are held leaves buffers to another one on the same queue, although three idle queues have more than half of all buffers
// that receiving may take: each as many as an xtreme.Poller gives it.
func TestHolderBesideIdleQueues(t *testing.T) {
	const queues = 4
	s := newShared(t, queues)
	s.fill = 2048 * 6 / 7 * 4 / 5 / queues
	set, r := s.set(nil)
	greedy, modest := s.open(set, "10.0.0.1:7000"), s.open(set, "10.0.0.1:7001")
	var held []ring.Completion
	dst := make([]ring.Completion, 64)
	poll := func() {
		n, err := r.Poll(dst)
		require.NoError(t, err)
		held = append(held, dst[:n]...)
	}
	releaseAll := func() {
		for i := range held {
			require.NoError(t, held[i].Packet.Release())
		}
		held = held[:0]
	}
	defer releaseAll()
	toGreedy := s.Dial(greedy.LocalAddr())
	defer toGreedy.Close()
	queue := s.queueOf(r, toGreedy, poll)
	toModest := s.dialQueue(r, modest, queue, poll)
	defer toModest.Close()
	releaseAll()

	for range 2048 {
		_, err := toGreedy.Write([]byte("hoard"))
		require.NoError(t, err)
		poll()
	}
	packets := len(held)
	require.Greater(t, packets, 100, "the one holder has its part")
	isModest := func(c ring.Completion) bool { return c.Socket == modest }
	for end := time.Now().Add(testnet.Slow(10 * time.Second)); !slices.ContainsFunc(held, isModest); {
		require.True(t, time.Now().Before(end), "nothing for the modest socket beside %d held packets, all of %s: %v", packets, queue, r.Ledger())
		_, err := toModest.Write([]byte("pass")) // again: a queue without a buffer loses it
		require.NoError(t, err)
		for range 100 {
			poll()
		}
	}
}

// frames is how many frames each queue of v0 has received, by the queue's name.
func (s *shared) frames(r *ring.Ring) map[string]uint64 {
	m := map[string]uint64{}
	for _, c := range r.Stats().Driver {
		if name, ok := strings.CutSuffix(c.Name, ".rx_frames"); ok && strings.HasPrefix(name, "v0/") {
			m[name] = c.Value
		}
	}
	return m
}

// queueOf is the name of the queue that a datagram of the peer's arrives on.
func (s *shared) queueOf(r *ring.Ring, p ringtest.Peer, poll func()) string {
	before := s.frames(r)
	_, err := p.Write([]byte("where"))
	require.NoError(s.t, err)
	for end := time.Now().Add(testnet.Slow(10 * time.Second)); ; poll() {
		for name, n := range s.frames(r) {
			if n > before[name] {
				return name
			}
		}
		require.True(s.t, time.Now().Before(end), "%v", r.Stats().Driver)
	}
}

// dialQueue makes a peer of the socket's whose datagrams arrive on the given queue.
func (s *shared) dialQueue(r *ring.Ring, to *ring.Socket, queue string, poll func()) ringtest.Peer {
	for range 256 {
		p := s.Dial(to.LocalAddr())
		if s.queueOf(r, p, poll) == queue {
			return p
		}
		require.NoError(s.t, p.Close())
	}
	require.FailNow(s.t, fmt.Sprintf("no sender's datagrams arrive on %s", queue))
	return nil
}
