//go:build race

package tcptest

const raceEnabled = true
