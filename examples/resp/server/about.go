package server

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/resp/store"
)

// command is the command COMMAND.
func (c *Session) command(args [][]byte) {
	if len(args) == 1 {
		c.out.Array(len(names))
		for _, n := range names {
			c.describe(commands[n])
		}
		return
	}
	switch what := upper(args[1]); {
	case what == "COUNT" && len(args) == 2:
		c.out.Int(int64(len(names)))
	case what == "LIST" && len(args) == 2:
		c.out.Array(len(names))
		for _, n := range names {
			c.out.BulkString(n)
		}
	case what == "INFO":
		c.out.Array(max(len(args)-2, 0))
		for _, n := range args[2:] {
			if cmd := lookup(n); cmd != nil {
				c.describe(cmd)
			} else {
				c.out.Null()
			}
		}
	case what == "DOCS":
		c.docs(args[2:])
	default:
		c.subcommand("command", args, "COUNT", "LIST")
	}
}

// describe appends COMMAND's reply about one command.
func (c *Session) describe(cmd *command) {
	w := &c.out
	w.Array(10)
	w.BulkString(cmd.name)
	w.Int(int64(cmd.arity))
	flags := strings.Fields(cmd.flags)
	w.Set(len(flags))
	for _, f := range flags {
		w.Simple(f)
	}
	w.Int(int64(cmd.first))
	w.Int(int64(cmd.last))
	w.Int(int64(cmd.step))
	w.Set(0)   // categories of access control, which there is none of
	w.Array(0) // tips
	w.Array(0) // key specifications
	w.Array(0) // subcommands
}

// docs answers for the commands named, all if none is.
func (c *Session) docs(wanted [][]byte) {
	var list []*command
	for _, n := range wanted {
		if cmd := lookup(n); cmd != nil {
			list = append(list, cmd)
		}
	}
	if len(wanted) == 0 {
		for _, n := range names {
			list = append(list, commands[n])
		}
	}
	w := &c.out
	w.Map(len(list))
	for _, cmd := range list {
		w.BulkString(cmd.name)
		w.Map(2)
		w.BulkString("summary")
		w.BulkString(cmd.summary)
		w.BulkString("group")
		w.BulkString(cmd.group)
	}
}

// settings are what CONFIG GET knows, in the order of its reply.
func (s *Server) settings() [][2]string {
	return [][2]string{
		{"appendonly", "no"}, {"databases", strconv.Itoa(databases)}, {"maxmemory", "0"},
		{"port", strconv.Itoa(s.config.Port)}, {"proto-max-bulk-len", strconv.Itoa(s.config.Limits.Bulk)}, {"save", ""},
		{"timeout", "0"},
	}
}

// config is the command CONFIG.
func (c *Session) config(args [][]byte) {
	switch what := upper(args[1]); {
	case what == "GET" && len(args) > 2:
		var found [][2]string
		for _, s := range c.server.settings() {
			for _, pattern := range args[2:] {
				if store.Match(strings.ToLower(string(pattern)), s[0]) {
					found = append(found, s)
					break
				}
			}
		}
		c.out.Map(len(found))
		for _, s := range found {
			c.out.BulkString(s[0])
			c.out.BulkString(s[1])
		}
	case what == "SET" && len(args) > 3:
		c.out.Error("ERR CONFIG SET failed (possibly related to argument '" + string(args[2]) + "') - can't set immutable config")
	case what == "RESETSTAT" && len(args) == 2:
		c.server.accepted, c.server.commands = 0, 0
		for _, db := range c.server.dbs {
			db.Gone, db.Looked.Hit, db.Looked.Missed = 0, 0, 0
		}
		c.out.Simple("OK")
	default:
		c.subcommand("config", args, "GET", "SET", "RESETSTAT")
	}
}

// info is the command INFO.
func (c *Session) info(args [][]byte) {
	s := c.server
	up := int(time.Since(s.started).Seconds())
	var gone, hit, missed uint64
	keyspace := ""
	for i, db := range s.dbs {
		gone, hit, missed = gone+db.Gone, hit+db.Looked.Hit, missed+db.Looked.Missed
		if db.Len() > 0 {
			keyspace += fmt.Sprintf("db%d:keys=%d,expires=%d,avg_ttl=0\r\n", i, db.Len(), db.Dated())
		}
	}
	sections := [][2]string{
		{"Server", fmt.Sprintf("redis_version:%s\r\nredis_mode:standalone\r\nos:%s %s\r\narch_bits:%d\r\nprocess_id:%d\r\ntcp_port:%d\r\n"+
			"uptime_in_seconds:%d\r\n", Version, runtime.GOOS, runtime.GOARCH, strconv.IntSize, os.Getpid(), s.config.Port, up)},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\n", len(s.sessions))},
		{"Stats", fmt.Sprintf("total_connections_received:%d\r\ntotal_commands_processed:%d\r\nexpired_keys:%d\r\nkeyspace_hits:%d\r\n"+
			"keyspace_misses:%d\r\n", s.accepted, s.commands, gone, hit, missed)},
		{"Replication", "role:master\r\nconnected_slaves:0\r\n"},
		{"Keyspace", keyspace},
	}
	text := ""
	for _, section := range sections {
		wanted := len(args) == 1
		for _, a := range args[1:] {
			name := strings.ToLower(string(a))
			wanted = wanted || name == strings.ToLower(section[0]) || name == "all" || name == "everything" || name == "default"
		}
		if wanted {
			if text != "" {
				text += "\r\n"
			}
			text += "# " + section[0] + "\r\n" + section[1]
		}
	}
	c.out.Verbatim(text)
}

// time is the command TIME.
func (c *Session) time([][]byte) {
	now := time.Now()
	c.out.Array(2)
	c.out.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.out.BulkString(strconv.Itoa(now.Nanosecond() / 1000))
}
