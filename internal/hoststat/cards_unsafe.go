package hoststat

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of SIOCETHTOOL (include/uapi/linux/ethtool.h).
const (
	ethtoolGetStrings = 0x1b
	ethtoolGetStats   = 0x1d
	ethtoolGetSetInfo = 0x37
	stringsOfStats    = 1       // ETH_SS_STATS
	stringLength      = 32      // ETH_GSTRING_LEN
	mostStats         = 1 << 14 // a card with more is not asked
)

// losses are the names of a card's counters that are kept: those of what is lost or wrong. A card has hundreds, mostly of queues' packets.
var losses = regexp.MustCompile(`(?i)drop|miss|discard|err|no_?buf|out_of_buf|fifo|crc|overrun|overflow|alloc_fail|full|timeout|pause`)

// keptOfCard is the most counters that are kept of a card.
const keptOfCard = 64

// cards asks drivers for their own counters (ethtool -S). Own code in place of a library: it asks once a second, and allocates nothing then.
type cards struct {
	fd      int // any socket of the namespace
	of      map[string]*card
	turn    int
	set     setInfo
	request []uint64 // struct ethtool_stats with room for mostStats counters; made when the first card has some
}

// setInfo is struct ethtool_sset_info with one set.
type setInfo struct {
	cmd, reserved uint32
	mask          uint64
	data          [1]uint32
}

// card is what an interface's driver counts.
type card struct {
	count int      // of all its counters
	kept  []int    // the indexes of those that are kept
	names []string // "ethtool.rx_dropped"
	seen  int      // the turn in which the interface was there last
}

// openCards opens the socket by which cards are asked (SIOCETHTOOL); any socket serves.
func openCards() (*cards, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &cards{fd: fd, of: map[string]*card{}}, nil
}

func (c *cards) close() error { return unix.Close(c.fd) }

// begin begins a turn: interfaces that are not there any more are forgotten, so that one with the same name is asked for its names anew.
func (c *cards) begin() {
	for name, x := range c.of {
		if x.seen != c.turn {
			delete(c.of, name)
		}
	}
	c.turn++
}

// read calls add for each counter that is kept of an interface's card. A card that has another number of counters than at the last turn, after
// its queues were changed, is asked for its names anew.
//
// The number is asked for each time: many kernels write all counters, also behind a request with room for fewer. The request
// has room for mostStats, in case that the number changes between the two calls.
func (c *cards) read(name []byte, add func(name []byte, counter string, v uint64)) {
	n := c.countOf(name)
	x := c.of[string(name)]
	if x == nil || x.count != n {
		x = c.open(name, n)
		c.of[string(name)] = x
	}
	x.seen = c.turn
	if len(x.kept) == 0 {
		return
	}
	header := (*[2]uint32)(unsafe.Pointer(&c.request[0]))
	header[0], header[1] = ethtoolGetStats, uint32(x.count)
	if c.call(name, unsafe.Pointer(&c.request[0])) != 0 || int(header[1]) != x.count {
		return
	}
	for i, at := range x.kept {
		add(name, x.names[i], c.request[1+at])
	}
}

// countOf asks for the number of a card's counters: 0 if it has none, or more than mostStats.
func (c *cards) countOf(name []byte) int {
	c.set = setInfo{cmd: ethtoolGetSetInfo, mask: 1 << stringsOfStats}
	if c.call(name, unsafe.Pointer(&c.set)) != 0 || c.set.mask == 0 || c.set.data[0] > mostStats {
		return 0
	}
	return int(c.set.data[0])
}

// open asks for the names of a card's counters, of which there are count. The request has room for mostStats, as in read.
func (c *cards) open(name []byte, count int) *card {
	x := &card{count: count}
	if count == 0 {
		return x
	}
	const header = 12 // struct ethtool_gstrings has three 32-bit words in front
	// Mapped for the call alone: most of the room is never touched, and on the Go heap it would hasten the next garbage collection.
	raw, err := unix.Mmap(-1, 0, header+mostStats*stringLength, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return x
	}
	defer func() { _ = unix.Munmap(raw) }()
	binary.NativeEndian.PutUint32(raw, ethtoolGetStrings)
	binary.NativeEndian.PutUint32(raw[4:], stringsOfStats)
	binary.NativeEndian.PutUint32(raw[8:], uint32(count))
	if c.call(name, unsafe.Pointer(&raw[0])) != 0 || int(binary.NativeEndian.Uint32(raw[8:])) != count {
		return x
	}
	for i := range x.count {
		text := raw[header+i*stringLength : header+(i+1)*stringLength]
		if n := bytes.IndexByte(text, 0); n >= 0 {
			text = text[:n]
		}
		if losses.Match(text) && len(x.kept) < keptOfCard {
			x.kept = append(x.kept, i)
			x.names = append(x.names, "ethtool."+string(text))
		}
	}
	if len(x.kept) > 0 && c.request == nil {
		c.request = make([]uint64, 1+mostStats)
	}
	return x
}

// call makes the ioctl SIOCETHTOOL for an interface; data points to the command's struct.
func (c *cards) call(name []byte, data unsafe.Pointer) unix.Errno {
	req := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: data}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	return e
}
