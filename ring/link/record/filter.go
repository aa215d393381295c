package record

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filter is a classic BPF program that chooses the frames to keep.
type filter struct{ vm *bpf.VM }

// filterMax is the most instructions of a program, the kernel's limit (BPF_MAXINSNS).
const filterMax = 4096

// parseFilter reads a program as tcpdump -ddd prints it, with its numbers separated by spaces, commas or ends of lines; nil for an empty text.
func parseFilter(text string) (*filter, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,\t\r\n", r) })
	if len(fields) == 0 {
		return nil, nil
	}
	bad := func(why string) (*filter, error) {
		return nil, fmt.Errorf("filter %q: %s; want what tcpdump -ddd prints: %w", text, why, unix.EINVAL)
	}
	numbers := make([]uint64, len(fields))
	for i, f := range fields {
		var err error
		if numbers[i], err = strconv.ParseUint(f, 10, 32); err != nil {
			return bad(fmt.Sprintf("%q is no number of 32 bits", f))
		}
	}
	n := numbers[0]
	if n < 1 || n > filterMax || uint64(len(numbers)) != 1+4*n {
		return bad(fmt.Sprintf("%d instructions are announced, and %d numbers follow", n, len(numbers)-1))
	}
	program := make([]bpf.Instruction, n)
	for i := range program {
		x := numbers[1+4*i:]
		if x[0] > 0xffff || x[1] > 0xff || x[2] > 0xff {
			return bad(fmt.Sprintf("instruction %d is out of range", i))
		}
		program[i] = bpf.RawInstruction{Op: uint16(x[0]), Jt: uint8(x[1]), Jf: uint8(x[2]), K: uint32(x[3])}.Disassemble()
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		return bad(err.Error())
	}
	return &filter{vm}, nil
}

// CheckFilter returns what is wrong with the text of a filter.
func CheckFilter(text string) error {
	_, err := parseFilter(text)
	return err
}

// accepts runs the program on a frame. One that reads beyond the frame refuses it, as in the kernel.
func (f *filter) accepts(frame []byte) bool {
	n, err := f.vm.Run(frame)
	return err == nil && n > 0
}
