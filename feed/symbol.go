package feed

// Symbol is a ticker of at most eight characters in one word. The first character is the lowest byte, as the exchanges send it, and
// spaces fill the rest. Equal symbols are equal numbers, so that a book finds an instrument without a string.
type Symbol uint64

// SymbolOf packs the first eight characters of s.
func SymbolOf(s string) (n Symbol) {
	for i := range 8 {
		c := byte(' ')
		if i < len(s) {
			c = s[i]
		}
		n |= Symbol(c) << (8 * i)
	}
	return n
}

// String is the symbol without the padding.
func (s Symbol) String() string {
	var b [8]byte
	for i := range b {
		b[i] = byte(s >> (8 * i))
	}
	end := len(b)
	for end > 0 && (b[end-1] == ' ' || b[end-1] == 0) {
		end--
	}
	return string(b[:end])
}
