package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// message is a message of sockperf's client.
func message(seq uint64, flags uint16, length int) []byte {
	m := make([]byte, length)
	for i := range m {
		m[i] = byte(seq) + byte(i)
	}
	binary.BigEndian.PutUint64(m, seq)
	binary.BigEndian.PutUint16(m[8:], flags)
	binary.BigEndian.PutUint32(m[10:], uint32(length))
	return m
}

// answered is the message as the server sends it back.
func answered(m []byte) []byte {
	a := append([]byte(nil), m...)
	binary.BigEndian.PutUint16(a[8:], binary.BigEndian.Uint16(m[8:])&^flagClient)
	return a
}

func sockperfServer(t *testing.T, kind conf.RingKind) string {
	return serving(t, kind, func(c *config) { c.reply = "sockperf" }).String()
}

func TestAnswer(t *testing.T) {
	for flags, want := range map[uint16]bool{
		flagClient | flagPong: true, flagClient: false, flagPong: false, 0: false, flagClient | flagPong | flagWarmUp: false,
		flagClient | flagPong | 1<<3: true,
	} {
		m := message(7, flags, 20)
		require.Equal(t, want, answer(m), "flags %#x", flags)
		if want {
			require.Equal(t, answered(message(7, flags, 20)), m)
		} else {
			require.Equal(t, message(7, flags, 20), m, "left alone")
		}
	}
}

// However the stream is cut, each whole message gets its answer, and those that want none get none.
func TestSockperfFraming(t *testing.T) {
	var stream, want []byte
	for i, length := range []int{14, 64, 15, 1472, 14, 20_000, 65_507, 64, 5000} {
		for _, flags := range []uint16{flagClient | flagPong, flagClient, flagClient | flagPong | flagWarmUp} {
			m := message(uint64(i), flags, length)
			stream = append(stream, m...)
			if flags == flagClient|flagPong {
				want = append(want, answered(m)...)
			}
		}
	}
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		a := sockperfServer(t, kind)
		for name, cut := range map[string]func(sent, turn int) (piece int, pause time.Duration){
			"at once":      func(int, int) (int, time.Duration) { return len(stream), 0 },
			"pieces of 7":  func(int, int) (int, time.Duration) { return 7, 0 },
			"within heads": func(_, turn int) (int, time.Duration) { return []int{9, 3, 1, 500}[turn%4], 0 },
			"apart": func(sent, _ int) (int, time.Duration) {
				if sent < 40 {
					return 1, time.Millisecond // each byte of the first heads is a segment of its own
				}
				return 30_000, time.Millisecond
			},
		} {
			t.Run(name, func(t *testing.T) {
				c := dial(t, "tcp", a)
				go func() {
					for sent, turn := 0, 0; sent < len(stream); turn++ {
						n, pause := cut(sent, turn)
						n = min(n, len(stream)-sent)
						if _, err := c.Write(stream[sent : sent+n]); err != nil {
							return // the reader below sees it
						}
						sent += n
						time.Sleep(pause)
					}
					_ = c.(*net.TCPConn).CloseWrite()
				}()
				got, err := io.ReadAll(c)
				require.NoError(t, err)
				require.True(t, string(want) == string(got), "got %d bytes, want %d", len(got), len(want))
			})
		}
	})
}

// A length that cannot be ends the connection, before or after good messages, alone or with more behind it; others go on.
func TestSockperfInvalidLength(t *testing.T) {
	good := message(1, flagClient|flagPong, 64)
	bad := func(length uint32) []byte {
		m := message(2, flagClient|flagPong, 64)
		binary.BigEndian.PutUint32(m[10:], length)
		return m
	}
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		a := sockperfServer(t, kind)
		healthy := dial(t, "tcp", a)
		for _, length := range []uint32{0, 1, 13, 65_508, 1 << 31, 1<<32 - 1} {
			c := dial(t, "tcp", a)
			_, err := c.Write(good)
			require.NoError(t, err)
			_, err = io.ReadFull(c, make([]byte, len(good)))
			require.NoError(t, err)
			_, err = c.Write(append(bad(length), good...))
			require.NoError(t, err)
			n, err := c.Read(make([]byte, 100))
			require.Zero(t, n, "length %d", length)
			require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "length %d: %v", length, err)

			_, err = healthy.Write(good)
			require.NoError(t, err)
			got := make([]byte, len(good))
			_, err = io.ReadFull(healthy, got)
			require.NoError(t, err)
			require.Equal(t, answered(good), got)
		}
	})
}

// A client that wants answers and never reads them is cut off, and costs no memory.
func TestSockperfClientThatDoesNotRead(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		a := sockperfServer(t, kind)
		c := dial(t, "tcp", a)
		m := make([]byte, 0, 1<<20)
		for len(m)+5000 <= cap(m) {
			m = append(m, message(1, flagClient|flagPong, 5000)...)
		}
		var err error
		for i := 0; err == nil && i < 1000; i++ {
			_, err = c.Write(m)
		}
		require.Error(t, err)
		require.NotErrorIs(t, err, syscall.ETIMEDOUT)
	})
}

func TestSockperfDatagrams(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		u := dial(t, "udp", sockperfServer(t, kind))
		for _, m := range [][]byte{{}, []byte("short"), message(1, flagClient, 64), message(2, flagPong, 64),
			message(3, flagClient|flagPong|flagWarmUp, 64), message(4, flagClient|flagPong, 1000), message(5, flagClient|flagPong, 14)} {
			_, err := u.Write(m)
			require.NoError(t, err)
		}
		got := make([]byte, 2000)
		for _, want := range [][]byte{message(4, flagClient|flagPong, 1000), message(5, flagClient|flagPong, 14)} {
			n, err := u.Read(got)
			require.NoError(t, err)
			require.Equal(t, answered(want), got[:n])
		}
		require.NoError(t, u.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := u.Read(got)
		require.Error(t, err, "the others want no answer")
	})
}
