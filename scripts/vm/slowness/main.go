// Command slowness prints how long a fixed piece of work takes here, in microseconds: the quotient of two machines is how much slower one of
// them is. With the argument "processor" it prints the processor time: what else is running does not count.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	processor := len(os.Args) > 1 && os.Args[1] == "processor"
	least, sum, turn := time.Hour, uint64(1), make(chan int)
	for range 5 {
		start := now(processor)
		for i := range 2_000 {
			for range 1_000 {
				sum = sum*0x9e3779b97f4a7c15 + 1
				sum ^= sum >> 29
			}
			sum += uint64(os.Getppid()) // the kernel's share
			go func() { turn <- i }()   // and the scheduler's
			sum += uint64(<-turn)
		}
		least = min(least, now(processor)-start)
	}
	if sum == 0 { // it is not: the loops may not be left out
		os.Exit(1)
	}
	fmt.Println(max(least.Microseconds(), 1))
}

// now is the time since some moment: that which the process has used, or that of the clock.
func now(processor bool) time.Duration {
	if !processor {
		return time.Duration(time.Now().UnixNano())
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		fmt.Fprintln(os.Stderr, "getrusage:", err)
		os.Exit(1)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
