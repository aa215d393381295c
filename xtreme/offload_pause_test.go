package xtreme_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// kernelLosses are the frames that AF_XDP had no room for (XDP_STATISTICS), over all queues of a ring.
func kernelLosses(s *xtreme.Socket) (total uint64, text string) {
	for _, c := range s.Ring().Stats().Driver {
		for _, name := range []string{".xdp.rx_dropped", ".xdp.rx_ring_full", ".xdp.rx_fill_ring_empty_descs"} {
			if strings.HasSuffix(c.Name, name) {
				total += c.Value
				text += fmt.Sprintf(" %s=%d", c.Name, c.Value)
			}
		}
	}
	return total, text
}

// A goroutine that does not poll for 100 ms at 24,000 frames a second loses nothing with the buffers that a poller has by default; with
// more of them a pause may be longer. The sender's count and the kernel's counters judge.
func TestPauseLosesNothing(t *testing.T) {
	for _, test := range []struct{ small, frames int }{{conf.Default().SmallBuffers, 2400}, {16384, 8000}} {
		t.Run(fmt.Sprintf("%d buffers", test.small), func(t *testing.T) {
			w := newCabled(t)
			w.engine = w.newEngine(func(s *conf.Settings) { s.SmallBuffers = test.small })
			x := w.other(w.newPoller("pauses"))
			s := x.udp(w.at(0))
			w.Equal("bypass", s.Path().Tier, s.Path())
			peer := w.net.Dial(s.LocalAddr())
			next, message := uint64(0), make([]byte, 64)
			for pause := range 3 {
				for i := range test.frames {
					binary.BigEndian.PutUint64(message, uint64(pause*test.frames+i))
					_, err := peer.Write(message)
					w.NoError(err)
				}
				quiet := time.Now()
				for next < uint64((pause+1)*test.frames) && time.Since(quiet) < 2*time.Second {
					if x.poll() > 0 {
						quiet = time.Now()
					}
					for i := range x.kept {
						c := &x.kept[i]
						w.False(c.ViaKernel, "by the kernel")
						w.Equal(next, binary.BigEndian.Uint64(c.Packet.Bytes()), "the kernel counts%v", lossText(s))
						w.NoError(c.Packet.Release())
						next++
					}
					x.kept = x.kept[:0]
				}
				w.EqualValues((pause+1)*test.frames, next, "the kernel counts%v", lossText(s))
			}
			lost, text := kernelLosses(s)
			w.Zero(lost, text)
		})
	}
}

func lossText(s *xtreme.Socket) string {
	_, text := kernelLosses(s)
	return text
}

// Receiving never takes the last buffers: an application that keeps all that comes can still answer, by Send and by Alloc and SendPacket.
func TestReceivingLeavesBuffersForSending(t *testing.T) {
	w := newCabled(t)
	pool := w.poller.Pool()
	small := pool.Layout().SmallCount
	var sockets []*xtreme.Socket // several: one alone would be stopped by its budget
	var peers []*net.UDPConn
	for range 8 {
		sockets = append(sockets, w.udp(w.at(0)))
		peers = append(peers, w.net.Dial(sockets[len(sockets)-1].LocalAddr()))
	}
	for i := range 4 * small {
		w.write(peers[i%len(peers)], "kept")
		w.poll()
	}
	for range 100 {
		w.poll()
	}
	w.Greater(len(w.kept), small/2, "most of the pool is held: %v", pool.Ledger())
	const answers = 64
	to := peers[0].LocalAddr().(*net.UDPAddr).AddrPort()
	for i := range answers {
		_, err := sockets[0].SendTo([]byte("answer"), to)
		w.NoError(err, "answer %d, %v", i, pool.Ledger())
	}
	p, err := pool.Alloc(100)
	w.NoError(err, "%v", pool.Ledger())
	w.NoError(p.Release())
	w.Positive(pool.Free(buffers.Small))
	w.NoError(w.poller.Flush())
	b := make([]byte, 16)
	for range answers {
		_, err := peers[0].Read(b)
		w.NoError(err)
	}
}
