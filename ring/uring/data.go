package uring

import "github.com/socketxtreme/socketxtreme/internal/sys"

// Each operation carries, as user data, what its completion needs: no lookup but two slice indexes.
//
//	63      57   56    55      32 31            0
//	|  code   |class|   slot     |  generation   |   operations of a socket
//	|  code   |  0  |     0      |  index        |   sends
//
// The class is that of the buffers a receive is given (0 elsewhere), so that a buffer returns to the pool whatever became of the socket.
type code uint8

const (
	codeStream   code = iota // multishot recv
	codeDatagram             // multishot recvmsg
	codeAccept               // multishot accept
	codeWritable             // poll for writability
	codeReset                // poll for the end of a stream, see watchReset
	codeReadable             // poll of a directly read socket while the ring sleeps, or multishot poll for readPolled
	codeSend                 // sendmsg
	codeEventfd              // poll of the eventfd
	codeTimer                // timeout for Arm's deadline
	codeIgnore               // completion means nothing

	codeCancel code = 0x40 // with one of the first six: cancels it
)

// operation is a set of a socket's operations that the kernel has.
type operation uint8

const (
	opReceive operation = 1 << iota
	opWritable
	opReset
	opReadable
)

// operations has the operation that a code stands for; 0 for codes that are not a socket's.
var operations = [...]operation{
	codeStream: opReceive, codeDatagram: opReceive, codeAccept: opReceive,
	codeWritable: opWritable, codeReset: opReset, codeReadable: opReadable,
}

const maxSlots = 1 << 24

func userData(c code, index uint32) uint64 { return uint64(c)<<57 | uint64(index) }

// userData is the user data of one of the socket's operations.
func (r *record) userData(c code) uint64 {
	u := uint64(c)<<57 | uint64(r.slot)<<32 | uint64(r.gen)
	if c == codeStream || c == codeDatagram {
		u |= uint64(r.class) << 56
	}
	return u
}

func codeOf(c *sys.CQE) code { return code(c.UserData >> 57) }

// record is the record of the socket that an operation belongs to; nil if the socket was detached since.
func (d *Driver) record(c *sys.CQE) *record {
	slot := uint32(c.UserData>>32) & (maxSlots - 1)
	if int(slot) < len(d.records) {
		if r := d.records[slot]; r.gen == uint32(c.UserData) && r.socket != nil {
			return r
		}
	}
	return nil
}
