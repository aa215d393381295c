package conf_test

import (
	"fmt"
	"os"

	"github.com/socketxtreme/socketxtreme/conf"
)

// Settings come from the environment, VMA's names among them, and code changes what differs. A value that cannot be used leaves the
// default and is named.
func Example() {
	for name, value := range map[string]string{"VMA_RX_BUFS": "1024", "SX_RING": "epoll", "VMA_RX_POLL": "plenty"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
		defer os.Unsetenv(name) //nolint:errcheck // it was just set
	}

	s := conf.FromEnvironment()
	s.RingLogic = 10 // one ring per socket

	fmt.Println(s.Ring, s.SmallBuffers, s.RingLogic)
	fmt.Println(s.RxPoll == conf.Default().RxPoll)
	for _, w := range s.Warnings {
		fmt.Println("warning:", w)
	}
	// Output:
	// epoll 1024 10
	// true
	// warning: VMA_RX_POLL="plenty": want a number from -1 to 100000000; the default is used
}

// Validate names the first setting that is out of range.
func ExampleSettings_Validate() {
	s := conf.Default()
	fmt.Println(s.Validate())
	s.SmallBuffers = 10
	fmt.Println(s.Validate())
	// Output:
	// <nil>
	// conf: SmallBuffers 10: want 64 to 16777216
}

// ParseRingKind reads a kind by its name, as from a flag.
func ExampleParseRingKind() {
	fmt.Println(conf.ParseRingKind("uring"))
	_, err := conf.ParseRingKind("verbs")
	fmt.Println(err)
	// Output:
	// uring <nil>
	// ring kind "verbs": want auto, uring or epoll
}
