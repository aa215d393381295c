package replay

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/capture"
	"github.com/socketxtreme/socketxtreme/feed/itch"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// source is where packets come from.
type source interface {
	Next(*capture.Record) error
	Close() error
}

// openSource opens a capture, sorted by time, or a BinaryFILE.
func openSource(path string) (source, error) {
	if filepath.Ext(path) == ".bin" {
		return openBinary(path)
	}
	r, err := capture.Open(path)
	if err != nil {
		return nil, err
	}
	return struct {
		*capture.Sorted
		io.Closer
	}{capture.NewSorted(r, 32), r}, nil
}

const (
	binarySession  = "BINARYFILE"
	binaryMessages = 4 // in a packet
)

// binaryFile is a BinaryFILE, whose transport was stripped, as MoldUDP64 packets again: a session of its own, from 1
// on.
type binaryFile struct {
	packets [][]byte
	times   []int64
	at      int
}

// openBinary reads a BinaryFILE and makes MoldUDP64 packets of its messages.
func openBinary(path string) (*binaryFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read from
	b := &binaryFile{}
	seq, n := uint64(1), 0
	var p []byte
	end := func() {
		if n > 0 {
			moldudp64.SetCount(p, n)
			b.packets = append(b.packets, p)
			seq += uint64(n)
			n = 0
		}
	}
	err = capture.BinaryFile(f, func(m []byte) error {
		if n == 0 {
			p = moldudp64.AppendHeader(nil, binarySession, seq, 0)
			at := int64(0)
			if h, err := itch.ParseHeader(m); err == nil {
				at = h.Time
			}
			b.times = append(b.times, at)
		}
		p = moldudp64.AppendMessage(p, m)
		if n++; n == binaryMessages {
			end()
		}
		return nil
	})
	end()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Next gives one packet.
func (b *binaryFile) Next(rec *capture.Record) error {
	if b.at == len(b.packets) {
		return io.EOF
	}
	*rec = capture.Record{Kind: capture.UDP, Time: b.times[b.at], Payload: b.packets[b.at]}
	b.at++
	return nil
}

// Close has nothing to close.
func (b *binaryFile) Close() error { return nil }
