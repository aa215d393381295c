package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
	"github.com/socketxtreme/socketxtreme/feed/pitch"
)

// made is a capture in the making.
type made struct {
	t    *testing.T
	buf  bytes.Buffer
	w    *pcapgo.Writer
	at   time.Time
	path string
}

func newCapture(t *testing.T) *made {
	m := &made{t: t, at: time.Unix(1000, 0), path: filepath.Join(t.TempDir(), "made.pcap")}
	m.w = pcapgo.NewWriterNanos(&m.buf)
	require.NoError(t, m.w.WriteFileHeader(65536, layers.LinkTypeEthernet))
	return m
}

// add writes a packet to a port of group 239.1.1.1, of which the capture keeps all but cut bytes.
func (m *made) add(port uint16, payload []byte, cut int) {
	b := append(make([]byte, 12), 8, 0)
	n := 28 + len(payload)
	b = append(b, 0x45, 0, byte(n>>8), byte(n), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 239, 1, 1, 1, 16, 0, byte(port>>8),
		byte(port), byte((n-20)>>8), byte(n-20), 0, 0)
	b = append(b, payload...)
	m.at = m.at.Add(time.Millisecond)
	info := gopacket.CaptureInfo{Timestamp: m.at, CaptureLength: len(b) - cut, Length: len(b)}
	require.NoError(m.t, m.w.WritePacket(info, b[:len(b)-cut]))
}

func (m *made) run(c Config) (*Offline, Summary) {
	require.NoError(m.t, os.WriteFile(m.path, m.buf.Bytes(), 0o600))
	o, err := OpenOffline(m.path, c)
	require.NoError(m.t, err)
	require.NoError(m.t, o.Run())
	s := o.Summary()
	invariants(m.t, s)
	return o, s
}

// deepAt is a DEEP packet with one level, sent at a time.
func deepAt(seq uint64, session uint32, sent int64) []byte {
	b := iextp.AppendHeader(nil, iextp.Segment{Protocol: iextp.DEEP10, Channel: 1, Session: session, Seq: seq,
		SendTime: sent})
	b = iextp.AppendMessage(b, deep.PriceLevel{Buy: true, Complete: true, Symbol: feed.SymbolOf("AA"), Size: 1,
		Price: int64(seq)}.Append(nil))
	iextp.Finish(b, 1)
	return b
}

func TestATruncatedRecordIsLostOnItsLineOnly(t *testing.T) {
	m := newCapture(t)
	for seq := uint64(1); seq <= 20; seq++ {
		cut := 0
		if seq == 7 {
			cut = 5
		}
		m.add(100, deepAt(seq, 1, int64(seq)), cut)
		m.add(200, deepAt(seq, 1, int64(seq)), 0)
	}
	_, s := m.run(Config{Feed: feed.Config{GapTime: int64(time.Second)}})
	require.Equal(t, uint64(1), s.Capture.Truncated)
	require.Len(t, s.Channels, 1, "two lines with one session are one channel")
	require.Equal(t, uint64(20), s.Channels[0].Messages)
	require.Equal(t, uint64(1), s.Channels[0].Lines[0].Malformed)
	require.Equal(t, uint64(1), s.Channels[0].Lines[0].Lost)
	require.Equal(t, "SYNC", s.Channels[0].State)
}

// A file that was cut is handled as far as it goes, and then named with the place.
func TestACutCaptureIsHandledAndNamed(t *testing.T) {
	m := newCapture(t)
	for seq := uint64(1); seq <= 20; seq++ {
		m.add(100, deepAt(seq, 1, int64(seq)), 0)
		m.add(200, deepAt(seq, 1, int64(seq)), 0)
	}
	whole := m.buf.Bytes()
	last := len(whole) - 16 - 42 - len(deepAt(20, 1, 20))
	require.NoError(t, os.WriteFile(m.path, whole[:len(whole)-1], 0o600))
	o, err := OpenOffline(m.path, Config{})
	require.NoError(t, err)
	err = o.Run()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.EqualError(t, err, fmt.Sprintf("%s: record 40 at byte %d: unexpected EOF", m.path, last))
	s := o.Summary()
	require.Equal(t, uint64(39), s.Capture.Records)
	require.Equal(t, uint64(20), s.Channels[0].Messages)
	require.Equal(t, "SYNC", s.Channels[0].State)

	path := filepath.Join(t.TempDir(), "cut.bin")
	require.NoError(t, os.WriteFile(path, []byte{0, 5, 'S'}, 0o600))
	o, err = OpenOffline(path, Config{})
	require.NoError(t, err)
	require.EqualError(t, o.Run(), path+": record 1 at byte 0: unexpected EOF")
}

func TestManyRestartsInOneCapture(t *testing.T) {
	m := newCapture(t)
	sent := int64(0)
	for restart := range 100 {
		sent += int64(10 * time.Second)
		n := uint64(5 + restart%7)
		for seq := uint64(1); seq <= n; seq++ {
			m.add(100, deepAt(seq, 1, sent+int64(seq)), 0)
		}
	}
	o, s := m.run(Config{Feed: feed.Config{EpochStart: 1}})
	require.Len(t, s.Channels[0].Epochs, 100)
	require.Equal(t, 5+99%7, Tops(o.Channels...)[0].BidLevels, "only the last epoch's levels are left")
	require.Empty(t, s.Channels[0].Gaps.Unrecovered)
}

func TestUnroutedAndUnknown(t *testing.T) {
	m := newCapture(t)
	for seq := uint64(1); seq <= 3; seq++ {
		m.add(100, deepAt(seq, 1, int64(seq)), 0)
		m.add(53, []byte("somebody else's"), 0)
	}
	_, s := m.run(Config{})
	require.Equal(t, uint64(3), s.Capture.Unrouted)
	_, err := OpenOffline(m.path, Config{Proto: MDP3})
	require.ErrorContains(t, err, "no packet of a known protocol")
	var b bytes.Buffer
	require.NoError(t, s.WriteJSON(&b))
	var back map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	for _, k := range []string{"channels", "books", "latency", "clock", "capture"} {
		require.Contains(t, back, k)
	}
}

func TestRecognize(t *testing.T) {
	require.Equal(t, DEEP, Recognize(deepAt(1, 1, 1)))
	tops := deepAt(1, 1, 1)
	tops[2] = 3
	require.Equal(t, TOPS, Recognize(tops))
	tops[2] = 9
	require.Equal(t, Auto, Recognize(tops))
	require.Equal(t, MoldUDP64, Recognize(moldudp64.AppendHeader(nil, "000010059B", 1, 0)))
	require.Equal(t, PITCH, Recognize([]byte{pitch.HeaderLen, 0, 0, 1, 1, 0, 0, 0}))
	require.Equal(t, Auto, Recognize(nil))
	require.Equal(t, Auto, Recognize([]byte("GET / HTTP/1.1\r\n\r\n")))
	for p := Auto; p <= ITCH; p++ {
		got, err := ParseProto(p.String())
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	_, err := ParseProto("fix")
	require.ErrorContains(t, err, `"fix"`)
}

// FuzzInput gives a channel of each protocol whatever comes: nothing panics, and the ledger holds.
func FuzzInput(f *testing.F) {
	f.Add(uint8(DEEP), levelPacket(1, 3))
	f.Add(uint8(MoldUDP64), moldudp64.AppendMessage(moldudp64.AppendHeader(nil, "S", 1, 1), []byte("D23456789012345678")))
	f.Add(uint8(PITCH), []byte{22, 0, 1, 1, 9, 0, 0, 0, 14, pitch.TypeDeleteOrder, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(uint8(MDP3), []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 12, 0, 1, 0, 8, 0})
	channels := map[Proto]*Channel{}
	for p := Auto; p < ITCH; p++ {
		c, err := NewChannel(Config{Proto: p, Lines: feedLines, Symbols: 64, Levels: 256, Orders: 64,
			Feed: feed.Config{CopyBytes: 512, GapTime: 10}})
		require.NoError(f, err)
		channels[p] = c
	}
	now := int64(0)
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		now++
		c := channels[Proto(kind)%ITCH]
		c.Input(kind>>7, b, now, Ref{})
		s := c.Stats()
		require.LessOrEqual(t, s.Next, s.High)
	})
}
