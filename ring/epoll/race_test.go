//go:build race

package epoll

const raceEnabled = true
