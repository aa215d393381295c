package extraapi

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// AddRule adds a rule, in the grammar of libvma.conf, for sockets made from now on, and, one for udp_sender, for destinations that a socket
// finds the way to from now on: prepend puts it before all others of its role, and the first that matches wins. Several lines, and an
// application-id line that says whose rules they are, are taken as well. A line with a mistake is a *conf.RuleError, which names line and
// column, and changes nothing; VMA keeps what came before it, and refuses the next line whatever it is. Any goroutine. (VMA: add_conf_rule,
// which prepends.)
func AddRule(e *xtreme.Engine, line string, prepend bool) error {
	if e == nil {
		return fmt.Errorf("extraapi: AddRule: engine is nil: %w", unix.EINVAL)
	}
	if err := e.AddRule(line, prepend); err != nil {
		return fmt.Errorf("extraapi: AddRule: %w", err)
	}
	return nil
}
