// Package firewall makes rules of nf_tables that drop datagrams, in the network namespace of the calling thread. The machine need not have nft.
// For tests and for programs that inject faults.
package firewall

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// DropUDP makes a table with one rule, "meta l4proto udp drop", for what comes in to this host. Its error has the kernel's errno:
// EPROTONOSUPPORT, EOPNOTSUPP and ENOENT are a kernel without nf_tables or without what the rule needs.
func DropUDP(table string) error { return drop(table) }

// DropNewUDP is DropUDP for what is new to the connection tracker: "udp ct state new drop".
func DropNewUDP(table string) error {
	return drop(table,
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)})
}

// Remove removes a table and its rule.
func Remove(table string) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("nf_tables: %w", err)
	}
	c.DelTable(&nftables.Table{Name: table, Family: nftables.TableFamilyIPv4})
	return flush(c, table)
}

// drop makes a table with one chain at the input hook, whose rule drops UDP that matches.
func drop(table string, match ...expr.Any) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("nf_tables: %w", err)
	}
	t := c.AddTable(&nftables.Table{Name: table, Family: nftables.TableFamilyIPv4})
	in := c.AddChain(&nftables.Chain{Name: "in", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
		Priority: nftables.ChainPriorityFilter})
	udp := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
	}
	c.AddRule(&nftables.Rule{Table: t, Chain: in, Exprs: append(append(udp, match...), &expr.Verdict{Kind: expr.VerdictDrop})})
	return flush(c, table)
}

func flush(c *nftables.Conn, table string) error {
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nf_tables: table %s: %w", table, err)
	}
	return nil
}
