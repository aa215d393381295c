package wheel

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// FuzzModel reads operations of nine bytes: one that says what, eight that say when or which.
func FuzzModel(f *testing.F) {
	op := func(all []byte, what byte, arg uint64) []byte {
		return binary.LittleEndian.AppendUint64(append(all, what), arg)
	}
	lazy := op(op(op(op(nil, 0, 100), 1, 500), 3, 200), 3, 1000)
	f.Add(int64(0), uint8(0), lazy)
	f.Add(int64(0), uint8(20), op(op(op(nil, 0, 1<<40), 3, 1<<41), 3, 1<<50))
	f.Add(int64(math.MinInt64), uint8(0), op(op(nil, 0, math.MaxUint64), 3, math.MaxUint64))
	f.Add(int64(12345), uint8(3), op(op(op(op(nil, 0, 5), 8, 7), 2, 0), 11, 9))
	f.Fuzz(func(t *testing.T, start int64, shift uint8, operations []byte) {
		m := newModel(t, clock.Time(start), time.Duration(1)<<(shift%63))
		for n := 0; len(operations) >= 9 && n < 500; n, operations = n+1, operations[9:] {
			what, arg := operations[0], binary.LittleEndian.Uint64(operations[1:])
			at := m.now.Add(time.Duration(arg)) // half of them past
			switch what % 4 {
			case 0:
				m.start(at)
			case 1:
				m.reset(arg>>48, at)
			case 2:
				m.stop(arg)
				m.useDead(arg >> 8)
			case 3:
				limit := math.MaxInt
				if what&4 != 0 {
					limit = int(what >> 4)
				}
				m.expire(at, limit, func() {
					if what&8 != 0 {
						m.reset(arg>>40, at.Add(time.Duration(arg>>32)))
					}
				})
			}
			m.check()
		}
	})
}
