//go:build race

package ringtest

const raceEnabled = true
