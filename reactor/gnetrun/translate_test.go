package gnetrun

import (
	"reflect"
	"testing"

	upstream "github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// A field that a later gnet has is passed over, and an error when it is set.
func TestFieldsOfALaterGnet(t *testing.T) {
	type later struct {
		Multicore bool
		Unheard   int
		LogPath   []string // another type than ours
	}
	var ours gnet.Options
	to := reflect.ValueOf(&ours).Elem()
	require.NoError(t, carryOver(reflect.ValueOf(later{Multicore: true}), to))
	require.Equal(t, gnet.Options{Multicore: true}, ours)

	err := carryOver(reflect.ValueOf(later{Unheard: 7}), to)
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "option Unheard 7")
	require.ErrorContains(t, carryOver(reflect.ValueOf(later{LogPath: []string{"x"}}), to), "option LogPath [x]")
}

// All of gnet's options of today are passed on.
func TestTranslate(t *testing.T) {
	option, err := translate([]upstream.Option{upstream.WithNumEventLoop(3), upstream.WithTCPNoDelay(upstream.TCPDelay)})
	require.NoError(t, err)
	var ours gnet.Options
	option(&ours)
	require.Equal(t, gnet.Options{NumEventLoop: 3, TCPNoDelay: gnet.TCPDelay}, ours)
}
