//go:build !race

package ringtest

const raceEnabled = false
