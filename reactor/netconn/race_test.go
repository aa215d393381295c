//go:build race

package netconn

const raceDetector = true
