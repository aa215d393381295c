package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// isolation: a loop that polls wants a processor for itself.
func isolation(s *System) []Result {
	list, err := s.read("sys/devices/system/cpu/isolated")
	if err != nil {
		return unknown(err)
	}
	if list == "" {
		online, err := s.read("sys/devices/system/cpu/online")
		if err != nil {
			return unknown(err)
		}
		last := online[strings.LastIndexAny(online, "-,")+1:]
		if last == "0" {
			return note("there is one processor: a loop that polls shares it with everything else")
		}
		command := fmt.Sprintf("boot with isolcpus=managed_irq,domain,%[1]s nohz_full=%[1]s rcu_nocbs=%[1]s (as many of %[2]s as loops poll)",
			last, online)
		return cure(command, "no processor is isolated: other threads interrupt loops that poll")
	}
	full, err := s.read("sys/devices/system/cpu/nohz_full")
	if err != nil || full == "" || full == "(null)" {
		return cure("boot with nohz_full="+list, "processors %s are isolated, but their timer ticks", list)
	}
	return good("processors %s are isolated, without a tick: %s", list, full)
}

// governor: others than performance let the clock of a processor fall.
func governor(s *System) []Result {
	files, err := fs.Glob(s.Root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	if err != nil || len(files) == 0 {
		return note("the kernel does not set the processors' clock (a virtual machine, or the firmware does)")
	}
	var fixes []fix
	other := ""
	for _, f := range files {
		if g, err := s.read(f); err == nil && g != "performance" {
			fixes, other = append(fixes, fix{f, "performance"}), g
		}
	}
	if len(fixes) > 0 {
		return fixable(fixes, "governor %s on %d of %d processors: their clock falls while they wait", other, len(fixes), len(files))
	}
	return good("performance on %d processors", len(files))
}

// deepest is the longest way back to work that an idle state may have, in microseconds.
const deepest = 10

// idleStates: a deep one takes long to leave.
func idleStates(s *System) []Result {
	files, err := fs.Glob(s.Root, "sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/latency")
	if err != nil || len(files) == 0 {
		return note("the kernel controls no idle states here (a virtual machine, or idle=poll)")
	}
	var fixes []fix
	name, longest := "", 0
	for _, f := range files {
		us, err := s.number(f)
		state := strings.TrimSuffix(f, "latency")
		off, err2 := s.number(state + "disable")
		if err != nil || err2 != nil || off == 1 || us <= deepest {
			continue
		}
		fixes = append(fixes, fix{state + "disable", "1"})
		if us > longest {
			longest = us
			name, _ = s.read(state + "name")
		}
	}
	if len(fixes) > 0 {
		return fixable(fixes, "idle state %s takes %d µs to leave", name, longest)
	}
	return good("no idle state takes more than %d µs to leave", deepest)
}

// clockSource: others than these are read by a system call, or from a device.
func clockSource(s *System) []Result {
	const dir = "sys/devices/system/clocksource/clocksource0/"
	now, err := s.read(dir + "current_clocksource")
	if err != nil {
		return unknown(err)
	}
	switch now {
	case "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page":
		return good("%s", now)
	}
	available, _ := s.read(dir + "available_clocksource")
	for _, better := range []string{"tsc", "kvm-clock"} {
		if strings.Contains(" "+available+" ", " "+better+" ") {
			return cure("echo "+better+" > /"+dir+"current_clocksource", "%s: each reading is slow", now)
		}
	}
	return cure("boot with tsc=reliable, where the processor's counter is", "%s: each reading is slow; there is only %s", now, available)
}

// clockOffset: times of packets are worth what the clock is.
func clockOffset(s *System) []Result {
	const most = time.Millisecond
	if text, err := s.Command("chronyc", "-c", "tracking"); err == nil {
		if fields := strings.Split(strings.TrimSpace(text), ","); len(fields) > 4 {
			seconds, err := strconv.ParseFloat(fields[4], 64)
			offset := time.Duration(seconds * float64(time.Second)).Abs()
			if err == nil && fields[2] != "0" {
				if offset > most {
					return cure("chronyc makestep", "the clock is %v off (chrony, from %s)", offset, fields[1])
				}
				return good("the clock is %v off (chrony, from %s)", offset, fields[1])
			}
		}
	}
	offset, synchronized, err := s.Clock()
	switch {
	case err != nil:
		return unknown(err)
	case !synchronized:
		return cure("apt-get install chrony, or run ptp4l and phc2sys", "the clock follows no other: arrival times cannot be compared with other machines'")
	case offset.Abs() > most:
		return cure("chronyc makestep", "the clock is %v off", offset.Abs())
	}
	return good("the clock is synchronized, %v off", offset.Abs())
}

// busyPoll: the kernel polls devices for sockets that do not ask for it.
func busyPoll(s *System) []Result {
	var fixes []fix
	for _, name := range []string{"net.core.busy_poll", "net.core.busy_read"} {
		n, err := s.number(sysctl(name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // another network namespace than the first, or a kernel without
		case err != nil:
			return unknown(err)
		case n > 0:
			fixes = append(fixes, fix{sysctl(name), "0"})
		}
	}
	if len(fixes) > 0 {
		return fixable(fixes, "the kernel busy-polls in poll(2) and reads of all sockets: a loop that watches a ring's descriptor spins there")
	}
	return good("net.core.busy_poll and busy_read are 0")
}
