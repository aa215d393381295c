package server

import (
	"time"

	"github.com/socketxtreme/socketxtreme/examples/resp/resp"
	"github.com/socketxtreme/socketxtreme/examples/resp/store"
)

// databases is how many there are for SELECT.
const databases = 16

// Version is the version of redis whose words the server uses.
const Version = "7.0.15"

// Config configures a Server. The zero Config is a good one.
type Config struct {
	Limits resp.Limits  // zero: resp.DefaultLimits
	Now    func() int64 // milliseconds since 1970; nil: the system's clock
	Port   int          // for clients that ask (INFO); 0: unknown
}

// Server is the key space and what is known about its clients. Loop only.
type Server struct {
	config   Config
	clock    *store.Clock
	dbs      [databases]*store.DB
	sessions []*Session
	lastID   int64
	started  time.Time
	accepted uint64
	commands uint64
	args     [][]byte // of the command under way
}

// New makes an empty server.
func New(c Config) *Server {
	if c.Limits == (resp.Limits{}) {
		c.Limits = resp.DefaultLimits
	}
	s := &Server{config: c, clock: store.NewClock(c.Now), started: time.Now()}
	for i := range s.dbs {
		s.dbs[i] = store.New(s.clock)
	}
	return s
}

// SetPort sets the port that INFO shows. Loop only.
func (s *Server) SetPort(port int) { s.config.Port = port }

// sweepMost is how many expired entries one Sweep removes from a database: some 50 µs of work.
const sweepMost = 200

// Sweep removes some of the entries that expired and that nobody asked for; call it about ten times a second. It says whether there
// may be more. Loop only.
func (s *Server) Sweep() (more bool) {
	s.clock.Forget()
	for _, db := range s.dbs {
		more = db.Sweep(sweepMost) == sweepMost || more
	}
	return more
}

// Open begins a session with the client at addr. Loop only.
func (s *Server) Open(addr string) *Session {
	s.lastID++
	s.accepted++
	c := &Session{server: s, id: s.lastID, addr: addr, place: len(s.sessions), began: time.Now()}
	c.parser = resp.NewParser(&s.config.Limits)
	c.out.Version = 2
	s.sessions = append(s.sessions, c)
	return c
}

// Session is one client. Loop only.
type Session struct {
	server *Server
	parser resp.Parser
	out    resp.Writer
	rest   rest // of the answer to the last command
	begin  int  // of what this call of Serve appends to out
	db     int  // selected
	ending bool

	id         int64
	place      int // in server.sessions
	addr, name string
	began      time.Time
	last       *command
}

// Close ends the session; it must not be used afterwards.
func (c *Session) Close() {
	all := c.server.sessions
	last := all[len(all)-1]
	all[c.place], last.place = last, c.place
	all[len(all)-1] = nil
	c.server.sessions = all[:len(all)-1]
}

// Need is how many bytes must have arrived before Serve can do anything; at least 1.
func (c *Session) Need() int { return c.parser.Need() }

// mostReply is about how many bytes of answers Serve collects before it lets the caller send them.
const mostReply = 1 << 20

// Serve runs the commands in in, which begins where the last Serve stopped. It appends the answers to out and returns that, with the
// number of bytes that are done with, and end when the connection is to be closed once the answers are sent.
//
// It stops early after 1 MiB of answers, also within one: call it again, with the bytes that are left, while n is not 0 or Answering
// tells so.
func (c *Session) Serve(in, out []byte) (n int, answers []byte, end bool) {
	s := c.server
	c.out.B, c.begin = out, len(out)
	c.resume()
	for n < len(in) && !c.ending && !c.enough() && !c.Answering() {
		args, used, err := c.parser.Next(in[n:], s.args[:0])
		s.args = args
		if err != nil {
			c.out.Error("ERR " + err.Error())
			c.ending = true
			n = len(in)
			break
		}
		if used == 0 {
			break
		}
		n += used
		if len(args) > 0 {
			c.run(args)
		}
	}
	if cap(s.args) > keptArgs {
		s.args = nil
	}
	s.clock.Forget()
	answers = c.out.B
	c.out.B = nil
	return n, answers, c.ending
}

// keptArgs is how many arguments the server keeps memory for between commands.
const keptArgs = 1024

// run runs one command.
func (c *Session) run(args [][]byte) {
	c.server.commands++
	cmd := lookup(args[0])
	if cmd == nil {
		c.out.Error(unknown(args))
		return
	}
	c.last = cmd
	if !cmd.takes(len(args)) {
		c.out.Error("ERR wrong number of arguments for '" + cmd.name + "' command")
		return
	}
	cmd.do(c, args)
}

// keys is the selected database.
func (c *Session) keys() *store.DB { return c.server.dbs[c.db] }

// unknown is redis's sentence for a command it does not have.
func unknown(args [][]byte) string {
	const most = 128
	name := args[0]
	text := "ERR unknown command '" + string(name[:min(len(name), most)]) + "', with args beginning with: "
	list := ""
	for _, a := range args[1:] {
		if len(list) >= most {
			break
		}
		list += "'" + string(a[:min(len(a), most-len(list))]) + "' "
	}
	return text + list
}
