package conf

import "strings"

// glob reports whether a name matches a shell pattern, as fnmatch(3) without flags does. A pattern has "*", "?", sets in brackets (negated by
// "!" or "^", with ASCII classes such as "[:alpha:]"), and "\\" before a character that stands for itself. A bracket that is not closed
// stands for itself. Collating elements ("[.x.]", "[=x=]") are not supported.
//
// It takes as little as possible for each "*", and goes back to the last one, which takes a byte more, when the rest does not match.
func glob(pattern, name string) bool {
	behind, from, starred := "", "", false // of the last star: the pattern behind it, and the rest of the name that it was tried at
	for name != "" {
		if pattern != "" && pattern[0] == '*' {
			pattern = pattern[1:]
			behind, from, starred = pattern, name, true
			continue
		}
		if pattern != "" {
			if rest, ok := globByte(pattern, name[0]); ok {
				pattern, name = rest, name[1:]
				continue
			}
		}
		if !starred {
			return false
		}
		from = from[1:] // the last star takes one byte more
		pattern, name = behind, from
	}
	return strings.Trim(pattern, "*") == ""
}

// globByte matches one byte against the first element of a pattern, which is not "*". It returns the rest of the pattern, and whether the byte
// matches.
func globByte(pattern string, c byte) (rest string, ok bool) {
	switch pattern[0] {
	case '?':
		return pattern[1:], true
	case '\\':
		if len(pattern) > 1 {
			return pattern[2:], pattern[1] == c
		}
	case '[':
		if rest, in, closed := globSet(pattern[1:], c); closed {
			return rest, in
		}
	}
	return pattern[1:], pattern[0] == c
}

// globSet matches the byte c against a set, which is given without its opening bracket. in reports whether c matches, closed whether the set
// has a closing bracket, and rest is the pattern behind that. A set with an unknown class matches nothing, as in glibc.
func globSet(set string, c byte) (rest string, in, closed bool) {
	i, not := 0, false
	if set != "" && (set[0] == '!' || set[0] == '^') {
		i, not = 1, true
	}
	unknown := false
	for first := i; i < len(set); i++ {
		if set[i] == ']' && i > first {
			return set[i+1:], in != not && !unknown, true
		}
		if name, ok := className(set[i:]); ok {
			class := classes[name]
			unknown = unknown || class == nil
			in = in || class != nil && class(c)
			i += len("[::]") + len(name) - 1
			continue
		}
		low, n := setByte(set[i:])
		i += n - 1
		high := low
		if i+2 < len(set) && set[i+1] == '-' && set[i+2] != ']' {
			high, n = setByte(set[i+2:])
			i += 1 + n
		}
		in = in || low <= c && c <= high
	}
	return "", false, false
}

// setByte returns the first byte of a set, and how many bytes of the pattern it takes: two if it is escaped.
func setByte(set string) (c byte, n int) {
	if set[0] == '\\' && len(set) > 1 {
		return set[1], 2
	}
	return set[0], 1
}

// className returns the name of the class, such as "alpha" of "[:alpha:]", with which set begins; ok is false if it begins with none.
func className(set string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(set, "[:")
	if !ok {
		return "", false
	}
	name, _, ok = strings.Cut(rest, ":]")
	return name, ok && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == ""
}

// classes are those of POSIX, in its locale "C".
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isLetter(c) || isDigit(c) },
	"alpha":  isLetter,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  isLower,
	"print":  func(c byte) bool { return c == ' ' || isGraph(c) },
	"punct":  func(c byte) bool { return isGraph(c) && !isLetter(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' },
	"upper":  func(c byte) bool { return isLetter(c) && !isLower(c) },
	"xdigit": func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isGraph(c byte) bool  { return c > ' ' && c < 0x7f }
