// Package capture reads UDP payloads out of capture files: pcap with microseconds or nanoseconds, either byte order,
// and pcapng, compressed with gzip or not (the formats of files and of headers are gopacket's), Ethernet with or without VLAN tags,
// IPv4. It also reads Nasdaq's BinaryFILE, which is messages with their lengths and no packets at all.
package capture

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Kind is what a record turned out to be.
type Kind uint8

// The kinds of record.
const (
	UDP       Kind = iota
	Other          // another protocol, or a fragment
	Truncated      // UDP, but the capture has less of it than its length says
)

// Record is one record of a capture file.
type Record struct {
	Kind     Kind
	Time     int64 // ns since 1970, on the capture's clock
	Src, Dst netip.AddrPort
	Payload  []byte // valid until the next call of Next
}

// Reader reads a capture file.
type Reader struct {
	file   io.Closer
	path   string
	in     *position
	zipped bool
	blocks bool // pcapng
	source gopacket.ZeroCopyPacketDataSource
	link   layers.LinkType

	dissector *dissector

	Records, Others, TruncatedRecords uint64
}

// Open opens a capture file.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := New(f)
	if err != nil {
		_ = f.Close() // only read from
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.file, r.path = f, path
	return r, nil
}

// New reads a capture from in. The error of a file that is none is a *FileError.
func New(in io.Reader) (*Reader, error) {
	r := &Reader{in: newPosition(in), dissector: newDissector()}
	if err := r.header(); err != nil {
		return nil, &FileError{Zipped: r.zipped, Err: err}
	}
	return r, nil
}

// header reads the head of a capture file.
func (r *Reader) header() error {
	magic, err := r.in.buf.Peek(2)
	if err != nil {
		return fmt.Errorf("no capture file: %w", err)
	}
	if magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(r.in.buf)
		if err != nil {
			return err
		}
		r.in, r.zipped = newPosition(z), true
	}
	magic, err = r.in.buf.Peek(4)
	if err != nil {
		return fmt.Errorf("no capture file: %w", err)
	}
	if binary.BigEndian.Uint32(magic) == 0x0a0d0d0a {
		ng, err := pcapgo.NewNgReader(r.in.buf, pcapgo.DefaultNgReaderOptions)
		if err != nil {
			return fmt.Errorf("no capture file: %w", err)
		}
		r.source, r.link, r.blocks = ng, ng.LinkType(), true
	} else {
		p, err := pcapgo.NewReader(r.in.buf)
		if err != nil {
			return fmt.Errorf("no capture file: %w", err)
		}
		r.source, r.link = p, p.LinkType()
	}
	if r.link != layers.LinkTypeEthernet {
		return fmt.Errorf("link type %v: only Ethernet is read", r.link)
	}
	return nil
}

// Next reads one record; io.EOF at the end. Other errors are a *FileError that says where; of a file that was cut in a record it is
// io.ErrUnexpectedEOF.
func (r *Reader) Next(rec *Record) error {
	at := r.in.at()
	b, ci, err := r.source.ZeroCopyReadPacketData()
	if err != nil {
		if errors.Is(err, io.EOF) {
			if r.blocks || r.in.at() == at { // pcapng may end with blocks that are no records
				return io.EOF
			}
			err = io.ErrUnexpectedEOF // cut between a record's header and its bytes
		}
		return &FileError{Path: r.path, Record: r.Records + 1, Offset: at, Zipped: r.zipped, Err: err}
	}
	r.Records++
	rec.Time = ci.Timestamp.UnixNano()
	rec.Payload = nil
	rec.Kind = r.dissector.dissect(b, rec)
	switch rec.Kind {
	case Other:
		r.Others++
	case Truncated:
		r.TruncatedRecords++
	}
	return nil
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// BinaryFile calls f with each message of a BinaryFILE stream: a length, big-endian, then the message; a length of zero
// ends it. What it cannot read is a *FileError with the number and place of the message.
func BinaryFile(in io.Reader, f func(message []byte) error) error {
	b := bufio.NewReaderSize(in, 1<<18)
	var head [2]byte
	message := make([]byte, 1<<16)
	where := FileError{Record: 1}
	for ; ; where.Record++ {
		if _, err := io.ReadFull(b, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			where.Err = err
			return &where
		}
		n := int(binary.BigEndian.Uint16(head[:]))
		if n == 0 {
			return nil
		}
		if _, err := io.ReadFull(b, message[:n]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			where.Err = err
			return &where
		}
		where.Offset += int64(2 + n)
		if err := f(message[:n]); err != nil {
			return err
		}
	}
}
