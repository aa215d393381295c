package wire

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// naive is RFC 1071 by the letter.
func naive(b []byte) Sum {
	var n uint64
	for i := 0; i < len(b); i += 2 {
		w := uint64(b[i]) << 8
		if i+1 < len(b) {
			w |= uint64(b[i+1])
		}
		n += w
	}
	for n > 0xffff {
		n = n&0xffff + n>>16
	}
	return Sum(n)
}

func TestSumOfTheStandard(t *testing.T) {
	// RFC 1071 section 3.
	require.Equal(t, Sum(0xddf2), Sum(0).Add([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}))
}

func TestSumEqualsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 4096)
	for i := range buf {
		buf[i] = byte(r.Uint32())
	}
	ones := make([]byte, 4096)
	for i := range ones {
		ones[i] = 0xff
	}
	zeros := make([]byte, 4096)
	for n := range 300 {
		for _, from := range []int{0, 1, 3, 7} {
			for _, b := range [][]byte{buf, ones, zeros} {
				require.Equal(t, naive(b[from:from+n]), Sum(0).Add(b[from:from+n]), "%d bytes from %d", n, from)
			}
		}
	}
	for _, n := range []int{1460, 1472, 4000, 4001} {
		require.Equal(t, naive(buf[:n]), Sum(0).Add(buf[:n]))
		require.Equal(t, naive(ones[:n]), Sum(0).Add(ones[:n]))
	}
}

func TestSumsJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		b := make([]byte, 2+r.IntN(200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		cut := r.IntN(len(b)/2+1) * 2
		whole := Sum(0).Add(b)
		require.Equal(t, whole, Sum(0).Add(b[:cut]).Add(b[cut:]))
		require.Equal(t, whole, Sum(0).Add(b[:cut]).Plus(Sum(0).Add(b[cut:])))
	}
	require.Equal(t, Sum(0), Sum(0).Plus(0))
	require.Equal(t, Sum(0xffff), Sum(0xffff).Plus(0xffff))
	require.Equal(t, Sum(1), Sum(0xffff).Plus(1))
}

func TestUpdateEqualsAnew(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	b := make([]byte, 40)
	for range 5000 {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		at := 2 * r.IntN(18)
		was := Sum(0).Add(b).Check()
		old, now := binary.BigEndian.Uint16(b[at:]), uint16(r.Uint32())
		binary.BigEndian.PutUint16(b[at:], now)
		require.Equal(t, Sum(0).Add(b).Check(), Update16(was, old, now))

		was = Sum(0).Add(b).Check()
		old4, now4 := binary.BigEndian.Uint32(b[at:]), r.Uint32()
		binary.BigEndian.PutUint32(b[at:], now4)
		require.Equal(t, Sum(0).Add(b).Check(), Update32(was, old4, now4))
	}
	// RFC 1624 section 4: the case that the older equation gets wrong.
	require.Equal(t, uint16(0x0000), Update16(0xdd2f, 0x5555, 0x3285))
}

func TestPseudoEqualsItsBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		var b [12]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		b[8] = 0
		require.Equal(t, naive(b[:]),
			Pseudo(Addr(b[0:4]), Addr(b[4:8]), b[9], binary.BigEndian.Uint16(b[10:])))
	}
	full := Addr{255, 255, 255, 255}
	require.Equal(t, naive([]byte{255, 255, 255, 255, 255, 255, 255, 255, 0, 255, 255, 255}), Pseudo(full, full, 255, 65535))
}

func TestHeaderSumEqualsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 2000 {
		var h IPv4
		for i := range h {
			h[i] = byte(r.Uint32())
		}
		require.Equal(t, naive(h[:]), Sum(0).AddIPv4(&h))
	}
	require.Equal(t, Sum(0), Sum(0).AddIPv4(&IPv4{}))
}

func FuzzSum(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{0xff, 0xff, 0xff}, uint16(0xffff))
	f.Add(make([]byte, 67), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, start uint16) {
		require.Equal(t, naive(b).Plus(Sum(start)), Sum(start).Add(b))
	})
}

func BenchmarkSum(b *testing.B) {
	buf := make([]byte, 1500)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	for _, n := range []int{20, 64, 256, 1460} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			var s Sum
			for b.Loop() {
				s = s.Add(buf[:n])
			}
			sink = s
		})
	}
	b.Run("header", func(b *testing.B) {
		var s Sum
		h := (*IPv4)(buf)
		for b.Loop() {
			s = s.AddIPv4(h)
		}
		sink = s
	})
}

var sink Sum

// CheckDatagram says what CheckUDP says, for good, wrong, partial and missing sums of every length.
func TestCheckDatagram(t *testing.T) {
	from, to := Addr{10, 0, 0, 1}, Addr{10, 0, 0, 2}
	fields := IPv4Fields{TTL: 64, Protocol: ProtocolUDP, Source: from, Target: to}
	for n := range 130 {
		payload := make([]byte, n)
		for i := range payload {
			payload[i] = byte(i*7 + n)
		}
		u := UDPFields{SourcePort: 9, TargetPort: 10}
		b, err := u.Append(nil, from, to, payload)
		require.NoError(t, err)
		header, err := fields.Append(nil, len(b))
		require.NoError(t, err)
		ip := (*IPv4)(header)
		good := (*UDP)(b).Sum()
		for want, field := range map[SumState]uint16{
			SumGood: good, SumBad: good ^ 0x100, SumNone: 0, SumPartial: uint16(Pseudo(from, to, ProtocolUDP, uint16(len(b)))),
		} {
			binary.BigEndian.PutUint16(b[6:], field)
			h, data, drop := ParseUDP(b)
			require.Equal(t, Accept, drop)
			require.Equal(t, want, CheckDatagram(ip, b), "%d bytes", n)
			require.Equal(t, want, CheckUDP(ip, h, data), "%d bytes", n)
		}
	}
}

// BenchmarkCheckUDP is the check of a datagram of 64 bytes, in one piece and in two.
func BenchmarkCheckUDP(b *testing.B) {
	u := UDPFields{SourcePort: 9, TargetPort: 10}
	d, err := u.Append(nil, Addr{10, 0, 0, 1}, Addr{10, 0, 0, 2}, make([]byte, 64))
	require.NoError(b, err)
	fields := IPv4Fields{TTL: 64, Protocol: ProtocolUDP, Source: Addr{10, 0, 0, 1}, Target: Addr{10, 0, 0, 2}}
	header, err := fields.Append(nil, len(d))
	require.NoError(b, err)
	ip, h := (*IPv4)(header), (*UDP)(d)
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if CheckDatagram(ip, d) != SumGood {
				b.Fatal("bad sum")
			}
		}
	})
	b.Run("two", func(b *testing.B) {
		for b.Loop() {
			if CheckUDP(ip, h, d[UDPLen:]) != SumGood {
				b.Fatal("bad sum")
			}
		}
	})
}
