package store

// Match says whether s matches a pattern of redis's KEYS: * ? [abc] [a-z] [^abc] and \ before any of them.
//
// It goes back to the last star only, so that no pattern takes longer than the product of the two lengths.
func Match(pattern, s string) bool {
	star, retry := -1, 0 // where to go on in the pattern, and in s, when it does not fit
	p, i := 0, 0
	for {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, retry = p, i
			continue
		}
		if i == len(s) {
			return p == len(pattern)
		}
		if n := one(pattern[p:], s[i]); n > 0 {
			p += n
			i++
			continue
		}
		if star < 0 {
			return false
		}
		retry++
		p, i = star, retry
	}
}

// one matches a byte with the first element of a pattern and returns that element's length; 0 when it does not fit.
func one(pattern string, c byte) int {
	if pattern == "" {
		return 0
	}
	switch {
	case pattern[0] == '?':
		return 1
	case pattern[0] == '[':
		return class(pattern, c)
	case pattern[0] == '\\' && len(pattern) > 1:
		if pattern[1] == c {
			return 2
		}
		return 0
	case pattern[0] == c:
		return 1
	}
	return 0
}

// class matches a byte with [...]; one without an end ends with the pattern.
func class(pattern string, c byte) int {
	p := 1
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	found := false
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			found = found || pattern[p] == c
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := pattern[p], pattern[p+2]
			if low > high {
				low, high = high, low
			}
			found = found || low <= c && c <= high
			p += 2
		default:
			found = found || pattern[p] == c
		}
	}
	if found == not {
		return 0
	}
	return min(p+1, len(pattern))
}
