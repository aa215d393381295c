//go:build !race

package offload_test

const raceEnabled = false
