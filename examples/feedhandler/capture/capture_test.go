package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
)

// frame is an Ethernet frame with a UDP payload behind so many VLAN tags.
func frame(payload string, tags int) []byte {
	b := make([]byte, 12)
	for range tags {
		b = append(b, 0x81, 0, 0, 7)
	}
	b = append(b, 8, 0)
	ip := []byte{0x45, 0, 0, byte(28 + len(payload)), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 239, 1, 1, 1}
	udp := []byte{0x10, 0x00, 0x20, 0x00, 0, byte(8 + len(payload)), 0, 0}
	return append(append(append(b, ip...), udp...), payload...)
}

func info(at time.Time, f []byte) gopacket.CaptureInfo {
	return gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(f), Length: len(f)}
}

// file is a pcap of frames, a microsecond apart.
func file(t testing.TB, nanos bool, frames ...[]byte) []byte {
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if nanos {
		w = pcapgo.NewWriterNanos(&b)
	}
	require.NoError(t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
	for i, f := range frames {
		require.NoError(t, w.WritePacket(info(time.Unix(100, int64(i)*1000+7), f), f))
	}
	return b.Bytes()
}

// all reads a capture to its end.
func all(t testing.TB, b []byte) (payloads []string, kinds []Kind, times []int64, err error) {
	r, err := New(bytes.NewReader(b))
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { require.NoError(t, r.Close()) }()
	var rec Record
	for {
		if err := r.Next(&rec); errors.Is(err, io.EOF) {
			return payloads, kinds, times, nil
		} else if err != nil {
			return payloads, kinds, times, err
		}
		payloads, kinds, times = append(payloads, string(rec.Payload)), append(kinds, rec.Kind), append(times, rec.Time)
	}
}

func TestFormats(t *testing.T) {
	frames := [][]byte{frame("one", 0), frame("two", 1), frame("three", 2)}
	var ng bytes.Buffer
	w, err := pcapgo.NewNgWriter(&ng, layers.LinkTypeEthernet)
	require.NoError(t, err)
	for i, f := range frames {
		require.NoError(t, w.WritePacket(info(time.Unix(100, int64(i)*1000+7), f), f))
	}
	require.NoError(t, w.Flush())
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	_, err = g.Write(file(t, true, frames...))
	require.NoError(t, err)
	require.NoError(t, g.Close())
	for name, c := range map[string]struct {
		b    []byte
		last int64
	}{"micro": {file(t, false, frames...), 100e9 + 2000}, "nano": {file(t, true, frames...), 100e9 + 2007},
		"gzip": {z.Bytes(), 100e9 + 2007}, "ng": {ng.Bytes(), 100e9 + 2007}} {
		payloads, kinds, times, err := all(t, c.b)
		require.NoError(t, err, name)
		require.Equal(t, []string{"one", "two", "three"}, payloads, name)
		require.Equal(t, []Kind{UDP, UDP, UDP}, kinds, name)
		require.Equal(t, c.last, times[2], name)
	}
}

func TestDissecting(t *testing.T) {
	change := func(at int, v byte) []byte {
		b := frame("hello", 0)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		b       []byte
		kind    Kind
		payload string
	}{
		"whole":             {frame("hello", 0), UDP, "hello"},
		"padding":           {append(frame("hello", 0), 0, 0, 0), UDP, "hello"},
		"TCP":               {change(14+9, 6), Other, ""},
		"IPv6":              {change(12, 0x86), Other, ""},
		"a fragment":        {change(14+6, 0x20), Other, ""},
		"header too short":  {change(14, 0x41), Other, ""},
		"UDP length 3":      {change(14+20+5, 3), Other, ""},
		"cut in the frame":  {frame("hello", 0)[:44], Truncated, "he"},
		"cut in the header": {frame("hello", 0)[:30], Other, ""},
		"cut in a tag":      {frame("hello", 1)[:15], Other, ""},
		"tiny":              {[]byte{1, 2, 3}, Other, ""},
		"UDP length 0":      {change(14+20+5, 0), UDP, "hello"},
	} {
		var rec Record
		require.Equal(t, c.kind, newDissector().dissect(c.b, &rec), name)
		if c.kind != Other {
			require.Equal(t, c.payload, string(rec.Payload), name)
			require.Equal(t, netip.MustParseAddrPort("239.1.1.1:8192"), rec.Dst, name)
		}
	}
}

func TestACutFileEndsWhereItWasCut(t *testing.T) {
	b := file(t, true, frame("one", 0), frame("two", 0))
	second := 24 + 16 + len(frame("one", 0))
	path := filepath.Join(t.TempDir(), "cut.pcap")
	for _, cut := range []int{second + 1, second + 15, second + 16, second + 17, len(b) - 1} {
		payloads, _, _, err := all(t, b[:cut])
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d", cut)
		require.Equal(t, []string{"one"}, payloads)
		require.NoError(t, os.WriteFile(path, b[:cut], 0o600))
		r, err := Open(path)
		require.NoError(t, err)
		var rec Record
		require.NoError(t, r.Next(&rec))
		require.EqualError(t, r.Next(&rec), fmt.Sprintf("%s: record 2 at byte %d: unexpected EOF", path, second))
		require.NoError(t, r.Close())
	}
	payloads, _, _, err := all(t, b[:second])
	require.NoError(t, err, "cut between records is whole")
	require.Equal(t, []string{"one"}, payloads)

	// A record that cannot be: its length is longer than the packet was.
	bad := bytes.Clone(b)
	binary.LittleEndian.PutUint32(bad[second+8:], 9999)
	_, _, _, err = all(t, bad)
	require.ErrorContains(t, err, fmt.Sprintf("record 2 at byte %d: capture length exceeds", second))
	require.NotErrorIs(t, err, io.ErrUnexpectedEOF)

	// Compressed: the place is that of what is in it.
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	_, err = g.Write(b)
	require.NoError(t, err)
	require.NoError(t, g.Flush())
	_, _, _, err = all(t, z.Bytes())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, fmt.Sprintf("record 3 at byte %d after decompression", len(b)))

	// Files of something else.
	for name, b := range map[string][]byte{"short": b[:3], "header cut": b[:20], "text": []byte("neither pcap nor anything else, but long enough"),
		"ELF": append([]byte{0x7f, 'E', 'L', 'F'}, make([]byte, 100)...), "pcapng that is none": append([]byte{10, 13, 13, 10}, make([]byte, 60)...),
		"empty": nil, "gzip that is none": {0x1f, 0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		_, err = Open(path)
		require.ErrorContains(t, err, path+": header at byte 0", name)
		var place *FileError
		require.ErrorAs(t, err, &place, name)
		require.Zero(t, place.Record)
	}
	_, err = Open(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	binary.LittleEndian.PutUint32(b[20:], 101) // raw IP
	_, err = New(bytes.NewReader(b))
	require.ErrorContains(t, err, "only Ethernet")
}

func TestSorting(t *testing.T) {
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	require.NoError(t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
	for i, at := range []int64{5, 3, 9, 9, 1, 20, 15} {
		f := frame(string(rune('a'+i)), 0)
		require.NoError(t, w.WritePacket(info(time.Unix(0, at), f), f))
	}
	r, err := New(&b)
	require.NoError(t, err)
	s := NewSorted(r, 3)
	got := ""
	var rec Record
	for s.Next(&rec) == nil {
		got += string(rec.Payload)
	}
	require.Equal(t, "beacdgf", got, "sorted within the look-ahead, equal times in file order, later ones when they come")
	require.ErrorIs(t, s.Next(&rec), io.EOF)
}

func TestBinaryFile(t *testing.T) {
	var got []string
	f := func(m []byte) error { got = append(got, string(m)); return nil }
	require.NoError(t, BinaryFile(bytes.NewReader([]byte{0, 2, 'a', 'b', 0, 1, 'c', 0, 0, 0, 1, 'd'}), f))
	require.Equal(t, []string{"ab", "c"}, got, "a length of zero is the end")
	for _, b := range [][]byte{{0, 1, 'x', 0, 2, 'a'}, {0, 1, 'x', 0, 2}, {0, 1, 'x', 0}} {
		err := BinaryFile(bytes.NewReader(b), f)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.EqualError(t, err, "record 2 at byte 3: unexpected EOF")
	}
	require.ErrorIs(t, BinaryFile(bytes.NewReader([]byte{0, 1, 'a'}), func([]byte) error { return io.ErrClosedPipe }),
		io.ErrClosedPipe)
}

func FuzzDissect(f *testing.F) {
	f.Add(frame("hello", 0))
	f.Add(frame("hello", 2))
	d := newDissector()
	f.Fuzz(func(t *testing.T, b []byte) {
		var rec Record
		if d.dissect(b, &rec) != Other {
			require.LessOrEqual(t, len(rec.Payload), len(b))
		}
	})
}
