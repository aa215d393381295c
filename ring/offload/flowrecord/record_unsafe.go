package flowrecord

import "unsafe"

// layout is the file as it lies in memory.
//
//	0        64       80
//	| header | slot 0 | slot 1 | ...
func layout(b []byte) (*header, []slot) {
	_ = b[headerBytes-1]
	h := (*header)(unsafe.Pointer(&b[0]))
	n := (len(b) - headerBytes) / slotBytes
	if n == 0 {
		return h, nil
	}
	return h, unsafe.Slice((*slot)(unsafe.Pointer(&b[headerBytes])), n)
}

// The sizes are those of the file.
var (
	_ [slotBytes]byte   = [unsafe.Sizeof(slot{})]byte{}
	_ [headerBytes]byte = [unsafe.Sizeof(header{}) + 16]byte{}
)
