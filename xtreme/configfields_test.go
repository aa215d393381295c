package xtreme

import (
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// readByTheCall are the fields that the call that makes the socket reads itself.
var readByTheCall = map[string]bool{
	"DialConfig.Local": true, "DialConfig.Timeout": true, "UDPConfig.Groups": true, "UnixListenConfig.KeepSocketFile": true,
}

// Every field of every configuration changes what the socket is made with: none is forgotten on the way.
func TestEveryFieldOfAConfigurationIsRead(t *testing.T) {
	for _, c := range []interface{ options() *options }{&ListenConfig{}, &DialConfig{}, &TCPConfig{}, &UDPConfig{}, &UDPSocketConfig{},
		&UnixListenConfig{}, &UnixDialConfig{}, &AdoptConfig{}} {
		without := *c.options()
		eachField(reflect.ValueOf(c).Elem(), func(name string, field reflect.Value) {
			name = reflect.TypeOf(c).Elem().Name() + "." + name
			if readByTheCall[name] {
				return
			}
			field.Set(something(field.Type()))
			require.False(t, reflect.DeepEqual(without, *c.options()), name)
			field.SetZero()
			require.True(t, reflect.DeepEqual(without, *c.options()), name)
		})
	}
}

// eachField visits the fields, those of embedded structs as their own.
func eachField(v reflect.Value, visit func(name string, field reflect.Value)) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous {
			eachField(v.Field(i), visit)
		} else {
			visit(f.Name, v.Field(i))
		}
	}
}

var anAddress = netip.MustParseAddrPort("192.0.2.1:9")

// something is a value of a type that is not its zero value.
func something(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(of, func([]reflect.Value) []reflect.Value { panic("called") }))
	case reflect.Struct:
		if v.NumField() > 0 && v.Field(0).CanSet() {
			v.Field(0).Set(something(v.Field(0).Type()))
			return v
		}
		fallthrough
	default:
		if u := reflect.ValueOf(anAddress); u.Type() == of {
			return u
		}
		panic("no value of " + of.String())
	}
	return v
}

// The fields and methods that the documents name exist.
func TestNamesInTheDocumentsExist(t *testing.T) {
	types := map[string]reflect.Type{}
	for _, v := range []any{SocketConfig{}, IPConfig{}, ListenConfig{}, DialConfig{}, TCPConfig{}, UDPConfig{}, UDPSocketConfig{}, AdoptConfig{},
		UnixListenConfig{}, UnixDialConfig{}, PollerConfig{}, Engine{}, Poller{}, Socket{}, Completion{}, Packet{}, ring.Ring{}, ring.Path{},
		ring.SocketStats{}, ring.RingStats{}, conf.Settings{}} {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	name := regexp.MustCompile(`\b([A-Z][A-Za-z]+)\.([A-Z][A-Za-z]+)\b`)
	found := 0
	for _, path := range []string{"settings.md", "from-vma.md", "rings.md", "offload.md"} {
		text, err := os.ReadFile("../docs/" + path)
		require.NoError(t, err)
		for _, m := range name.FindAllStringSubmatch(strings.ReplaceAll(string(text), "tcp.Settings.", ""), -1) {
			of, ok := types[m[1]]
			if !ok {
				continue // of another package
			}
			found++
			_, field := of.FieldByName(m[2])
			_, method := reflect.PointerTo(of).MethodByName(m[2])
			require.True(t, field || method, "%s: there is no %s", path, m[0])
		}
	}
	require.Greater(t, found, 20)
}
