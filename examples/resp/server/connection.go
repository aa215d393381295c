package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/resp/resp"
)

// ping is the command PING.
func (c *Session) ping(args [][]byte) {
	switch len(args) {
	case 1:
		c.out.Simple("PONG")
	case 2:
		c.out.Bulk(args[1])
	default:
		c.wrongNumber("ping")
	}
}

func (c *Session) wrongNumber(name string) {
	c.out.Error("ERR wrong number of arguments for '" + name + "' command")
}

func (c *Session) echo(args [][]byte) { c.out.Bulk(args[1]) }

// selectDB is the command SELECT.
func (c *Session) selectDB(args [][]byte) {
	i, ok := resp.ParseInt(args[1])
	switch {
	case !ok:
		c.out.Error(notAnInteger)
	case i < 0 || i >= databases:
		c.out.Error("ERR DB index is out of range")
	default:
		c.db = int(i)
		c.out.Simple("OK")
	}
}

func (c *Session) quit([][]byte) {
	c.out.Simple("OK")
	c.ending = true
}

func (c *Session) reset([][]byte) {
	c.db, c.name, c.out.Version = 0, "", 2
	c.out.Simple("RESET")
}

// noPassword is the answer to AUTH with nothing but a password: this server has none.
const noPassword = "ERR AUTH <password> called without any password configured for the default user. " +
	"Are you sure your configuration is correct?"

const wrongPassword = "WRONGPASS invalid username-password pair or user is disabled."

// auth refuses, but for the user default, who needs no password and may say any.
func (c *Session) auth(args [][]byte) {
	switch {
	case len(args) > 3:
		c.out.Error(syntaxError)
	case len(args) == 2:
		c.out.Error(noPassword)
	case string(args[1]) != "default":
		c.out.Error(wrongPassword)
	default:
		c.out.Simple("OK")
	}
}

// hello is the command HELLO.
func (c *Session) hello(args [][]byte) {
	version, name, named := c.out.Version, "", false
	if len(args) > 1 {
		v, ok := resp.ParseInt(args[1])
		if !ok {
			c.out.Error("ERR Protocol version is not an integer or out of range")
			return
		}
		if v != 2 && v != 3 {
			c.out.Error("NOPROTO unsupported protocol version")
			return
		}
		version = int(v)
	}
	for i := 2; i < len(args); i++ {
		switch word := upper(args[i]); {
		case word == "AUTH" && i+2 < len(args):
			if string(args[i+1]) != "default" {
				c.out.Error(wrongPassword)
				return
			}
			i += 2
		case word == "SETNAME" && i+1 < len(args):
			i++
			if name, named = string(args[i]), true; !validName(name) {
				c.out.Error(badName)
				return
			}
		default:
			c.out.Error("ERR Syntax error in HELLO option '" + string(args[i]) + "'")
			return
		}
	}
	if named {
		c.name = name
	}
	c.out.Version = version
	w := &c.out
	w.Map(7)
	w.BulkString("server")
	w.BulkString("redis")
	w.BulkString("version")
	w.BulkString(Version)
	w.BulkString("proto")
	w.Int(int64(version))
	w.BulkString("id")
	w.Int(c.id)
	w.BulkString("mode")
	w.BulkString("standalone")
	w.BulkString("role")
	w.BulkString("master")
	w.BulkString("modules")
	w.Array(0)
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

func validName(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '!' || r > '~' }) < 0
}

// client is the command CLIENT.
func (c *Session) client(args [][]byte) {
	switch what := upper(args[1]); {
	case what == "ID" && len(args) == 2:
		c.out.Int(c.id)
	case what == "GETNAME" && len(args) == 2:
		if c.name == "" {
			c.out.Null()
		} else {
			c.out.BulkString(c.name)
		}
	case what == "SETNAME" && len(args) == 3:
		if name := string(args[2]); validName(name) {
			c.name = name
			c.out.Simple("OK")
		} else {
			c.out.Error(badName)
		}
	case what == "SETINFO" && len(args) == 4, what == "NO-EVICT" && len(args) == 3, what == "NO-TOUCH" && len(args) == 3:
		c.out.Simple("OK")
	case what == "INFO" && len(args) == 2:
		c.out.Verbatim(c.line())
	case what == "LIST" && len(args) == 2:
		list := ""
		for _, other := range c.server.sessions {
			list += other.line()
		}
		c.out.Verbatim(list)
	default:
		c.subcommand("client", args, "ID", "GETNAME", "SETNAME", "SETINFO", "NO-EVICT", "NO-TOUCH", "INFO", "LIST")
	}
}

// subcommand answers to one that is unknown, or known and given the wrong number of arguments.
func (c *Session) subcommand(of string, args [][]byte, known ...string) {
	for _, k := range known {
		if k == upper(args[1]) {
			c.wrongNumber(of + "|" + strings.ToLower(k))
			return
		}
	}
	const most = 128
	sub := args[1][:min(len(args[1]), most)]
	c.out.Error("ERR unknown subcommand '" + string(sub) + "'. Try " + strings.ToUpper(of) + " HELP.")
}

// line describes a client as CLIENT LIST does.
func (c *Session) line() string {
	last := "NULL"
	if c.last != nil {
		last = c.last.name
	}
	return fmt.Sprintf("id=%d addr=%s name=%s age=%d db=%d cmd=%s user=default resp=%d\n", c.id, c.addr, c.name,
		int(time.Since(c.began).Seconds()), c.db, last, c.out.Version)
}
