//go:build race

package gnet_test

const raceDetector = true
