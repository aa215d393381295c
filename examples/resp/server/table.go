package server

// command is one line of the table.
type command struct {
	name  string
	arity int // with the name; negative: at least so many
	do    func(c *Session, args [][]byte)

	flags             string // those that clients look at: write, readonly, fast …
	first, last, step int    // which arguments are keys
	group, summary    string
}

func (c *command) takes(n int) bool { return n == c.arity || c.arity < 0 && n >= -c.arity }

// commands are known by their names. They are filled in by init, because COMMAND reads them.
var commands map[string]*command

// table lists the commands in the order of COMMAND's reply.
func table() []command {
	const r, rf, w, wf, wo = "readonly", "readonly fast", "write", "write fast", "write denyoom"
	const wof = "write denyoom fast"
	const str, gen, conn, srv = "string", "generic", "connection", "server"
	return []command{
		{"get", 2, (*Session).get, rf, 1, 1, 1, str, "Returns the string value of a key."},
		{"set", -3, (*Session).set, wo, 1, 1, 1, str, "Sets the string value of a key, ignoring its type."},
		{"setnx", 3, (*Session).setnx, wof, 1, 1, 1, str, "Sets the value of a key only when it doesn't exist."},
		{"setex", 4, (*Session).setex, wo, 1, 1, 1, str, "Sets the value and expiration time of a key in seconds."},
		{"psetex", 4, (*Session).psetex, wo, 1, 1, 1, str, "Sets the value and expiration time of a key in milliseconds."},
		{"getset", 3, (*Session).getset, wof, 1, 1, 1, str, "Returns the previous value of a key after setting it."},
		{"getdel", 2, (*Session).getdel, wf, 1, 1, 1, str, "Returns the value of a key after deleting it."},
		{"getex", -2, (*Session).getex, wf, 1, 1, 1, str, "Returns the value of a key after setting its expiration time."},
		{"mget", -2, (*Session).mget, rf, 1, -1, 1, str, "Returns the values of one or more keys."},
		{"mset", -3, (*Session).mset, wo, 1, -1, 2, str, "Creates or modifies the values of one or more keys."},
		{"msetnx", -3, (*Session).msetnx, wo, 1, -1, 2, str, "Sets the values of keys only when none of them exists."},
		{"strlen", 2, (*Session).strlen, rf, 1, 1, 1, str, "Returns the length of a value."},
		{"append", 3, (*Session).append, wof, 1, 1, 1, str, "Appends a string to the value of a key."},
		{"getrange", 4, (*Session).getrange, r, 1, 1, 1, str, "Returns a part of a value."},
		{"substr", 4, (*Session).getrange, r, 1, 1, 1, str, "Returns a part of a value."},
		{"setrange", 4, (*Session).setrange, wo, 1, 1, 1, str, "Overwrites a part of a value from an offset on."},
		{"incr", 2, (*Session).incr, wof, 1, 1, 1, str, "Increments the integer value of a key by one."},
		{"decr", 2, (*Session).decr, wof, 1, 1, 1, str, "Decrements the integer value of a key by one."},
		{"incrby", 3, (*Session).incrby, wof, 1, 1, 1, str, "Increments the integer value of a key by a number."},
		{"decrby", 3, (*Session).decrby, wof, 1, 1, 1, str, "Decrements the integer value of a key by a number."},
		{"incrbyfloat", 3, (*Session).incrbyfloat, wof, 1, 1, 1, str, "Increments the floating point value of a key by a number."},

		{"del", -2, (*Session).del, w, 1, -1, 1, gen, "Deletes one or more keys."},
		{"unlink", -2, (*Session).del, wf, 1, -1, 1, gen, "Deletes one or more keys."},
		{"exists", -2, (*Session).exists, rf, 1, -1, 1, gen, "Counts which of the keys exist."},
		{"touch", -2, (*Session).exists, rf, 1, -1, 1, gen, "Counts which of the keys exist."},
		{"type", 2, (*Session).typeOf, rf, 1, 1, 1, gen, "Determines the type of value stored at a key."},
		{"expire", -3, (*Session).expire, wf, 1, 1, 1, gen, "Sets the expiration time of a key in seconds."},
		{"pexpire", -3, (*Session).pexpire, wf, 1, 1, 1, gen, "Sets the expiration time of a key in milliseconds."},
		{"expireat", -3, (*Session).expireat, wf, 1, 1, 1, gen, "Sets the expiration time of a key to a Unix timestamp."},
		{"pexpireat", -3, (*Session).pexpireat, wf, 1, 1, 1, gen, "Sets the expiration time of a key to a Unix timestamp in milliseconds."},
		{"ttl", 2, (*Session).ttl, rf, 1, 1, 1, gen, "Returns the time to live of a key in seconds."},
		{"pttl", 2, (*Session).pttl, rf, 1, 1, 1, gen, "Returns the time to live of a key in milliseconds."},
		{"expiretime", 2, (*Session).expiretime, rf, 1, 1, 1, gen, "Returns when a key expires as a Unix timestamp."},
		{"pexpiretime", 2, (*Session).pexpiretime, rf, 1, 1, 1, gen, "Returns when a key expires as a Unix timestamp in milliseconds."},
		{"persist", 2, (*Session).persist, wf, 1, 1, 1, gen, "Removes the expiration time of a key."},
		{"keys", 2, (*Session).keysLike, r, 0, 0, 0, gen, "Returns all key names that match a pattern."},
		{"scan", -2, (*Session).scan, r, 0, 0, 0, gen, "Iterates over the key names in the database."},
		{"randomkey", 1, (*Session).randomkey, r, 0, 0, 0, gen, "Returns a random key name from the database."},
		{"rename", 3, (*Session).rename, w, 1, 2, 1, gen, "Renames a key and overwrites the destination."},
		{"renamenx", 3, (*Session).renamenx, wf, 1, 2, 1, gen, "Renames a key only when the target key name doesn't exist."},

		{"ping", -1, (*Session).ping, "fast", 0, 0, 0, conn, "Returns the server's liveliness response."},
		{"echo", 2, (*Session).echo, "fast", 0, 0, 0, conn, "Returns the given string."},
		{"select", 2, (*Session).selectDB, "loading stale fast", 0, 0, 0, conn, "Changes the selected database."},
		{"quit", -1, (*Session).quit, "noscript loading stale fast no-auth allow-busy", 0, 0, 0, conn, "Closes the connection."},
		{"hello", -1, (*Session).hello, "noscript loading stale fast no-auth allow-busy", 0, 0, 0, conn, "Handshakes with the server."},
		{"auth", -2, (*Session).auth, "noscript loading stale fast no-auth allow-busy", 0, 0, 0, conn, "Authenticates the connection."},
		{"reset", 1, (*Session).reset, "noscript loading stale fast no-auth allow-busy", 0, 0, 0, conn, "Resets the connection."},
		{"client", -2, (*Session).client, "noscript loading stale", 0, 0, 0, conn, "A container for client connection commands."},

		{"command", -1, (*Session).command, "loading stale", 0, 0, 0, srv, "Returns detailed information about all commands."},
		{"config", -2, (*Session).config, "admin noscript loading stale", 0, 0, 0, srv, "A container for configuration commands."},
		{"info", -1, (*Session).info, "loading stale", 0, 0, 0, srv, "Returns information and statistics about the server."},
		{"dbsize", 1, (*Session).dbsize, rf, 0, 0, 0, srv, "Returns the number of keys in the database."},
		{"flushdb", -1, (*Session).flushdb, w, 0, 0, 0, srv, "Removes all keys from the current database."},
		{"flushall", -1, (*Session).flushall, w, 0, 0, 0, srv, "Removes all keys from all databases."},
		{"time", 1, (*Session).time, "loading stale fast", 0, 0, 0, srv, "Returns the server time."},
	}
}

// names is the order of the table.
var names []string

func init() {
	commands = map[string]*command{}
	all := table()
	for i := range all {
		commands[all[i].name] = &all[i]
		names = append(names, all[i].name)
	}
}

// longestName is longer than any command's.
const longestName = 32

// lookup finds a command in whatever case it was sent. It allocates nothing.
func lookup(name []byte) *command {
	var low [longestName]byte
	if len(name) > longestName {
		return nil
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	return commands[string(low[:len(name)])]
}
