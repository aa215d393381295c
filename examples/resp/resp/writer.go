package resp

import "strconv"

// Writer appends replies to a slice. It belongs to one goroutine.
type Writer struct {
	B       []byte
	Version int // 3: RESP3; anything else: RESP2
}

// Simple appends a status such as OK; s has no line ends.
func (w *Writer) Simple(s string) {
	w.B = append(w.B, '+')
	w.B = append(w.B, s...)
	w.line()
}

// Error appends an error, beginning with its code: "ERR …". Line ends in it become spaces.
func (w *Writer) Error(s string) {
	w.B = append(w.B, '-')
	for i := range len(s) {
		c := s[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		w.B = append(w.B, c)
	}
	w.line()
}

// Int appends an integer.
func (w *Writer) Int(v int64) { w.number(':', v) }

// Bool appends 1 or 0, which is what redis answers with in both versions.
func (w *Writer) Bool(v bool) {
	if v {
		w.Int(1)
	} else {
		w.Int(0)
	}
}

// Bulk appends a string of any bytes.
func (w *Writer) Bulk(b []byte) {
	w.number('$', int64(len(b)))
	w.B = append(w.B, b...)
	w.line()
}

// BulkString is Bulk.
func (w *Writer) BulkString(s string) {
	w.number('$', int64(len(s)))
	w.B = append(w.B, s...)
	w.line()
}

// Null appends "there is none".
func (w *Writer) Null() {
	if w.Version == 3 {
		w.B = append(w.B, "_\r\n"...)
	} else {
		w.B = append(w.B, "$-1\r\n"...)
	}
}

// Array begins an array of n replies.
func (w *Writer) Array(n int) { w.number('*', int64(n)) }

// Set begins a set of n replies, an array in RESP2.
func (w *Writer) Set(n int) {
	if w.Version == 3 {
		w.number('~', int64(n))
	} else {
		w.number('*', int64(n))
	}
}

// Map begins a map of n pairs of replies, an array of twice as many in RESP2.
func (w *Writer) Map(n int) {
	if w.Version == 3 {
		w.number('%', int64(n))
	} else {
		w.number('*', 2*int64(n))
	}
}

// Verbatim appends a text for people, plain in RESP2.
func (w *Writer) Verbatim(s string) {
	if w.Version != 3 {
		w.BulkString(s)
		return
	}
	w.number('=', int64(len(s))+4)
	w.B = append(append(w.B, "txt:"...), s...)
	w.line()
}

func (w *Writer) number(kind byte, v int64) {
	w.B = append(w.B, kind)
	w.B = strconv.AppendInt(w.B, v, 10)
	w.line()
}

func (w *Writer) line() { w.B = append(w.B, '\r', '\n') }
