package xdp

import (
	"fmt"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// In native mode a veth spreads flows over its queues; each queue is a link over its own pool.
func TestFourQueues(t *testing.T) {
	w := newWorld(t, 4, 1500)
	d := w.device(Config{Mode: ModeNative})
	w.Equal([]int{0, 1, 2, 3}, d.Queues())
	var queues []*Queue
	for _, i := range d.Queues() {
		queues = append(queues, w.open(d, i))
	}
	w.NoError(d.Claim(udp4000))
	const flows, each = 64, 5
	for i := range flows {
		peer := w.peer("10.0.0.2:0")
		for k := range each {
			w.sendTo(peer, "10.0.0.1:4000", fmt.Sprint(i, " ", k))
		}
	}
	last, on := map[string]int{}, map[string]int{}
	got, busy := 0, map[int]bool{}
	for end := time.Now().Add(patience); got < flows*each; {
		w.True(time.Now().Before(end), "%d of %d", got, flows*each)
		for i, q := range queues {
			for _, f := range w.dst[:q.Receive(w.dst[:])] {
				s, from := datagram(&f)
				w.NoError(f.Packet.Release())
				var flow, k int
				_, err := fmt.Sscan(s, &flow, &k)
				w.NoError(err)
				w.Equal(last[from.String()], k, "in order within a flow")
				if k == 0 {
					on[from.String()] = i
				}
				w.Equal(on[from.String()], i, "on one queue")
				last[from.String()]++
				got++
				busy[i] = true
			}
		}
	}
	w.Greater(len(busy), 1, "all came to one queue")
	w.Zero(w.counter(queues[0], "steer.no_queue"))
	// A queue that is closed gives its share to the kernel.
	shadow := w.listen("10.0.0.1:4000")
	for _, q := range queues {
		w.NoError(q.Close())
	}
	w.sendTo(w.peer("10.0.0.2:0"), "10.0.0.1:4000", "to the kernel")
	w.Equal("to the kernel", w.read(shadow))
}

// In generic mode frames arrive on several queues too; here one owner has all of them, over one pool.
func TestGenericQueues(t *testing.T) {
	w := newWorld(t, 4, 1500)
	d := w.device(Config{Fill: 64})
	w.Equal("generic", d.Path().Mode)
	w.Equal([]int{0, 1, 2, 3}, d.Queues())
	_, err := d.OpenQueue(4, w.pool())
	w.ErrorContains(err, "queue 4 is not one of [0 1 2 3]")
	pool := w.pool()
	var queues []*Queue
	for _, i := range d.Queues() {
		q, err := d.OpenQueue(i, pool)
		w.NoError(err)
		queues = append(queues, q)
	}
	w.Equal(4*64, pool.Ledger().Filling)
	w.NoError(d.Claim(udp4000))
	for i := range 64 {
		w.sendTo(w.peer("10.0.0.2:0"), "10.0.0.1:4000", fmt.Sprint(i))
		got := ""
		for end := time.Now().Add(patience); got == ""; {
			w.True(time.Now().Before(end), "%v", counters(d.program))
			for _, q := range queues {
				if q.Receive(w.dst[:1]) == 1 {
					got, _ = datagram(&w.dst[0])
					w.NoError(w.dst[0].Packet.Release())
				}
			}
		}
		w.Equal(fmt.Sprint(i), got)
	}
	// Every queue sends.
	peer := w.peer("10.0.0.2:5000")
	for i, q := range queues {
		w.send(q, "10.0.0.1:4000", "10.0.0.2:5000", fmt.Sprint("from queue ", i), 0)
		w.Equal(fmt.Sprint("from queue ", i), w.read(peer))
		w.complete(q)
	}
	for _, q := range queues {
		w.NoError(q.Close())
	}
	w.Equal(pool.Ledger().Total, pool.Ledger().Free)
	w.NoError(pool.Verify())
}

// Links at both ends of a veth, both ways, on every queue: what a queue sends arrives, and on a queue that is open.
func TestLinkToLink(t *testing.T) {
	for _, mode := range []Mode{ModeGeneric, ModeNative} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, 4, 1500)
			var pools [2]*buffers.DriverPool
			var queues [2][]*Queue
			for i, name := range []string{"v0", "v1"} {
				pools[i] = w.pool()
				open := func() {
					d := w.device(Config{Interface: name, Mode: mode, Fill: 32})
					w.NoError(d.Claim(Flow{Protocol: link.UDP, Local: ap([]string{ours, theirs}[i] + ":4000")}))
					for _, k := range d.Queues() {
						q, err := d.OpenQueue(k, pools[i])
						w.NoError(err)
						queues[i] = append(queues[i], q)
					}
				}
				if i == 0 {
					open()
				} else {
					w.inPeer(open)
				}
			}
			took := map[string]int{}
			for round := range 200 {
				from, to := round%2, 1-round%2
				k := round / 2 % 4
				src, dst := ours, theirs
				if from == 1 {
					src, dst = dst, src
				}
				text := fmt.Sprint("round ", round)
				w.send(queues[from][k], src+":4000", dst+":4000", text, 0)
				got := ""
				for end := time.Now().Add(patience); got == ""; {
					w.True(time.Now().Before(end), "round %d", round)
					for _, q := range queues[to] {
						if q.Receive(w.dst[:1]) == 1 {
							got, _ = datagram(&w.dst[0])
							w.NoError(w.dst[0].Packet.Release())
							took[fmt.Sprintf("%d to %d", k, q.Info().Queue)]++
						}
					}
				}
				w.Equal(text, got)
				w.complete(queues[from][k])
			}
			if mode == ModeNative {
				w.Equal(map[string]int{"0 to 0": 50, "1 to 1": 50, "2 to 2": 50, "3 to 3": 50}, took)
			}
			t.Log("sending queue to receiving queue: ", took)
			for i := range queues {
				for _, q := range queues[i] {
					w.NoError(q.Close())
				}
				w.Equal(pools[i].Ledger().Total, pools[i].Ledger().Free)
			}
		})
	}
}

// Two of four queues are open: what comes in on the others is the kernel's and is counted. A veth takes no rules that would help.
func TestStrayed(t *testing.T) {
	w := newWorld(t, 4, 1500)
	d := w.device(Config{Mode: ModeNative, Queues: []int{1, 3}, Rules: true, RulesDir: t.TempDir()})
	w.True(d.Path().Has(ReasonNoRules), "%v", d.Path())
	refused(t, d.Steer(udp4000, 1), ReasonNoRules)
	w.ErrorIs(d.Unsteer(udp4000), ErrNoClaim)
	queues := []*Queue{w.open(d, 1), w.open(d, 3)}
	shadow := w.listen("10.0.0.1:4000")
	w.NoError(d.Claim(udp4000))
	const flows = 64
	for i := range flows {
		w.sendTo(w.peer("10.0.0.2:0"), "10.0.0.1:4000", fmt.Sprint(i))
	}
	fast, slow := 0, 0
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		for _, q := range queues {
			for _, f := range w.dst[:q.Receive(w.dst[:])] {
				w.NoError(f.Packet.Release())
				fast++
			}
		}
	}
	for range flows - fast {
		w.read(shadow)
		slow++
	}
	w.Greater(fast, 0)
	w.Greater(slow, 0)
	w.EqualValues(slow, d.Strayed())
	w.Zero(d.Strayed())
}

func TestQueueArguments(t *testing.T) {
	w := newWorld(t, 2, 1500)
	for want, queues := range map[string][]int{
		"Queues[1] is 2, v0 has 0 to 1":          {0, 2},
		"Queues[0] is -1":                        {-1},
		"Queues[2] is 0, which is there already": {0, 1, 0},
	} {
		_, err := Open(Config{Interface: "v0", Queues: queues})
		w.ErrorContains(err, want)
	}
	d := w.device(Config{Queues: []int{1}})
	w.Equal([]int{1}, d.Queues())
	_, err := d.OpenQueue(1, nil)
	w.ErrorContains(err, "pool is nil")
	for _, l := range []buffers.Layout{
		{SmallSize: 1000, SmallCount: 10}, {SmallSize: 5000, SmallCount: 10}, {LargeSize: 3000, LargeCount: 10},
	} {
		p, err := buffers.New(make([]byte, l.Bytes()), l)
		w.NoError(err)
		_, err = d.OpenQueue(1, p)
		w.ErrorContains(err, "the kernel takes 2048 to 4096")
	}
	d.config.Copy = CopyNever
	_, err = d.OpenQueue(1, w.pool())
	refused(t, err, ReasonNoZeroCopy)
	d.config.Copy = CopyAlways
	q := w.open(d, 1)
	w.False(q.Path().Has(ReasonNoZeroCopy), "it was not wanted")
}
