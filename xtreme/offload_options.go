package xtreme

import (
	"log/slog"
	"strings"

	"github.com/socketxtreme/socketxtreme/conf"
)

// Logger is where an engine writes, one line each, what it decides by itself (the interfaces it opened for offloaded rings, with the checksum
// rule that holds there) and what of the settings has no effect. Reactors and networks on the engine write there too, unless they have a
// logger of their own. The default is the log that the settings describe, or slog.Default(); slog.DiscardHandler silences it. For New.
func Logger(l *slog.Logger) Option {
	return checked("Logger", forEngine, l != nil, "nil", func(c *options) { c.logger = l })
}

// Interfaces names the interfaces that a poller's offloaded ring may open, each as conf.ParseInterfaces reads it: "eth1", or "eth2:0-3"
// for some of its queues. Others stay the kernel's, and a wildcard is all of these. It overrides the engine's setting; pollers of another
// kind refuse it.
func Interfaces(names ...string) Option {
	return Option{"Interfaces", forPoller, func(c *options) (err error) {
		c.interfaces, err = conf.ParseInterfaces(strings.Join(names, ","))
		return err
	}}
}

// Checksum overrides the engine's policy for received UDP checksums, for a poller's offloaded ring; pollers of another kind refuse
// it, because their kernel verifies.
func Checksum(p conf.Checksum) Option {
	return Option{"Checksum", forPoller, func(c *options) (err error) {
		c.checksum, err = conf.ParseChecksum(string(p))
		return err
	}}
}

// OffloadTime overrides the engine's setting of what stamps the datagrams that a poller's offloaded ring receives, for sockets with
// Timestamps; pollers of another kind refuse it, because their kernel stamps. An interface that several pollers of the engine use is stamped
// as the one says that opens it; where that is less than another asked for, the paths of that poller's sockets tell (stamp.poll).
func OffloadTime(t conf.TimeSource) Option {
	return Option{"OffloadTime", forPoller, func(c *options) (err error) {
		c.time, err = conf.ParseTimeSource(string(t))
		return err
	}}
}

// RequireOffload makes it an error, with the reasons, if the socket cannot have an offloaded path: at its making, or at the step that
// gives it its ring. A socket on a wildcard address needs one interface that can be offloaded, others all that they name.
func RequireOffload() Option {
	return option("RequireOffload", forSocket, func(c *options) { c.offload = true })
}
