package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What single parameters have in ways of their own.

// old adds names of older versions to an inert parameter.
func (p Parameter) old(names ...string) Parameter {
	p.Old = names
	return p
}

// also adds other spellings to an inert parameter.
func (p Parameter) also(names ...string) Parameter {
	p.Also = names
	return p
}

// logicNumber accepts the number of a ring allocation logic.
var logicNumber = accepted{"one of [0 1 10 20 30 31]", func(text string) (string, bool) {
	return text, slices.Contains([]string{"0", "1", "10", "20", "30", "31"}, text)
}}

// anything accepts any text.
func anything(text string) (string, error) { return text, nil }

// getInterfaces returns SX_OFFLOAD_INTERFACES as text.
func getInterfaces(s *Settings) string {
	list := make([]string, len(s.Offload.Interfaces))
	for i, n := range s.Offload.Interfaces {
		list[i] = n.String()
	}
	return strings.Join(list, ",")
}

// setInterfaces sets SX_OFFLOAD_INTERFACES from text.
func setInterfaces(s *Settings, text string) error {
	if text == "" {
		s.Offload.Interfaces = nil
		return nil
	}
	list, err := ParseInterfaces(text)
	if err == nil {
		s.Offload.Interfaces = list
	}
	return err
}

// getChecksum returns SX_CHECKSUM as text; the empty value is auto.
func getChecksum(s *Settings) string {
	if s.Offload.Checksum == "" {
		return string(ChecksumAuto)
	}
	return string(s.Offload.Checksum)
}

// setChecksum sets SX_CHECKSUM from text.
func setChecksum(s *Settings, text string) error {
	c, err := ParseChecksum(text)
	if err == nil {
		s.Offload.Checksum = c
	}
	return err
}

// getXDPMode returns SX_OFFLOAD_XDP_MODE as text; the empty value is auto.
func getXDPMode(s *Settings) string {
	if s.Offload.Mode == "" {
		return string(XDPAuto)
	}
	return string(s.Offload.Mode)
}

// setXDPMode sets SX_OFFLOAD_XDP_MODE from text.
func setXDPMode(s *Settings, text string) error {
	m, err := ParseXDPMode(text)
	if err == nil {
		s.Offload.Mode = m
	}
	return err
}

// getTimeSource returns SX_OFFLOAD_TIME as text; the empty value is poll.
func getTimeSource(s *Settings) string {
	if s.Offload.Time == "" {
		return string(TimePoll)
	}
	return string(s.Offload.Time)
}

// setTimeSource sets SX_OFFLOAD_TIME from text.
func setTimeSource(s *Settings, text string) error {
	t, err := ParseTimeSource(text)
	if err == nil {
		s.Offload.Time = t
	}
	return err
}

// getMemory returns VMA_MEM_ALLOC_TYPE as text.
func getMemory(s *Settings) string {
	if s.HugePages {
		return "2"
	}
	return "0"
}

var memoryTypes = map[string]bool{"0": false, "ANON": false, "1": false, "CONTIG": false, "2": true, "HUGE": true, "HUGEPAGES": true}

// setMemory sets VMA_MEM_ALLOC_TYPE from VMA's numbers and words, in upper or lower case.
func setMemory(s *Settings, text string) error {
	huge, ok := memoryTypes[strings.ToUpper(text)]
	if !ok {
		return fmt.Errorf("want 0 (ANON), 1 (CONTIG) or 2 (HUGEPAGES)")
	}
	s.HugePages = huge
	return nil
}

// force is VMA_SELECT_POLL_OS_FORCE. What was said of it is kept beside the ratio, so that it is shown changed where it was changed; read
// applies it when file and environment were asked, and before VMA_SELECT_POLL_OS_RATIO.
var force = access{
	want: "0 or 1",
	get: func(s *Settings) string {
		if v, ok := s.inert[forceName]; ok {
			return v
		}
		return "0"
	},
	set: func(s *Settings, text string) error {
		value, ok := yesOrNo.parse(text)
		if !ok {
			return fmt.Errorf("want 0 or 1")
		}
		s.storeInert(forceName, value)
		return nil
	},
	check: func(*Settings) bool { return true },
}

const forceName = "VMA_SELECT_POLL_OS_FORCE"

// The kernel takes segments of leastMSS to mostMSS bytes (tcp(7), TCP_MAXSEG), and of an MTU what its headers leave of it: 40 bytes less
// with IPv4, 60 with IPv6.
const (
	leastMSS, mostMSS = 88, 32767
	leastMTU, mostMTU = leastMSS + 60, mostMSS + 40
)

// zeroOr is 0, or a number within bounds.
func zeroOr(field func(*Settings) *int, least, most int) access {
	want, a := fmt.Sprintf("0, or a number from %d to %d", least, most), integer(field, least, most)
	return access{
		want: want,
		get:  a.get,
		set: func(s *Settings, text string) error {
			if text == "0" {
				*field(s) = 0
				return nil
			}
			if err := a.set(s, text); err != nil {
				return fmt.Errorf("want %s", want)
			}
			return nil
		},
		check: func(s *Settings) bool { return *field(s) == 0 || a.check(s) },
	}
}

// NoCongestionControl is the Congestion that asks for none at all, which the kernel does not offer.
const NoCongestionControl = "none"

var congestions = map[string]string{"0": "reno", "1": "cubic", "2": NoCongestionControl}

// parseCongestion reads VMA's numbers, or a name as the kernel has them (TCP_CA_NAME_MAX).
func parseCongestion(text string) (string, error) {
	if name, ok := congestions[text]; ok {
		return name, nil
	}
	_, err := strconv.Atoi(text)
	if err == nil || len(text) > 15 || strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-'
	}) {
		return "", fmt.Errorf("want 0, 1, 2 or the name of an algorithm")
	}
	return text, nil
}

// parseID accepts an application id: any text without blanks.
func parseID(text string) (string, error) {
	if text == "" || strings.ContainsAny(text, " \t\r\n") {
		return "", fmt.Errorf("want a text without blanks")
	}
	return text, nil
}

// getCPUs returns SX_LOOP_CPUS as text.
func getCPUs(s *Settings) string {
	list := make([]string, len(s.LoopCPUs))
	for i, cpu := range s.LoopCPUs {
		list[i] = strconv.Itoa(cpu)
	}
	return strings.Join(list, ",")
}

// maxCPU is the highest number of a processor that is accepted; Linux is built for at most 8192.
const maxCPU = 8191

// setCPUs sets SX_LOOP_CPUS from a list of numbers and ranges, such as "2,4-7".
func setCPUs(s *Settings, text string) error {
	if text == "" {
		s.LoopCPUs = nil
		return nil
	}
	var list []int
	for _, part := range strings.Split(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			high = low
		}
		first, e1 := strconv.Atoi(low)
		last, e2 := strconv.Atoi(high)
		if e1 != nil || e2 != nil || first < 0 || last < first || last > maxCPU {
			return fmt.Errorf("processors %q: want a number from 0 to %d, or a range such as 4-7", part, maxCPU)
		}
		if len(list)+last-first > maxCPU { // ranges may repeat processors
			return fmt.Errorf("processors %q: want at most %d in all", text, maxCPU+1)
		}
		for cpu := first; cpu <= last; cpu++ {
			list = append(list, cpu)
		}
	}
	s.LoopCPUs = list
	return nil
}

// checkCPUs reports whether all numbers of processors are possible, and no more of them than setCPUs accepts.
func checkCPUs(list []int) bool {
	return len(list) <= maxCPU+1 && !slices.ContainsFunc(list, func(cpu int) bool { return cpu < 0 || cpu > maxCPU })
}

func rxPoll(s *Settings) *int               { return &s.RxPoll }
func selectPoll(s *Settings) *time.Duration { return &s.SelectPoll }

// auto is an access that accepts the word auto too, which is stored as a number that a does not accept.
func auto[T comparable](a access, field func(*Settings) *T, number T) access {
	with := a
	with.want = "auto, or " + a.want
	with.get = func(s *Settings) string {
		if *field(s) == number {
			return "auto"
		}
		return a.get(s)
	}
	with.set = func(s *Settings, text string) error {
		if text == "auto" {
			*field(s) = number
			return nil
		}
		if a.set(s, text) != nil {
			return fmt.Errorf("want %s", with.want)
		}
		return nil
	}
	with.check = func(s *Settings) bool { return *field(s) == number || a.check(s) }
	return with
}
