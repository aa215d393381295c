package hoststat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Counter is one count with its name.
type Counter struct {
	Name  string
	Value uint64
}

// Reader reads the counters of a network namespace. One goroutine at a time.
type Reader struct {
	dev, igmp, softnet, snmp, netstat, stat, tasks *os.File // nil: this kernel has none
	cards                                          *cards
	links                                          *linkStats
	names                                          map[key]string             // of the counters of protocols
	ofInterfaces                                   map[string]*interfaceNames // by the interface's name
	turn                                           uint64                     // of Read
	text                                           []byte                     // what was read last
	list                                           []Counter
	samples                                        []metrics.Sample
	steal                                          uint64 // nanoseconds, as it was read last

	threads map[string]threadTimes // of this process, by number, as they were read last
	looks   uint64                 // how often that was
	ended   Schedule               // the sum of those that have ended
}

// key is a counter and its protocol, with a dot ("udp.").
type key struct{ protocol, counter string }

// interfaceNames are the names of an interface's counters that have been other than 0.
type interfaceNames struct {
	names map[string]string // by counter
	turn  uint64            // in which the interface was there last
}

// Open opens the sources in the calling thread's network namespace. What this kernel does not have is left out.
func Open() (*Reader, error) {
	r := &Reader{names: map[key]string{}, ofInterfaces: map[string]*interfaceNames{}, threads: map[string]threadTimes{}, text: make([]byte, 16<<10),
		samples: []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}}
	for _, x := range []struct {
		at   **os.File
		path string
	}{{&r.dev, "/proc/thread-self/net/dev"}, {&r.igmp, "/proc/thread-self/net/igmp"}, {&r.softnet, "/proc/thread-self/net/softnet_stat"},
		{&r.snmp, "/proc/thread-self/net/snmp"}, {&r.netstat, "/proc/thread-self/net/netstat"}, {&r.stat, "/proc/stat"}, {&r.tasks, "/proc/self/task"}} {
		f, err := os.Open(x.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return nil, errors.Join(fmt.Errorf("hoststat: %w", err), r.Close())
		}
		if err == nil {
			*x.at = f
		}
	}
	var err error
	if r.cards, err = openCards(); err != nil {
		return nil, errors.Join(fmt.Errorf("hoststat: %w", err), r.Close())
	}
	if r.links, err = openLinkStats(); err != nil {
		return nil, errors.Join(fmt.Errorf("hoststat: %w", err), r.Close())
	}
	return r, nil
}

// Close closes the sources.
func (r *Reader) Close() (err error) {
	for _, f := range []*os.File{r.dev, r.igmp, r.softnet, r.snmp, r.netstat, r.stat, r.tasks} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if r.cards != nil {
		err = errors.Join(err, r.cards.close())
	}
	if r.links != nil {
		err = errors.Join(err, r.links.close())
	}
	return err
}

// Read returns all counters as they are now. The list is good until the next call. A source that cannot be read is left out. What there is once
// comes before what there is of each interface, of which a host may have any number: where the list does not fit, its end is missing. A counter
// of an interface is in the list from its first value other than 0 on, until the interface is gone.
func (r *Reader) Read() []Counter {
	r.list = r.list[:0]
	r.protocols(r.load(r.snmp))
	r.protocols(r.load(r.netstat))
	r.softirq(r.load(r.softnet))
	r.processors(r.load(r.stat))
	r.process()
	r.turn++
	r.interfaces(r.load(r.dev))
	r.links.read(r.addOf)
	r.groups(r.load(r.igmp))
	for name, x := range r.ofInterfaces {
		if x.turn != r.turn {
			delete(r.ofInterfaces, name)
		}
	}
	return r.list
}

// load reads a file from its begin; the text is good until the next call.
func (r *Reader) load(f *os.File) []byte {
	if f == nil {
		return nil
	}
	n := 0
	for {
		k, err := unix.Pread(int(f.Fd()), r.text[n:], int64(n))
		if err != nil || k <= 0 {
			return r.text[:n]
		}
		if n += k; n == len(r.text) {
			r.text = append(r.text, make([]byte, len(r.text))...)
		}
	}
}

func (r *Reader) add(name string, v uint64) { r.list = append(r.list, Counter{name, v}) }

// addOf adds a counter of an interface. Its name is put together once.
func (r *Reader) addOf(ifName []byte, counter string, v uint64) {
	x := r.ofInterfaces[string(ifName)] // no allocation: the key does not outlive the call
	if x == nil {
		x = &interfaceNames{names: map[string]string{}}
		r.ofInterfaces[string(ifName)] = x
	}
	x.turn = r.turn
	name, ok := x.names[counter]
	if !ok {
		if v == 0 {
			return
		}
		name = string(ifName) + "." + counter
		x.names[counter] = name
	}
	r.add(name, v)
}

// devColumns are the counters of /proc/net/dev by column; empty: not kept.
var devColumns = [16]string{"rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "rx_fifo_errors", "rx_frame_errors", "", "multicast",
	"tx_bytes", "tx_packets", "tx_errors", "tx_dropped", "tx_fifo_errors", "", "tx_carrier_errors", ""}

// interfaces reads /proc/net/dev, and asks for the counters of the cards.
func (r *Reader) interfaces(text []byte) {
	r.cards.begin()
	for line := range bytes.Lines(text) {
		name, rest, found := bytes.Cut(line, []byte(":"))
		if !found {
			continue // the two lines of titles
		}
		name = bytes.TrimSpace(name)
		for i := range devColumns {
			var field []byte
			field, rest = nextField(rest)
			if devColumns[i] != "" {
				r.addOf(name, devColumns[i], number(field))
			}
		}
		r.cards.read(name, r.addOf)
	}
}

// groups reads /proc/net/igmp: how many groups are joined on each interface.
func (r *Reader) groups(text []byte) {
	for line := range bytes.Lines(text) {
		if len(line) == 0 || line[0] < '0' || line[0] > '9' {
			continue // titles, and lines of groups
		}
		_, rest := nextField(line)
		name, rest, _ := bytes.Cut(rest, []byte(": ")) // a blank is before the colon too, unless the name has ten characters or more
		name, _ = nextField(name)
		count, _ := nextField(rest)
		r.addOf(name, "groups", number(count))
	}
}

// softirq reads /proc/net/softnet_stat: a line for each processor, in hexadecimal.
func (r *Reader) softirq(text []byte) {
	var sums [3]uint64
	for line := range bytes.Lines(text) {
		for i := range sums {
			var field []byte
			field, line = nextField(line)
			sums[i] += hexadecimal(field)
		}
	}
	if len(text) > 0 {
		r.add("softnet.processed", sums[0])
		r.add("softnet.dropped", sums[1])
		r.add("softnet.time_squeeze", sums[2])
	}
}

// kept are the counters of protocols, as the kernel names them, behind our name of the protocol.
var kept = map[string][]string{
	"Ip:": {"ip.", "InReceives", "InHdrErrors", "InAddrErrors", "ForwDatagrams", "InUnknownProtos", "InDiscards", "InDelivers", "OutRequests", "ReasmReqds",
		"ReasmOKs", "ReasmFails"},
	"Icmp:":   {"icmp.", "OutMsgs"},
	"Udp:":    {"udp.", "InDatagrams", "NoPorts", "InErrors", "OutDatagrams", "RcvbufErrors", "SndbufErrors", "InCsumErrors", "IgnoredMulti", "MemErrors"},
	"Tcp:":    {"tcp.", "InSegs", "OutSegs", "RetransSegs", "InErrs", "InCsumErrors"},
	"IpExt:":  {"ip.", "InNoRoutes", "InTruncatedPkts", "InCsumErrors", "InMcastPkts", "OutMcastPkts"},
	"TcpExt:": {"tcp.", "ListenOverflows", "ListenDrops", "TCPBacklogDrop", "TCPRcvQDrop", "TCPTimeouts"},
}

// protocols reads /proc/net/snmp and /proc/net/netstat: for each protocol a line of names and a line of values.
func (r *Reader) protocols(text []byte) {
	for len(text) > 0 {
		names, rest, _ := bytes.Cut(text, []byte("\n"))
		values, rest, _ := bytes.Cut(rest, []byte("\n"))
		text = rest
		protocol, names := nextField(names)
		_, values = nextField(values)
		list := kept[string(protocol)]
		for len(list) > 0 && len(names) > 0 {
			var name, value []byte
			name, names = nextField(names)
			value, values = nextField(values)
			for _, k := range list[1:] {
				if k == string(name) {
					r.addProtocol(list[0], k, number(value))
				}
			}
		}
	}
}

// addProtocol adds a counter of a protocol.
func (r *Reader) addProtocol(protocol, counter string, v uint64) {
	name, ok := r.names[key{protocol, counter}]
	if !ok {
		name = protocol + counter
		r.names[key{protocol, counter}] = name
	}
	r.add(name, v)
}

// processors reads the first line of /proc/stat: hundredths of a second of all processors.
func (r *Reader) processors(text []byte) {
	_, rest := nextField(text)
	for i := range 8 {
		var field []byte
		field, rest = nextField(rest)
		switch i {
		case 6:
			r.add("cpu.softirq", number(field)*1e7)
		case 7:
			r.steal = number(field) * 1e7
			r.add("cpu.steal", r.steal)
		}
	}
}

// StealSince is the time that the host has taken from this machine's processors since the last Read or StealSince. It is the eighth number of
// the first line of /proc/stat ("cpu user nice system idle iowait irq softirq steal"), which counts hundredths of a second (USER_HZ).
func (r *Reader) StealSince() time.Duration {
	_, rest := nextField(r.load(r.stat))
	var field []byte
	for range 8 {
		field, rest = nextField(rest)
	}
	now := number(field) * 1e7
	past := now - min(now, r.steal)
	r.steal = now
	return time.Duration(past)
}

// nextField is the first word of a text, and what is behind it.
func nextField(text []byte) (field, rest []byte) {
	i := 0
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	j := i
	for j < len(text) && text[j] > ' ' {
		j++
	}
	return text[i:j], text[j:]
}

// number reads a decimal number; what is none, a negative one included, is 0.
func number(field []byte) (v uint64) {
	for _, c := range field {
		if c < '0' || c > '9' {
			return 0
		}
		v = 10*v + uint64(c-'0')
	}
	return v
}

// hexadecimal reads a hexadecimal number; what is none is 0, as for number.
func hexadecimal(field []byte) uint64 {
	v, err := strconv.ParseUint(string(field), 16, 64)
	if err != nil {
		return 0
	}
	return v
}
