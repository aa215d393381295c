package feed

// MessageTypes is what the decoder of a protocol knows of its messages before it reads them: each has a type byte, and each type has a least
// length. Decoders use it to refuse messages in the same way. It is not changed after it was made; any goroutine may use it.
type MessageTypes struct {
	Lengths [256]uint8 // of the whole message, in bytes, by type; 0: the type is not known
	Offset  int        // of the type byte
	Short   error      // the reason when a message is shorter than its type
	Other   error      // the reason when a message is of another type than the wanted one
	Unknown func(messageType byte) error
}

// Check reports whether m is of a known type and as long as that type. It is nil, the error of Unknown, or a *FormatError.
func (t *MessageTypes) Check(m []byte) error {
	if len(m) > t.Offset {
		if n := int(t.Lengths[m[t.Offset]]); n != 0 && len(m) >= n {
			return nil
		}
	}
	return t.Refuse(m, 0)
}

// Refuse is the error for a message that is not a whole one of the wanted type.
func (t *MessageTypes) Refuse(m []byte, want int) error {
	if len(m) <= t.Offset {
		return &FormatError{Reason: t.Short, Type: NoType, Have: len(m), Want: t.Offset + 1}
	}
	have := int(m[t.Offset])
	switch n := int(t.Lengths[have]); {
	case n == 0:
		return t.Unknown(byte(have))
	case len(m) < n:
		return &FormatError{Reason: t.Short, Type: have, Have: len(m), Want: n}
	}
	return &FormatError{Reason: t.Other, Type: have, Offset: t.Offset, Have: have, Want: want}
}
