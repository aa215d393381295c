//go:build !race

package xtreme_test

const raceEnabled = false
