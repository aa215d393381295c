package buffers_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

func TestDefaultLayout(t *testing.T) {
	l := buffers.DefaultLayout()
	require.NoError(t, l.Validate())
	require.Equal(t, 2240, l.Stride(buffers.Small))
	require.Equal(t, 65728, l.Stride(buffers.Large))
	require.Equal(t, 4096*2240+64*65728, l.Bytes())
}

func TestStrideIsAnOddNumberOfLines(t *testing.T) {
	for _, c := range []struct{ headroom, size, stride int }{
		{0, 1, 64}, {0, 64, 64}, {0, 65, 192}, {0, 128, 192}, {1, 64, 192}, {0, 192, 192},
		{0, 2048, 2112}, {64, 2048, 2112}, {65, 2048, 2240}, {192, 2048, 2240}, {193, 2048, 2368},
		{0, 65536, 65600}, {192, 65536, 65728},
	} {
		l := buffers.Layout{SmallSize: c.size, SmallCount: 1, Headroom: c.headroom}
		require.Equal(t, c.stride, l.Stride(buffers.Small), "%+v", c)
		require.Equal(t, 1, l.Stride(buffers.Small)/64%2)
	}
}

func TestHandlesAreSixteenBytes(t *testing.T) {
	for _, h := range []any{buffers.Packet{}, buffers.Buffer{}, buffers.Lent{}} {
		require.EqualValues(t, 16, reflect.TypeOf(h).Size(), "%T", h)
	}
}

func TestLayoutNamesTheBadField(t *testing.T) {
	for _, c := range []struct {
		change func(*buffers.Layout)
		want   string
	}{
		{func(l *buffers.Layout) { l.Headroom = -1 }, "Headroom is -1"},
		{func(l *buffers.Layout) { l.SmallCount = -2 }, "SmallCount is -2"},
		{func(l *buffers.Layout) { l.LargeCount = -3 }, "LargeCount is -3"},
		{func(l *buffers.Layout) { l.SmallSize = 0 }, "SmallSize is 0"},
		{func(l *buffers.Layout) { l.LargeSize = -65536 }, "LargeSize is -65536"},
		{func(l *buffers.Layout) { l.LargeSize = 2048 }, "LargeSize is 2048"},
		{func(l *buffers.Layout) { l.SmallSize = math.MaxInt }, "SmallSize is 9223372036854775807"},
		{func(l *buffers.Layout) { l.SmallCount = math.MaxInt }, "SmallCount is 9223372036854775807"},
		{func(l *buffers.Layout) { l.LargeCount = 65536 }, "below 4 GiB"},
		{func(l *buffers.Layout) { l.SmallCount, l.LargeCount = 0, 0 }, "SmallCount and LargeCount are both 0"},
	} {
		l := buffers.DefaultLayout()
		c.change(&l)
		require.ErrorContains(t, l.Validate(), c.want)
		require.ErrorIs(t, l.Validate(), buffers.ErrSize)
		_, err := buffers.New(nil, l)
		require.ErrorContains(t, err, c.want)
	}
}

func TestRegionTooShort(t *testing.T) {
	l := buffers.Layout{SmallSize: 100, SmallCount: 3}
	_, err := buffers.New(make([]byte, 575), l)
	require.ErrorIs(t, err, buffers.ErrSize)
	require.ErrorContains(t, err, "region has 575 bytes, layout needs 576")
	_, err = buffers.New(make([]byte, 576), l)
	require.NoError(t, err)
}

// Every buffer has its own memory: written with its index, all are still there at the end, and nothing beyond.
func TestBuffersDoNotOverlap(t *testing.T) {
	l := buffers.Layout{SmallSize: 100, SmallCount: 5, LargeSize: 300, LargeCount: 3, Headroom: 10}
	mem := make([]byte, l.Bytes()+100)
	p, err := buffers.New(mem, l)
	require.NoError(t, err)
	var all []uint32
	for c := buffers.Small; c < buffers.NumClasses; c++ {
		for p.Available(c) > 0 {
			i, ok := p.Take(c)
			if !ok {
				break
			}
			require.Equal(t, c, p.ClassOf(i))
			require.Len(t, p.Memory(i), l.Stride(c))
			require.Equal(t, l.Stride(c), cap(p.Memory(i)))
			fillConstant(p.Memory(i), byte(i+1))
			all = append(all, i)
		}
	}
	require.Len(t, all, 8)
	for _, i := range all {
		for _, b := range p.Memory(i) {
			require.Equal(t, byte(i+1), b)
		}
	}
	require.Equal(t, make([]byte, 100), mem[l.Bytes():])
	require.NotContains(t, mem[:l.Bytes()], byte(0), "all of the region is used")
}

func fillConstant(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func TestClassNames(t *testing.T) {
	require.Equal(t, "small", buffers.Small.String())
	require.Equal(t, "large", buffers.Large.String())
	require.Equal(t, "Class(7)", buffers.Class(7).String())
}
