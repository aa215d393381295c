package gnetrun

import (
	"fmt"
	"reflect"
	"time"

	upstream "github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// Config is what a server is run with beside its handler and addresses.
type Config struct {
	// Gnet is options of gnet.
	Gnet []upstream.Option
	// Own is options of package reactor/gnet, applied after them.
	Own []gnet.Option
	// NoCarrier gives the handler the zero Engine, whose methods all fail. Handlers that only store it need no more.
	NoCarrier bool
}

// Run is gnet.Run on rings: the import-swap package's defaults, gnet's handler and options. See the package
// documentation for the Engine that the handler is given.
func Run(handler upstream.EventHandler, address string, options ...upstream.Option) error {
	return RunWith(handler, []string{address}, Config{Gnet: options})
}

// Rotate is Run for several addresses.
func Rotate(handler upstream.EventHandler, addresses []string, options ...upstream.Option) error {
	return RunWith(handler, addresses, Config{Gnet: options})
}

// RunWith is Rotate with options of ours.
func RunWith(handler upstream.EventHandler, addresses []string, c Config) error {
	if handler == nil {
		return fmt.Errorf("gnetrun: handler nil: %w", unix.EINVAL)
	}
	translated, err := translate(c.Gnet)
	if err != nil {
		return err
	}
	b := &bridge{handler: handler}
	if !c.NoCarrier {
		if b.carrier, err = startCarrier(handler); err != nil {
			return fmt.Errorf("gnetrun: carrier: %w", err)
		}
		defer b.carrier.end()
	}
	return gnet.Rotate(b, addresses, append([]gnet.Option{translated}, c.Own...)...)
}

// translate converts gnet's options to one option of package gnet, field by field.
func translate(options []upstream.Option) (gnet.Option, error) {
	var theirs upstream.Options
	for _, option := range options {
		option(&theirs)
	}
	var ours gnet.Options
	if err := carryOver(reflect.ValueOf(theirs), reflect.ValueOf(&ours).Elem()); err != nil {
		return nil, err
	}
	return gnet.WithOptions(ours), nil // the first option: nothing is overwritten
}

// carryOver copies the fields of a struct to those of the same name in another. A field that is set and unknown there, of a later gnet, is an
// error, because it cannot be honoured.
func carryOver(from, to reflect.Value) error {
	for i := range from.NumField() {
		field := from.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		namesake := to.FieldByName(field.Name)
		switch {
		case namesake.IsValid() && field.Type.AssignableTo(namesake.Type()):
			namesake.Set(from.Field(i))
		case !from.Field(i).IsZero():
			return fmt.Errorf("gnetrun: option %s %v: it is not known here: %w", field.Name, from.Field(i), unix.EINVAL)
		}
	}
	return nil
}

// bridge is a gnet handler as one of ours.
type bridge struct {
	handler upstream.EventHandler
	carrier *carrier
}

// engine returns gnet's Engine for the handler, the carrier's; the zero Engine without a carrier.
func (b *bridge) engine() upstream.Engine {
	if b.carrier == nil {
		return upstream.Engine{}
	}
	return b.carrier.engine
}

// OnBoot gives the handler the carrier's engine.
func (b *bridge) OnBoot(e gnet.Engine) gnet.Action {
	if b.carrier != nil {
		b.carrier.carry(e)
	}
	return b.handler.OnBoot(b.engine())
}

// OnShutdown calls the handler's, with gnet's Engine.
func (b *bridge) OnShutdown(gnet.Engine) { b.handler.OnShutdown(b.engine()) }

// OnOpen and the others are the handler's.
func (b *bridge) OnOpen(c gnet.Conn) ([]byte, gnet.Action) { return b.handler.OnOpen(c) }

// OnClose calls the handler's.
func (b *bridge) OnClose(c gnet.Conn, err error) gnet.Action { return b.handler.OnClose(c, err) }

// OnTraffic calls the handler's.
func (b *bridge) OnTraffic(c gnet.Conn) gnet.Action { return b.handler.OnTraffic(c) }

// OnTick calls the handler's.
func (b *bridge) OnTick() (time.Duration, gnet.Action) { return b.handler.OnTick() }

// OnDrained passes on what the handler may not know of.
func (b *bridge) OnDrained(c gnet.Conn) gnet.Action {
	if d, ok := b.handler.(gnet.Drainer); ok {
		return d.OnDrained(c)
	}
	return gnet.None
}
