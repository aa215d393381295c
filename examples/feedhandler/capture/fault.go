package capture

import (
	"bufio"
	"fmt"
	"io"
)

// FileError is what is wrong with a capture file, and where.
type FileError struct {
	Path   string // empty when the capture was not opened by its name
	Record uint64 // the first is 1; 0: the file's header
	Offset int64  // of the record, in bytes of the file, or of what it holds when it is compressed
	Zipped bool
	Err    error // io.ErrUnexpectedEOF: the file was cut here
}

// Error names file, record and place.
func (e *FileError) Error() string {
	what := "header"
	if e.Record > 0 {
		what = fmt.Sprint("record ", e.Record)
	}
	text := fmt.Sprintf("%s at byte %d: %v", what, e.Offset, e.Err)
	if e.Zipped {
		text = fmt.Sprintf("%s at byte %d after decompression: %v", what, e.Offset, e.Err)
	}
	if e.Path == "" {
		return text
	}
	return e.Path + ": " + text
}

// Unwrap gives the reader's error.
func (e *FileError) Unwrap() error { return e.Err }

// position knows how far a file was read, behind a buffer that reads ahead.
type position struct {
	from io.Reader
	n    int64
	buf  *bufio.Reader
}

func newPosition(from io.Reader) *position {
	p := &position{from: from}
	p.buf = bufio.NewReaderSize(p, 1<<18)
	return p
}

// Read is for the buffer.
func (p *position) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.n += int64(n)
	return n, err
}

// at is the place of the next byte that the buffer gives. pcapgo reads from the buffer itself: one of this size is not wrapped in another.
func (p *position) at() int64 { return p.n - int64(p.buf.Buffered()) }
