package extraapi

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// AddRule adds a rule in the grammar of libvma.conf, for sockets that get their ring from now on; see xtreme.Engine.AddRule, which it calls.
// With prepend the rule is tried before all others of its role, else after them. line may have several lines, application-id lines among
// them. A mistake is a *conf.RuleError with line and column, and changes nothing; so is a text without any rule. Any goroutine. (VMA:
// add_conf_rule, which always prepends, keeps what came before a mistake, and fails for the next line whatever it is.)
func AddRule(e *xtreme.Engine, line string, prepend bool) error {
	if e == nil {
		return fmt.Errorf("extraapi: AddRule: engine is nil: %w", unix.EINVAL)
	}
	if err := e.AddRule(line, prepend); err != nil {
		return fmt.Errorf("extraapi: AddRule: %w", err)
	}
	return nil
}
