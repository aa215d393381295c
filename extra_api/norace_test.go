//go:build !race

package extraapi_test

const raceEnabled = false
