package packetdrill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// call makes the system call of a statement. A call that blocks, in a statement that says that it may, is kept and tried again as time goes
// on.
func (r *player) call(st *Statement, until time.Duration) error {
	c, err := r.invocation(st.Call)
	if err != nil {
		return err
	}
	if c.Name == "connect" {
		r.numbers.fresh = true // its SYN has other sequence numbers than the connection before
	}
	if c.FD >= 0 {
		r.stream = c.FD // what code blocks assert is asked of the socket that was called last
	}
	res := r.subject.Call(r.now, c)
	if st.When.Blocks && blocks(res) {
		r.note("%s blocks", c.Name)
		r.blocked = append(r.blocked, &blockedCall{st, c, until})
		r.drain()
		return r.err
	}
	if st.When.Blocks && until > r.now+r.tolerance {
		return fmt.Errorf("the call returned at once, expected at %v", seconds(until))
	}
	if err := r.checkResult(st, c, res); err != nil {
		return err
	}
	r.drain()
	return r.err
}

// invocation returns a call with the subject's descriptors in place of the script's, and the bytes of the stream that it sends.
func (r *player) invocation(c *Call) (Invocation, error) {
	x := Invocation{Name: c.Name, FD: -1, Args: slices.Clone(c.Args)}
	if len(x.Args) > 0 && x.Args[0].Kind == ArgInt && c.Name != "socket" {
		fd, ok := r.fds[x.Args[0].Int]
		if !ok {
			return x, fmt.Errorf("the script has not opened descriptor %d", x.Args[0].Int)
		}
		x.FD = fd
		x.Args[0].Int = int64(fd)
	}
	if c.Name == "poll" && len(x.Args) > 0 {
		list := slices.Clone(x.Args[0].List)
		for i := range list {
			if err := r.pollFD(&list[i]); err != nil {
				return x, err
			}
		}
		x.Args[0].List = list
	}
	size := func(table map[string]int) (int, bool, error) {
		i, ok := table[c.Name]
		if !ok {
			return 0, false, nil
		}
		if i >= len(c.Args) || c.Args[i].Kind != ArgInt || c.Args[i].Int < 0 || c.Args[i].Int > 64<<20 {
			return 0, false, fmt.Errorf("%s needs a length as argument %d", c.Name, i+1)
		}
		return int(c.Args[i].Int), true, nil
	}
	n, ok, err := size(sendCalls)
	if err != nil {
		return x, err
	}
	if ok {
		x.Data = fill(r.written[x.FD], n)
	}
	x.Size, _, err = size(receiveCalls)
	return x, err
}

// pollFD puts the subject's descriptor into an element of poll's list.
func (r *player) pollFD(a *Arg) error {
	a.Fields = slices.Clone(a.Fields)
	for i := range a.Fields {
		f := &a.Fields[i]
		if f.Name != "fd" {
			continue
		}
		fd, ok := r.fds[f.Value.Int]
		if !ok {
			return fmt.Errorf("the script has not opened descriptor %d", f.Value.Int)
		}
		f.Value.Int = int64(fd)
	}
	return nil
}

// checkResult compares the result of a call with what the script expects. A call that succeeded also moves the player on: it advances the
// position in the stream that was written or read, or maps the script's number of a new descriptor to the subject's.
func (r *player) checkResult(st *Statement, c Invocation, got Result) error {
	want := st.Call
	r.note("%s = %d %s", c.Name, got.Value, got.Errno)
	if got.Value >= 0 {
		switch {
		case c.Data != nil:
			r.written[c.FD] += uint32(got.Value)
		case c.Size > 0:
			if i := differs(r.received[c.FD], got.Data); i >= 0 {
				return fmt.Errorf("content: byte %d of what was read is wrong", i)
			}
			if int64(len(got.Data)) != got.Value {
				return fmt.Errorf("the call returned %d and %d bytes", got.Value, len(got.Data))
			}
			r.received[c.FD] += uint32(got.Value)
		case opening[c.Name] && !want.Any && want.Value >= 0:
			r.fds[want.Value] = int(got.Value)
			r.stream = int(got.Value)
			got.Value = want.Value // descriptors are the script's to number
		}
	}
	if want.Any {
		return nil
	}
	if got.Value != want.Value || want.Errno != "" && got.Errno != want.Errno {
		return fmt.Errorf("expected %d %s, got %d %s", want.Value, want.Errno, got.Value, got.Errno)
	}
	if got.Value < 0 {
		return nil
	}
	if expected := outputs(want); expected != nil && !slices.Equal(expected, got.Out) {
		return fmt.Errorf("expected the values %q, got %q", expected, got.Out)
	}
	return nil
}

// outputs lists the values that the script expects a call to write.
func outputs(c *Call) (list []string) {
	switch {
	case c.Name == "getsockopt" && len(c.Args) > 3:
		for _, a := range c.Args[3].List {
			if a.Kind == ArgInt {
				list = append(list, strconv.FormatInt(a.Int, 10))
			} else {
				list = append(list, a.Text)
			}
		}
	case c.Name == "poll" && len(c.Args) > 0:
		for _, a := range c.Args[0].List {
			revents, _ := a.Field("revents")
			text := strings.Split(revents.Text, "|")
			slices.Sort(text)
			list = append(list, strings.Join(text, "|"))
		}
	}
	return list
}

// check evaluates the assertions of a %{ }% statement on values of the subject.
func (r *player) check(list []Check) error {
	for _, c := range list {
		got, ok := r.subject.Value(r.now, r.stream, c.Name)
		if !ok {
			return fmt.Errorf("the subject does not know %s", c.Name)
		}
		want := c.Value
		if c.Symbol != "" {
			if want, ok = r.subject.Value(r.now, r.stream, c.Symbol); !ok {
				return fmt.Errorf("the subject does not know %s", c.Symbol)
			}
		}
		holds := map[string]bool{"==": got == want, "!=": got != want, "<": got < want, "<=": got <= want, ">": got > want, ">=": got >= want}
		if !holds[c.Op] {
			return fmt.Errorf("line %d: %s is %d, expected %s %d", c.Line, c.Name, got, c.Op, want)
		}
	}
	return nil
}
