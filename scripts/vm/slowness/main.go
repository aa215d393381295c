// Command slowness prints how long a fixed piece of work takes here, in microseconds: the quotient of two machines is how much slower one of
// them is. It does the work several times and prints the longest. With the argument "processor" it prints the shortest, in processor time: what
// else is running does not count.
package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	processor := len(os.Args) > 1 && os.Args[1] == "processor"
	var all []time.Duration
	for range 3 {
		took, err := measure(processor)
		if err != nil {
			fmt.Fprintln(os.Stderr, "slowness:", err)
			os.Exit(1)
		}
		all = append(all, took)
	}
	took := slices.Max(all)
	if processor {
		took = slices.Min(all)
	}
	fmt.Println(max(took.Microseconds(), 1))
}

// measure does the work: a third each for the processor, the scheduler, and the kernel's sockets.
func measure(processor bool) (time.Duration, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // nothing is buffered
	to, b := c.LocalAddr().(*net.UDPAddr).AddrPort(), make([]byte, 64)
	sum, turn := uint64(1), make(chan int)
	start, err := now(processor)
	if err != nil {
		return 0, err
	}
	for i := range 10_000 {
		for range 1_000 {
			sum = sum*0x9e3779b97f4a7c15 + 1
			sum ^= sum >> 29
		}
		go func() { turn <- i }()
		sum += uint64(<-turn)
		if _, err := c.WriteToUDPAddrPort(b, to); err != nil {
			return 0, err
		}
		n, _, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return 0, err
		}
		sum += uint64(n)
	}
	end, err := now(processor)
	if sum == 0 {
		return 0, fmt.Errorf("the work was left out") // it is not: it has a result
	}
	return end - start, err
}

// now is the time since some moment: that which the process has used, or that of the clock.
func now(processor bool) (time.Duration, error) {
	if !processor {
		return time.Duration(time.Now().UnixNano()), nil
	}
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
