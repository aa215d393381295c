package resp

import "bytes"

// inline reads a command typed as a line.
func (p *Parser) inline(b []byte, args [][]byte) (out [][]byte, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 && len(b) <= p.limits.Line {
		p.need = len(b) + 1
		return args, 0, nil
	}
	if end < 0 || end > p.limits.Line {
		return args, 0, ProtocolError("too big inline request")
	}
	line := bytes.TrimSuffix(b[:end], []byte{'\r'})
	if nul := bytes.IndexByte(line, 0); nul >= 0 {
		line = line[:nul] // to redis the line is a C string
	}
	p.at = end + 1
	if args, ok := words(line, args); ok {
		return args, p.done(), nil
	}
	return args, 0, ProtocolError("unbalanced quotes in request")
}

// words splits a line as redis-cli's own input is split: "double quotes" with \n \r \t \b \a \xHH \" \\, 'single quotes' with \'.
func words(line []byte, args [][]byte) (out [][]byte, ok bool) {
	for {
		line = bytes.TrimLeft(line, " \t\v\f\r\n")
		if len(line) == 0 {
			return args, true
		}
		word, rest, ok := nextWord(line)
		if !ok {
			return args, false
		}
		args, line = append(args, word), rest
	}
}

// nextWord takes the first word of a line that begins with one. Only a word with quotes in it is copied.
func nextWord(line []byte) (word, rest []byte, ok bool) {
	for i, c := range line {
		switch {
		case c == '"' || c == '\'':
			return quotedWord(line, i)
		case space(c):
			return line[:i:i], line[i:], true
		}
	}
	return line, nil, true
}

// quotedWord takes a word of which the first plain bytes are known, and a quote follows.
func quotedWord(line []byte, plain int) (word, rest []byte, ok bool) {
	word = append([]byte{}, line[:plain]...)
	for i := plain; i < len(line); i++ {
		switch c := line[i]; {
		case space(c):
			return word, line[i:], true
		case c == '"' || c == '\'':
			var n int
			if word, n = quoted(line[i:], word); n == 0 {
				return nil, nil, false
			}
			i += n - 1
			if i+1 < len(line) && !space(line[i+1]) { // a closing quote ends the word
				return nil, nil, false
			}
		default:
			word = append(word, c)
		}
	}
	return word, nil, true
}

// quoted appends what stands between the quote at the start of b and its end; n is 0 when there is no end.
func quoted(b, word []byte) (out []byte, n int) {
	quote := b[0]
	for i := 1; i < len(b); i++ {
		c := b[i]
		switch {
		case c == quote:
			return word, i + 1
		case c != '\\' || i+1 == len(b):
		case quote == '\'':
			if b[i+1] == '\'' {
				c = '\''
				i++
			}
		case b[i+1] == 'x' && i+3 < len(b) && hex(b[i+2]) >= 0 && hex(b[i+3]) >= 0:
			c = byte(hex(b[i+2])<<4 | hex(b[i+3]))
			i += 3
		default:
			i++
			c = unescape(b[i])
		}
		word = append(word, c)
	}
	return word, 0
}

// unescape returns the character that a letter after a backslash stands for.
func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// hex returns the value of a hexadecimal digit, or -1.
func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func space(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
