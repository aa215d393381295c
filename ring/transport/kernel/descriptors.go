package kernel

import "sync/atomic"

// socketDescriptors are the descriptors that sockets of this process have, of all pollers. Adopt refuses those: two sockets with one descriptor
// would take each other's data, and each would close it.
var socketDescriptors descriptorSet

// A descriptor is below 1<<31. Its bit is in a block, which is made when the first descriptor of its range is added: most processes have one.
const (
	blockBits  = 22
	blockCount = 1 << (31 - blockBits)
)

// descriptorSet is a set of descriptors. Any goroutine.
type descriptorSet struct {
	blocks [blockCount]atomic.Pointer[[1 << blockBits / 64]atomic.Uint64]
}

// add reports whether a descriptor was added: false if the set has it.
func (d *descriptorSet) add(fd int) bool {
	b := &d.blocks[fd>>blockBits]
	if b.Load() == nil {
		b.CompareAndSwap(nil, new([1 << blockBits / 64]atomic.Uint64))
	}
	bit := uint64(1) << (fd & 63)
	return b.Load()[fd&(1<<blockBits-1)/64].Or(bit)&bit == 0
}

// remove removes a descriptor, if the set has it.
func (d *descriptorSet) remove(fd int) {
	if b := d.blocks[fd>>blockBits].Load(); b != nil {
		b[fd&(1<<blockBits-1)/64].And(^(uint64(1) << (fd & 63)))
	}
}
